package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"strings"
)

// Names in an identity.
const (
	idBytes   = "bytes of bodies in a measurement"
	idLimit   = "limit of a measurement"
	idPeers   = "peers"
	idVersion = "version of " // a peer
)

// identity is what figures depend on: those that differ in any of it are not mixed.
func identity(opts options, measured []peer) [][2]string {
	pairs := append(machine(opts.dir),
		[2]string{"commit", commit()},
		[2]string{idBytes, fmt.Sprint(opts.bytes)},
		[2]string{idLimit, opts.limit.String()},
		[2]string{idPeers, strings.Join(names(measured), ", ")})
	known := versions()
	for _, p := range measured {
		if v := known[p.module]; v != "" {
			pairs = append(pairs, [2]string{idVersion + p.name, v})
		}
	}
	return pairs
}

// names are those of peers. They have no comma.
func names(of []peer) []string {
	list := make([]string, len(of))
	for i, p := range of {
		list[i] = p.name
	}
	return list
}

// commit is the last one that changed more than documents, and a sum of what was changed since.
func commit() string {
	code := []string{"--", ":/", ":(top,exclude)docs", ":(top,exclude)*.md"}
	last, err := exec.Command("git", append([]string{"log", "-1", "--format=%H"}, code...)...).Output()
	if err != nil {
		return unknown
	}
	changes, err := exec.Command("git", append([]string{"diff", "HEAD"}, code...)...).Output()
	if err != nil {
		return unknown
	}
	id := string(bytes.TrimSpace(last))
	if len(changes) > 0 {
		id += fmt.Sprintf(" and changes %x", sha256.Sum256(changes))[:len(" and changes ")+8]
	}
	return id
}

// javaVersion is the first line that java tells of itself.
func javaVersion() string {
	out, err := exec.Command("java", "-version").CombinedOutput()
	if err != nil {
		return "none"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.ReplaceAll(strings.TrimSpace(first), `"`, "")
}
