package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sourceFile is a file to send.
type sourceFile struct {
	path string
	size int64
	tag  string // of its messages: the directory below the one that was named
}

// findFiles returns the files that were named, and the *.go files below the
// directories that were, in order; without arguments, Go's standard library.
func findFiles(ctx context.Context, args []string) ([]sourceFile, error) {
	if len(args) == 0 {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return nil, fmt.Errorf("where Go's sources are: %w (name files or directories instead)", err)
		}
		args = []string{filepath.Join(strings.TrimSpace(string(out)), "src")}
	}
	var files []sourceFile
	for _, root := range args {
		root, err := filepath.Abs(root)
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path != root && filepath.Ext(path) != ".go" {
				return err
			}
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				return err
			}
			files = append(files, sourceFile{path, info.Size(), tagOf(root, path)})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if totalSize(files) == 0 {
		return nil, fmt.Errorf("there is no text in %s", strings.Join(args, " "))
	}
	return files, nil
}

// tagOf is the first directory between root and path, else root's own name.
func tagOf(root, path string) string {
	below := strings.TrimPrefix(path, root+string(filepath.Separator))
	if dir, _, found := strings.Cut(below, string(filepath.Separator)); found && below != path {
		return dir
	}
	return filepath.Base(root)
}

func totalSize(files []sourceFile) (n int64) {
	for _, f := range files {
		n += f.size
	}
	return n
}
