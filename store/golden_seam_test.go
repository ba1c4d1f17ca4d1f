package store

import (
	"path"
	"sync"
	"testing"

	"github.com/pocketmq/pocketmq/internal/crashfs"
)

// HeldSyncs gives the tests that are outside this package a directory, and cfg
// with a file system of its own on which syncs of the commit log wait until
// release is called. The first sync of a file passes: it belongs to making it.
func HeldSyncs(t testing.TB, cfg Config) (held Config, dir string, release func()) {
	t.Helper()
	fs, dir := newCrashFS(t)
	gate := make(chan struct{})
	var made sync.Map // paths
	fs.Hook(func(c crashfs.Call) error {
		if ok, _ := path.Match(logFiles, c.Path); !ok || c.Op != crashfs.OpSync {
			return nil
		}
		if _, again := made.LoadOrStore(c.Path, true); again {
			<-gate
		}
		return nil
	})
	return withFS(cfg, fs), dir, sync.OnceFunc(func() { close(gate) })
}
