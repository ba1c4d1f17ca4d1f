//go:build slow

package pocketmq_test

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	helloWorld = `package main

import "fmt"

func main() { fmt.Println("hello, world") }
`
	helloQueue = `package main

import (
	"context"
	"fmt"

	"github.com/pocketmq/pocketmq"
)

func main() {
	ctx := context.Background()
	node, err := pocketmq.Open(ctx, "hello")
	if err != nil {
		panic(err)
	}
	defer node.Close()
	producer, err := node.Producer("p")
	if err != nil {
		panic(err)
	}
	if _, err := producer.Send(ctx, &pocketmq.Message{Topic: "t", Body: []byte("hello, world")}); err != nil {
		panic(err)
	}
	consumer, err := node.Consumer(ctx, "g", "t")
	if err != nil {
		panic(err)
	}
	m, err := consumer.Receive(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(m.Body))
}
`
)

// TestWeight: sending and receiving adds at most 3 MiB to a program that prints a
// line, and three modules besides this one. More than half of it is this module;
// the largest parts of the standard library that come with it are the encoder of
// encoding/json, which log/slog needs, and time, compress/flate and log/slog.
func TestWeight(t *testing.T) {
	before, _ := weigh(t, helloWorld)
	after, modules := weigh(t, helloQueue)
	t.Logf("%.2f MB added to %.2f MB; modules: %v", float64(after-before)/1e6, float64(before)/1e6, modules)
	require.LessOrEqual(t, after-before, int64(3<<20))
	require.Equal(t, []string{"github.com/cespare/xxhash/v2", "github.com/edsrzf/mmap-go", modulePath, "golang.org/x/sys"}, modules)
}

// weigh builds a program of one file and returns its size and the modules in it.
func weigh(t *testing.T, source string) (size int64, modules []string) {
	t.Helper()
	file, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, file)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	info, err := os.Stat(program)
	require.NoError(t, err)
	build, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	for _, m := range build.Deps {
		modules = append(modules, m.Path)
	}
	return info.Size(), modules
}
