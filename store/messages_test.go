package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// collect is what a loop over Messages gives, and the error that ended it.
func collect(s *DefaultMessageStore, q GetQuery) (got []string, err error) {
	for v, err := range s.Messages(context.Background(), q) {
		if err != nil {
			return got, err
		}
		got = append(got, string(v.Body()))
	}
	return got, nil
}

// TestMessagesGoesToTheEnd over the ends of queue files, whatever is held at a
// time, from every offset.
func TestMessagesGoesToTheEnd(t *testing.T) {
	before := mmap.Live()
	s := openStore(t, scratch(t), smallConfig(FlushSync)) // queue files of 20 units
	const n = 95
	putN(t, s, "t", 0, n)
	dispatched(t, s)
	for _, count := range []int{0, 1, 7, 1000} {
		for off := message.QueueOffset(-1); off <= n+3; off++ {
			got, err := collect(s, GetQuery{Topic: "t", Offset: off, MaxCount: count, MaxBytes: 2000, Verify: true})
			require.NoError(t, err)
			require.Empty(t, firstDifference(sequence(n)[min(max(off, 0), n):], got), "from %d, %d at a time", off, count)
		}
	}
	odd := func(v message.View) bool { return v.QueueOffset()%2 == 1 }
	got, err := collect(s, GetQuery{Topic: "t", Match: odd})
	require.NoError(t, err)
	require.Len(t, got, n/2)
	require.Equal(t, []string{"body1", "body3"}, got[:2])
	got, err = collect(s, GetQuery{Topic: "t", TagFilter: message.ParseTagFilter("other")})
	require.NoError(t, err)
	require.Empty(t, got)
	got, err = collect(s, GetQuery{Topic: "unknown"})
	require.NoError(t, err)
	require.Empty(t, got)

	loop := s.Messages(t.Context(), GetQuery{Topic: "t"})
	for range 2 { // each loop begins anew, and one that is left lets go of everything
		for v, err := range loop {
			require.NoError(t, err)
			if v.QueueOffset() == 3 {
				break
			}
		}
	}
	closeStore(t, s)
	require.Equal(t, before, mmap.Live(), "pins are left")
}

// TestMessagesEndsWhereTheQueueEnded when the loop began, though messages come
// without end.
func TestMessagesEndsWhereTheQueueEnded(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	putN(t, s, "t", 0, 3)
	dispatched(t, s)
	n := 0
	for v, err := range s.Messages(t.Context(), GetQuery{Topic: "t", MaxCount: 2}) {
		require.NoError(t, err)
		require.EqualValues(t, n, v.QueueOffset())
		putN(t, s, "t", 3+2*n, 2)
		dispatched(t, s)
		n++
	}
	require.Equal(t, 3, n)
}

// TestMessagesBeginsWithWhatIsLeft: those before the minimum are gone.
func TestMessagesBeginsWithWhatIsLeft(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	for i := 0; s.MaxOffset() < testSegment+1000; i++ {
		putN(t, s, "t", i, 1)
	}
	closeStore(t, s)
	require.NoError(t, os.Remove(filepath.Join(dir, "commitlog", segment.FileName(0))))
	s = openStore(t, dir, smallConfig(FlushSync))
	lo, hi := s.MinOffsetInQueue("t", 0), s.MaxOffsetInQueue("t", 0)
	require.Positive(t, lo)
	got, err := collect(s, GetQuery{Topic: "t"})
	require.NoError(t, err)
	require.Equal(t, sequence(int(hi))[lo:], got)
}

// TestMessagesEndsWithTheFirstError: what is damaged, and what ends.
func TestMessagesEndsWithTheFirstError(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	var offs []message.LogOffset
	for i := range 5 {
		offs = append(offs, put(t, s, "t", 0, fmt.Sprint("body", i)).LogOffset)
	}
	dispatched(t, s)
	flip(t, logFile(s, 0), int64(offs[2])+88) // the first byte of the body
	got, err := collect(s, GetQuery{Topic: "t", Verify: true})
	require.ErrorIs(t, err, message.ErrCorrupt)
	require.Equal(t, sequence(2), got)
	got, err = collect(s, GetQuery{Topic: "t", Offset: 3, Verify: true})
	require.NoError(t, err)
	require.Equal(t, []string{"body3", "body4"}, got)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range s.Messages(ctx, GetQuery{Topic: "t", MaxCount: 1}) {
		require.NoError(t, last)
		last = err
		cancel()
	}
	require.ErrorIs(t, last, context.Canceled)
	closeStore(t, s)
	_, err = collect(s, GetQuery{Topic: "t"})
	require.ErrorIs(t, err, message.ErrClosed)
}
