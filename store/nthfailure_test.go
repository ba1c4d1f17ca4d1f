package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/message"
)

var errInjected = errors.New("injected failure")

// life is what a store does in the tests of this file: open, put so that files
// roll, flush, close. Any step may fail; it returns the errors. It must not
// hang: ctx is the limit.
func life(ctx context.Context, dir string, cfg Config, tr *truth) []error {
	s, err := Open(ctx, dir, cfg)
	if err != nil {
		return []error{err}
	}
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for i := range 9 {
		m := message.Message{Topic: crashTopics[i%2], Body: []byte(fmt.Sprint(i, strings.Repeat("b", 1500)))}
		if i%3 > 0 {
			m.Properties = message.Properties(fmt.Sprintf("UNIQ_KEY\x01%d\x02KEYS\x01Aa BB", i))
		}
		tr.send(0, m)
		r, err := s.PutMessage(ctx, &message.MessageExtBrokerInner{MessageExt: message.MessageExt{Message: m}})
		note(err)
		if err == nil {
			tr.answered(r, cfg.Flush == FlushSync, m)
		}
		switch i {
		case 4, 8:
			n, _ := tr.mark()
			err := s.Flush(ctx)
			note(err)
			if err == nil {
				tr.keep(n)
			}
		case 6:
			note(s.WaitDispatched(ctx, s.MaxOffset()))
		}
	}
	note(s.Close())
	return errs
}

// smallerConfig makes files roll every few messages of life.
func smallerConfig(mode FlushMode) Config {
	return Config{Flush: mode, FlushTimeout: patient, SegmentSize: 8 << 10, ConsumeQueueFileSize: 60, IndexSlots: 3, IndexEntries: 4}
}

// TestEveryOperationFailsOnce: whatever fails, the error says so, nothing
// panics or hangs, nothing acknowledged is lost, and the directory can be opened
// again: by this process, and from what a loss of power leaves.
func TestEveryOperationFailsOnce(t *testing.T) {
	notEmulated(t)
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			everyOperationFails(t, mode, func(fs *crashfs.FS, n int) *crashfs.Fault {
				return fs.FailOn(crashfs.AnyOp, "", n, errInjected)
			})
		})
	}
}

// TestEveryOperationFailsFromThenOn is the same for devices that do not recover.
func TestEveryOperationFailsFromThenOn(t *testing.T) {
	notEmulated(t)
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			for _, op := range []crashfs.Op{crashfs.OpSync, crashfs.OpWriteAt, crashfs.OpSyncDir, crashfs.OpCreate, crashfs.OpAllocate} {
				everyOperationFails(t, mode, func(fs *crashfs.FS, n int) *crashfs.Fault {
					return fs.FailFrom(op, "", n, errInjected)
				})
			}
		})
	}
}

func everyOperationFails(t *testing.T, mode FlushMode, fail func(fs *crashfs.FS, n int) *crashfs.Fault) {
	t.Helper()
	mappings := mmap.Live()
	root := scratch(t)
	silent := 0
	for n := 1; ; n++ {
		where := filepath.Join(root, fmt.Sprint(n))
		fs, err := crashfs.New(mkdir(t, where))
		require.NoError(t, err)
		dir := filepath.Join(where, "store")
		cfg := withFS(smallerConfig(mode), fs)
		tr := newTruth()
		fault := fail(fs, n)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		errs := life(ctx, dir, cfg, tr)
		cancel()
		fault.Stop()
		for _, err := range errs {
			require.NotErrorIs(t, err, context.DeadlineExceeded, "call %d", n)
			require.True(t, errors.Is(err, errInjected) || errors.Is(err, message.ErrFlush), "call %d: %v", n, err)
		}
		if len(errs) == 0 {
			silent++ // what failed did not matter
		}
		require.Equal(t, mappings, mmap.Live(), "call %d leaves a mapping: %v", n, errs)
		_, kept := tr.mark()
		image := filepath.Join(where, "image")
		_, err = fs.Crash(uint64(n)%3, image)
		require.NoError(t, err)
		require.NoError(t, fs.Close())
		_, err = tr.verifyDir(dir, smallerConfig(mode), kept)
		require.NoError(t, err, "call %d, after %v", n, errs)
		_, err = tr.verifyDir(filepath.Join(image, "store"), smallerConfig(mode), kept)
		require.NoError(t, err, "call %d, loss of power after %v", n, errs)
		if fault.Fired() == 0 {
			t.Logf("%d calls, %d of them may fail unnoticed", n-1, silent-1)
			require.Empty(t, errs)
			return
		}
	}
}
