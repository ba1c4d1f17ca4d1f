package segment

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// countingVolume counts its syncs, and holds every file, or none.
type countingVolume struct {
	syncs int
	holds bool
	err   error
}

func (v *countingVolume) Sync() error            { v.syncs++; return v.err }
func (v *countingVolume) Holds(mmap.FileID) bool { return v.holds }
func (v *countingVolume) Close() error           { return nil }

// onVolume opens lists of one file each, on one volume, of which one at a time is mapped.
func onVolume(t *testing.T, fsys FS, v Volume, lists int) []*Files {
	t.Helper()
	c := NewCache(1, 1<<40)
	c.SyncOn(v)
	return sharing(t, lists, 0, Config{FS: fsys, Cache: c, Derived: true})
}

// begin makes the first file of a list, with a byte in it.
func begin(t *testing.T, s *Files, b byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(s.Dir(), 0o700))
	_, err := s.Create(0)
	require.NoError(t, err)
	require.NoError(t, s.WriteAt([]byte{b}, 0))
}

func countOf(calls []string, op string) (n int) {
	for _, c := range calls {
		if c == op {
			n++
		}
	}
	return n
}

// TestManyFilesAreSyncedByOneSync: none before it is closed, and all by the first Sync of one that was closed.
func TestManyFilesAreSyncedByOneSync(t *testing.T) {
	fsys, v := newFailFS(), &countingVolume{holds: true}
	lists := onVolume(t, fsys, v, 20)
	for i, s := range lists {
		begin(t, s, byte(i+1))
	}
	require.Zero(t, countOf(fsys.did(), "sync"))
	require.Zero(t, v.syncs)
	for _, s := range lists[:19] { // the last one is mapped
		require.NoError(t, s.Sync(0, testSize))
	}
	require.Equal(t, 1, v.syncs)
	require.Zero(t, countOf(fsys.did(), "sync"))
	require.NoError(t, lists[19].Sync(0, testSize))
	require.Equal(t, 1, countOf(fsys.did(), "sync"), "it is mapped, and synced by itself")
	require.Equal(t, 1, v.syncs)
	for i, s := range lists {
		f := s.Acquire(0)
		require.Equal(t, byte(i+1), readByte(t, f, 0))
		f.Unpin()
	}
}

// TestLeave: what was left is durable, with the entries, when SyncTogether returns nil; what came later is not.
func TestLeave(t *testing.T) {
	fsys, v := newFailFS(), &countingVolume{holds: true}
	lists := onVolume(t, fsys, v, 3)
	for i, s := range lists {
		begin(t, s, byte(i+1))
		require.True(t, s.Leave(0, testSize))
	}
	fsys.set(nil)
	require.NoError(t, lists[0].syncDir())
	require.Equal(t, []string{"syncdir"}, fsys.did(), "not before")
	require.NoError(t, lists[0].cache.SyncTogether())
	fsys.set(nil)
	for _, s := range lists[:2] {
		require.NoError(t, s.Sync(0, testSize))
	}
	require.Equal(t, 1, v.syncs)
	require.Empty(t, fsys.did(), "neither files nor directories")

	require.NoError(t, lists[0].WriteAt([]byte{9}, 1))
	require.Equal(t, 1, v.syncs)
	require.NoError(t, lists[0].Sync(0, testSize))
	require.Equal(t, 2, v.syncs)
}

// TestWriteAtMapsNothing that is not mapped, but for the first time.
func TestWriteAtMapsNothing(t *testing.T) {
	fsys, v := newFailFS(), &countingVolume{holds: true}
	lists := onVolume(t, fsys, v, 2)
	begin(t, lists[0], 1)
	begin(t, lists[1], 2)
	require.Equal(t, []int64{0}, mappedBases(lists[1]))
	fsys.set(nil)
	require.NoError(t, lists[0].WriteAt([]byte{7, 8}, 10))
	require.Equal(t, []string{"open", "size", "writeat", "close"}, fsys.did())
	require.Equal(t, []int64{0}, mappedBases(lists[1]))
	f := lists[0].Acquire(0)
	require.Equal(t, byte(8), readByte(t, f, 11))
	f.Unpin()

	require.ErrorIs(t, lists[0].WriteAt([]byte{1, 2}, testSize-1), ErrBadOffset)
	require.ErrorIs(t, lists[0].WriteAt([]byte{1}, testSize), ErrClosed, "no such file")
	for _, op := range []string{"open", "size", "writeat", "close"} {
		fsys.set(func(o, _ string) error {
			if o == op {
				return errInjected
			}
			return nil
		})
		use := lists[1].Acquire(0) // has the other one closed
		use.Unpin()
		require.ErrorIs(t, lists[0].WriteAt([]byte{1}, 3), errInjected, op)
	}
	fsys.set(nil)
	if mmap.UnlinkMapped {
		require.NoError(t, os.Remove(lists[0].First().Path()))
		require.ErrorIs(t, lists[0].WriteAt([]byte{1}, 3), ErrMoved)
	}
	require.NoError(t, lists[0].Close())
	require.ErrorIs(t, lists[0].WriteAt([]byte{1}, 3), ErrClosed)
}

// TestSyncTogetherThatFails is final for all that was left to it, and for nothing else.
func TestSyncTogetherThatFails(t *testing.T) {
	fsys, v := newFailFS(), &countingVolume{holds: true}
	lists := onVolume(t, fsys, v, 4)
	begin(t, lists[0], 1)
	begin(t, lists[1], 2)
	require.NoError(t, lists[0].Sync(0, testSize))
	begin(t, lists[2], 3)
	begin(t, lists[3], 4)
	v.err = errInjected
	require.ErrorIs(t, lists[2].Sync(0, testSize), errInjected)
	v.err = nil
	require.ErrorIs(t, lists[2].Sync(0, testSize), errInjected)
	require.ErrorIs(t, lists[2].cache.SyncTogether(), errInjected)
	require.Equal(t, 2, v.syncs)
	require.NoError(t, lists[0].Sync(0, testSize), "it was synced before")
	require.NoError(t, lists[3].Sync(0, testSize), "it is mapped, and synced by itself")
}

// TestFileOnAnotherVolume is synced before it is closed, as where there is none.
func TestFileOnAnotherVolume(t *testing.T) {
	fsys, v := newFailFS(), &countingVolume{}
	lists := onVolume(t, fsys, v, 3)
	for i, s := range lists {
		begin(t, s, byte(i+1))
	}
	require.Equal(t, 2, countOf(fsys.did(), "sync"))
	require.NoError(t, lists[0].Sync(0, testSize))
	require.False(t, lists[2].Leave(0, testSize))
	require.Zero(t, v.syncs)
	require.False(t, openIn(t, t.TempDir(), Config{Derived: true}).Leave(0, 1), "without a Cache")
}

// TestLeaveDoesNotHideASyncThatFailed.
func TestLeaveDoesNotHideASyncThatFailed(t *testing.T) {
	fsys, v := newFailFS(), &countingVolume{holds: true}
	s := onVolume(t, fsys, v, 1)[0]
	begin(t, s, 1)
	fsys.set(func(op, _ string) error {
		if op == "sync" {
			return errInjected
		}
		return nil
	})
	require.ErrorIs(t, s.Sync(0, 1), errInjected)
	fsys.set(nil)
	require.False(t, s.Leave(0, 1))
	require.ErrorIs(t, s.Sync(0, 1), errInjected)
}
