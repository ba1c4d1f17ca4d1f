package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// numbered is a batch of n messages of topic t.
func numbered(t testing.TB, name string, n, size int) *message.MessageExtBatch {
	t.Helper()
	var ms []message.Message
	for i := range n {
		ms = append(ms, message.Message{Topic: "t", Body: []byte(fmt.Sprint(name, ".", i, ":", strings.Repeat("b", size)))})
	}
	return batchOf(t, "t", 0, ms...)
}

// TestReadersSeeAllOfABatchOrNone: at every moment the end of the queue, and of
// what a read finds, is the end of a batch; each batch is contiguous.
func TestReadersSeeAllOfABatchOrNone(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			const n, writers, each = 7, 3, 200
			cfg := Config{Flush: mode, FlushTimeout: patient, SegmentSize: 64 << 10, MaxBodySize: 8 << 10, ConsumeQueueFileSize: 20 * 100}
			s := openStore(t, scratch(t), cfg)
			stop := make(chan struct{})
			var readers, wg sync.WaitGroup
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					hi := s.MaxOffsetInQueue("t", 0)
					if hi%n != 0 {
						t.Errorf("the queue ends at %d, in a batch", hi)
						return
					}
					count := 0
					for v, err := range s.Messages(t.Context(), GetQuery{Topic: "t", Offset: max(0, hi-n)}) {
						if err != nil || !strings.HasSuffix(string(v.Body()), fmt.Sprint(".", count%n, ":")) {
							t.Errorf("%s as %d: %v", v.Body(), count, err)
						}
						count++
					}
					if count%n != 0 {
						t.Errorf("%d messages are seen", count)
					}
				}
			})
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						b := numbered(t, fmt.Sprint(w, "-", i), n, 0)
						done := make(chan error, 1)
						if i%2 == 0 {
							s.PutMessagesAsync(t.Context(), b, func(_ PutMessageResult, err error) { done <- err })
						} else {
							_, err := s.PutMessages(t.Context(), b)
							done <- err
						}
						if err := <-done; err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			dispatched(t, s)
			close(stop)
			readers.Wait()
			all := bodies(t, s, "t", 0)
			require.Len(t, all, n*writers*each)
			for i := 0; i < len(all); i += n {
				name, _, _ := strings.Cut(all[i], ".")
				for j := range n {
					require.Equal(t, fmt.Sprint(name, ".", j, ":"), all[i+j])
				}
			}
			closeStore(t, s)
		})
	}
}

// TestBatchAndPowerLoss: before its sync a batch may survive in part, from its
// beginning on, and what survives is whole; once acknowledged all of it does.
func TestBatchAndPowerLoss(t *testing.T) {
	const n, size = 20, 1500
	fs, dir := newCrashFS(t)
	s := openStore(t, dir, withFS(Config{FlushTimeout: patient, SegmentSize: 256 << 10, MaxBodySize: 64 << 10}, fs))
	put(t, s, "t", 0, "before")
	var during *crashfs.Snapshot
	fs.Hook(func(c crashfs.Call) (err error) {
		if c.Op == crashfs.OpSync && c.Path == "store/commitlog/00000000000000000000" && during == nil {
			during, err = fs.Snapshot()
		}
		return err
	})
	_, err := s.PutMessages(t.Context(), numbered(t, "b", n, size))
	require.NoError(t, err)
	after, err := fs.Snapshot()
	require.NoError(t, err)
	fs.Hook(nil)
	closeStore(t, s)

	survivors := func(shot *crashfs.Snapshot, seed uint64) int {
		image := scratch(t)
		_, err := shot.Image(seed, image)
		require.NoError(t, err)
		crashed := openStore(t, filepath.Join(image, "store"), Config{MaxBodySize: 64 << 10})
		defer closeStore(t, crashed)
		require.Empty(t, crashed.Recovery().Damaged)
		got := bodies(t, crashed, "t", 0)
		require.Equal(t, "before", got[0])
		for i, b := range got[1:] {
			require.Equal(t, fmt.Sprint("b.", i, ":", strings.Repeat("b", size)), b)
		}
		return len(got) - 1
	}
	seen := map[string]int{}
	for seed := range uint64(60) {
		require.Equal(t, n, survivors(after, seed), "acknowledged")
		switch survivors(during, seed) {
		case 0:
			seen["none"]++
		case n:
			seen["all"]++
		default:
			seen["part"]++
		}
	}
	t.Log(seen)
	require.Positive(t, seen["none"])
	require.Positive(t, seen["part"])
	require.Positive(t, seen["all"])
}
