package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// texts writes some files, and returns their directory and how many lines they
// have together.
func texts(t *testing.T) (dir string, count int) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"a.go":         "package a\n\n// ends without a newline",
		"net/b.go":     strings.Repeat("// a line\r\n\r\n", 3000),
		"net/ip/c.go":  "\x00\xff\n\n\n",
		"net/empty.go": "",
		"notes.txt":    "not Go\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir, 3 + 6000 + 3
}

func TestQuickstart(t *testing.T) {
	dir, count := texts(t)
	store := filepath.Join(t.TempDir(), "store")
	var out, errs bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-dir", store, dir, filepath.Join(dir, "notes.txt")}, &out, &errs))
	require.Contains(t, out.String(), fmt.Sprintf("sent      %d messages", count+1))
	require.Contains(t, out.String(), fmt.Sprintf("consumed  %d messages", count+1))
	require.Equal(t, queues, strings.Count(out.String(), ": equal\n"))
	require.Contains(t, out.String(), "the store is in "+store)
	require.Empty(t, errs.String())

	err := run(t.Context(), []string{"-dir", store, dir}, &out, &errs)
	require.ErrorContains(t, err, "has messages of an earlier run")
}

// TestFewLines wants them in all queues, and a queue without any to be none.
func TestFewLines(t *testing.T) {
	for lines, want := range map[int][queues]string{
		3:   {"no messages", "1 messages", "1 messages", "1 messages"},
		4:   {"1 messages", "1 messages", "1 messages", "1 messages"},
		100: {"21 messages", "26 messages", "32 messages", "21 messages"},
	} {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("line\n", lines)), 0o600))
		var out, errs bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-rm", "-dir", filepath.Join(t.TempDir(), "store"), file}, &out, &errs))
		got := regexp.MustCompile(`(?m)^queue \d   (\d+ messages|no messages)`).FindAllStringSubmatch(out.String(), -1)
		var texts []string // which queue is the first differs
		for _, m := range got {
			texts = append(texts, m[1])
		}
		require.ElementsMatch(t, want[:], texts, out.String())
		require.Equal(t, min(lines, queues), strings.Count(out.String(), ": equal\n"))
	}
}

func TestRemove(t *testing.T) {
	dir, _ := texts(t)
	store := filepath.Join(t.TempDir(), "store")
	var out, errs bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-rm", "-dir", store, dir}, &out, &errs))
	require.NoDirExists(t, store)
	require.NotContains(t, out.String(), "the store is in")

	err := run(t.Context(), []string{"-rm", "-dir", dir, dir}, &out, &errs)
	require.ErrorContains(t, err, "is not empty")
	require.FileExists(t, filepath.Join(dir, "a.go"))
}

func TestErrors(t *testing.T) {
	dir, _ := texts(t)
	var out, errs bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{filepath.Join(dir, "missing")}, &out, &errs), os.ErrNotExist)
	require.ErrorContains(t, run(t.Context(), []string{filepath.Join(dir, "net", "empty.go")}, &out, &errs), "there is no text in ")
	require.Error(t, run(t.Context(), []string{"-unknown"}, &out, &errs))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, []string{"-dir", t.TempDir(), dir}, &out, &errs), context.Canceled)
}

// TestDifference wants every kind of difference to be noticed.
func TestDifference(t *testing.T) {
	message := func(tag, body string) *pocketmq.Message {
		return &pocketmq.Message{Body: []byte(body), Properties: pocketmq.Properties("TAGS\x01" + tag)}
	}
	sum := func(ms ...*pocketmq.Message) *digests {
		d := new(digests)
		for _, m := range ms {
			d[1].add(m)
		}
		return d
	}
	a, b := message("x", "one"), message("y", "two")
	require.NoError(t, compare(sum(a, b), sum(a, b)))
	for name, other := range map[string]*digests{
		"missing": sum(a), "more": sum(a, b, b), "order": sum(b, a),
		"body": sum(a, message("y", "tw0")), "tag": sum(a, message("z", "two")), "shifted": sum(a, message("yt", "wo")),
	} {
		require.Error(t, compare(sum(a, b), other), name)
	}
}

func TestTags(t *testing.T) {
	for path, want := range map[string]string{"/src/net/http/a.go": "net", "/src/a.go": "src", "/src": "src"} {
		require.Equal(t, want, tagOf(filepath.FromSlash("/src"), filepath.FromSlash(path)))
	}
}
