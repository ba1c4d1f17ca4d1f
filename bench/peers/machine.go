package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// unknown stands for what this system does not tell in the way that Linux does.
const unknown = "unknown"

// machine lists what figures depend on, as pairs of name and value.
func machine(dir string) [][2]string {
	return [][2]string{
		{"processor", fieldOf("/proc/cpuinfo", "model name")},
		{"cores", formatRate(float64(runtime.NumCPU()))},
		{"memory", fieldOf("/proc/meminfo", "MemTotal")},
		{"system", runtime.GOOS + "/" + runtime.GOARCH},
		{"kernel", contentOf("/proc/sys/kernel/osrelease")},
		{"file system", filesystem(dir)},
		{"Go", runtime.Version()},
		{"Java", javaVersion()},
	}
}

func contentOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	return string(bytes.TrimSpace(text))
}

// fieldOf returns the value of the first line "name: value" of a file.
func fieldOf(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

// filesystem returns type and options of the mount that has dir.
func filesystem(dir string) string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return unknown
	}
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return unknown
	}
	return mountOf(string(text), path)
}

// mountOf finds the longest mount point that path is below, the last one mounted there.
func mountOf(mountinfo, path string) string {
	best, found := "", unknown
	for line := range strings.Lines(mountinfo) {
		mount, source, ok := strings.Cut(line, " - ")
		m, s := strings.Fields(mount), strings.Fields(source)
		if !ok || len(m) < 6 || len(s) < 1 {
			continue
		}
		point := strings.TrimSuffix(m[4], "/")
		if (path == point || strings.HasPrefix(path, point+"/")) && len(point) >= len(best) {
			best, found = point, s[0]+" ("+m[5]+")"
		}
	}
	return found
}

// versions maps the modules of this program to their versions.
func versions() map[string]string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	found := make(map[string]string)
	for _, m := range info.Deps {
		found[m.Path] = m.Version
		if m.Replace != nil {
			found[m.Path] = "this repository"
		}
	}
	return found
}
