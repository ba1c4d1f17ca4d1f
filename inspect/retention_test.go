package inspect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// removeBefore removes the files of log and queues that a store with that first
// log offset does not have any more.
func removeBefore(t *testing.T, dir string, r []store.PutMessageResult, start message.LogOffset) {
	t.Helper()
	start = start / segmentSize * segmentSize
	remove := func(path string) {
		if err := os.Remove(path); err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	}
	for base := message.LogOffset(0); base+segmentSize <= start; base += segmentSize {
		remove(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", base)))
	}
	for i, p := range r {
		if p.LogOffset >= start {
			break
		}
		if p.QueueOffset%queueUnits == queueUnits-1 {
			queue := []string{"a/0", "b/1"}[i%2]
			remove(filepath.Join(dir, "consumequeue", queue, fmt.Sprintf("%020d", (p.QueueOffset-queueUnits+1)*20)))
		}
	}
}

// TestVerifyWhileFilesAreRemoved has the owner of the store remove the oldest
// files in front of Verify, and behind it: that is no finding.
func TestVerifyWhileFilesAreRemoved(t *testing.T) {
	const count = 3000
	for _, lead := range []message.LogOffset{-5 * segmentSize, 0, 1, 3 * segmentSize, 40 * segmentSize, 1 << 40} {
		t.Run(fmt.Sprint(lead), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir, store.FlushAsync)
			r := put(t, s, 0, count)
			require.NoError(t, s.Close())
			last := r[count-1].LogOffset / segmentSize * segmentSize
			sum, err := inspect.VerifyWith(t.Context(), dir, inspect.VerifyConfig{
				Found: func(f inspect.Finding) { t.Error(f) },
				Progress: func(done, _ int64) {
					removeBefore(t, dir, r, min(last, message.LogOffset(done)+lead))
				},
			})
			require.NoError(t, err)
			require.LessOrEqual(t, sum.Records, int64(count))
			require.Equal(t, r[count-1].LogOffset+message.LogOffset(r[count-1].Bytes), sum.LogEnd)
			sum, found := verify(t, dir)
			require.Empty(t, found)
			require.Positive(t, sum.LogStart)
		})
	}
}

// TestReadersWhileFilesAreRemoved goes on with the oldest message that is left.
func TestReadersWhileFilesAreRemoved(t *testing.T) {
	dir, r := newStore(t, 1000)
	reader, err := inspect.NewReader(dir, "a", 0)
	require.NoError(t, err)
	defer reader.Close()
	v, err := reader.Next()
	require.NoError(t, err)
	require.EqualValues(t, 0, v.QueueOffset())
	removeBefore(t, dir, r, 10*segmentSize)
	var previous, begun int64
	for range 450 {
		v, err := reader.Next()
		if err != nil {
			break
		}
		off := int64(v.QueueOffset())
		if v.LogOffset() >= 10*segmentSize && begun == 0 {
			begun = off
		}
		require.True(t, off == previous+1 || off == begun, "%d after %d", off, previous)
		previous = off
	}
	require.EqualValues(t, 499, previous)

	n, removed := 0, false
	for v, err := range inspect.Log(dir) {
		require.NoError(t, err)
		if n++; !removed {
			removeBefore(t, dir, r, 15*segmentSize)
			removed = true
		}
		_ = v
	}
	require.Less(t, n, 600)
}
