package commitlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSyncAge has a disk hang during a sync, and go on.
func TestSyncAge(t *testing.T) {
	for name, staged := range map[string]bool{"staged": true, "mapped": false} {
		t.Run(name, func(t *testing.T) {
			fsys := newFaultFS()
			cfg := config(t, staged)
			cfg.FS = fsys
			l := start(t, cfg)
			add(t, l, NewCounter(0), 200, 'A')
			require.Zero(t, l.SyncAge())
			hangs, goOn := make(chan struct{}), make(chan struct{})
			fsys.set(func(op, path string) error {
				if op == "sync" && path == pathOf(cfg, 0) {
					close(hangs)
					<-goOn
				}
				return nil
			})
			flushed := make(chan error)
			go func() { flushed <- l.Flush() }()
			<-hangs
			before := l.SyncAge()
			require.Positive(t, before)
			require.Eventually(t, func() bool { return l.SyncAge() > before }, time.Minute, time.Millisecond)
			fsys.set(nil)
			close(goOn)
			require.NoError(t, <-flushed)
			require.Zero(t, l.SyncAge())
		})
	}
}
