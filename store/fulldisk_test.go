package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// TestFullDiskCanBeOpenedAndRead: the dispatcher finds no space for units, and
// the store is closed and opened again on the full disk. What was dispatched can
// be read, what was acknowledged keeps its number, and all of it can be read
// when there is space.
func TestFullDiskCanBeOpenedAndRead(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			fsys, dir := newCrashFS(t)
			cfg := smallConfig(mode)
			cfg.fs = fsys
			s := openStore(t, dir, cfg)
			putN(t, s, "t", 0, 20) // as many units as a file has
			dispatched(t, s)
			noSpace := fsys.FailFrom(crashfs.OpCreate, queueFiles, 1, segment.ErrNoSpace)
			putN(t, s, "t", 20, 5)
			require.ErrorIs(t, s.Close(), message.ErrDiskFull)

			owner := fsys.FailFrom(crashfs.OpCreate, "store/pocketmq/owner.tmp", 1, segment.ErrNoSpace)
			s = openStore(t, dir, cfg)
			require.Equal(t, sequence(20), read(t, s, "t", 0, 0).texts())
			require.EqualValues(t, 20, s.MaxOffsetInQueue("t", 0))
			require.EqualValues(t, 25, put(t, s, "t", 0, "body25").QueueOffset, "the numbering goes on")
			put(t, s, "u", 0, "u0")
			owner.Stop()
			noSpace.Stop()
			require.NoError(t, s.WaitDispatched(context.Background(), s.MaxOffset()))
			require.Equal(t, sequence(26), bodies(t, s, "t", 0))
			require.Equal(t, []string{"u0"}, bodies(t, s, "u", 0))
			closeStore(t, s)
			s = openStore(t, dir, cfg)
			require.True(t, s.Recovery().Clean)
			require.Equal(t, sequence(26), bodies(t, s, "t", 0))
		})
	}
}

// TestOnlySegmentCutShort: the size of the only file is no evidence of what the
// size should be when the recovery point, or the queues, know better.
func TestOnlySegmentCutShort(t *testing.T) {
	for _, withPoint := range []bool{true, false} {
		dir := scratch(t)
		s := openStore(t, dir, smallConfig(FlushSync))
		putN(t, s, "t", 0, 50)
		closeStore(t, s)
		if !withPoint {
			require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
		}
		segments, err := os.ReadDir(filepath.Join(dir, "commitlog"))
		require.NoError(t, err)
		require.Len(t, segments, 1)
		require.NoError(t, os.Truncate(filepath.Join(dir, "commitlog", segments[0].Name()), 2000))
		before := contents(t, dir)
		_, err = Open(t.Context(), dir, Config{})
		require.ErrorIs(t, err, ErrFileSize)
		requireSameFiles(t, before, contents(t, dir))
	}
}
