package inspect_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// TestReaderFollowsWriter reads queue a/0 while it is written.
func TestReaderFollowsWriter(t *testing.T) {
	for _, flush := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		t.Run(flush.String(), func(t *testing.T) {
			const count = 1000
			dir := t.TempDir()
			s := open(t, dir, flush)
			done := make(chan struct{})
			go func() {
				defer close(done)
				put(t, s, 0, count)
			}()
			r, err := inspect.NewReader(dir, "a", 0)
			require.NoError(t, err)
			defer r.Close()
			deadline := time.Now().Add(time.Minute)
			for n := 0; n < count/2; {
				v, err := r.Next()
				if errors.Is(err, io.EOF) {
					require.True(t, time.Now().Before(deadline), "message %d is missing", n)
					time.Sleep(time.Millisecond)
					continue
				}
				require.NoError(t, err)
				require.EqualValues(t, n, v.QueueOffset())
				require.Contains(t, string(v.Body()), fmt.Sprintf("message %03d,", 2*n))
				n++
				require.EqualValues(t, n, r.Offset())
			}
			<-done
			_, err = r.Next()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

// TestReaderPassesDamage goes on behind what can not be read.
func TestReaderPassesDamage(t *testing.T) {
	dir, r := newStore(t, 100)
	inLog(t, dir, r[20].LogOffset, func(b []byte) { b[90] ^= 1 }) // message 10 of a/0
	inLog(t, dir, r[24].LogOffset, func(b []byte) { b[5] ^= 1 })  // message 12
	inQueue(t, dir, 14, func(b []byte) { clear(b[:20]) })
	inQueue(t, dir, 16, func(b []byte) { b[0] = 1 })
	inQueue(t, dir, 18, func(b []byte) { copy(b[:8], []byte{7: byte(r[1].LogOffset)}) })
	reader, err := inspect.NewReader(dir, "a", 0)
	require.NoError(t, err)
	defer reader.Close()
	require.EqualValues(t, 50, reader.Max())
	reader.Seek(8)
	var good, bad []message.QueueOffset
	for {
		off := reader.Offset()
		_, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			good = append(good, off)
			continue
		}
		var damage *message.CorruptionError
		require.ErrorAs(t, err, &damage)
		require.ErrorContains(t, err, fmt.Sprintf("message %d of queue a/0", off))
		bad = append(bad, off)
	}
	require.Equal(t, []message.QueueOffset{10, 12, 14, 16, 18}, bad)
	require.Len(t, good, 42-len(bad))
}

// TestReaderBeginsWithOldest passes over what was removed with the log.
func TestReaderBeginsWithOldest(t *testing.T) {
	dir, r := newStore(t, 100)
	require.NoError(t, os.Remove(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0))))
	reader, err := inspect.NewReader(dir, "a", 0)
	require.NoError(t, err)
	defer reader.Close()
	oldest := reader.Offset()
	require.Positive(t, oldest)
	reader.Seek(0)
	v, err := reader.Next()
	require.NoError(t, err)
	require.Equal(t, oldest, v.QueueOffset())
	require.GreaterOrEqual(t, v.LogOffset(), message.LogOffset(segmentSize))
	require.Len(t, r, 100)
}

func TestQueues(t *testing.T) {
	dir, _ := newStore(t, 4)
	ids, err := inspect.Queues(dir, "b")
	require.NoError(t, err)
	require.Equal(t, []int32{1}, ids)
	ids, err = inspect.Queues(dir, "unknown")
	require.NoError(t, err)
	require.Empty(t, ids)
	_, err = inspect.Queues(dir, "..")
	require.ErrorIs(t, err, message.ErrIllegal)
	_, err = inspect.NewReader(dir, "..", 0)
	require.ErrorIs(t, err, message.ErrIllegal)
	r, err := inspect.NewReader(dir, "unknown", 0)
	require.NoError(t, err)
	defer r.Close()
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
}
