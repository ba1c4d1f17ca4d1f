package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestOffsetInQueueByLogOffset asks for each byte of the log, in queues whose
// messages alternate and span files, and after the first ones were removed.
func TestOffsetInQueueByLogOffset(t *testing.T) {
	cfg := smallConfig(FlushAsync)
	cfg.ConsumeQueueFileSize = 60
	s := openStore(t, scratch(t), cfg)
	var results []PutMessageResult
	for i := range 400 {
		results = append(results, put(t, s, []string{"t", "u"}[i%2], int32(i%2), "some body"))
	}
	dispatched(t, s)
	check := func() {
		t.Helper()
		lowest := s.MinOffsetInQueue("t", 0)
		for off := message.LogOffset(-1); off < s.MaxOffset()+2; off++ {
			want := lowest
			for i := 0; i < len(results); i += 2 {
				if results[i].LogOffset < off {
					want = max(lowest, results[i].QueueOffset+1)
				}
			}
			got, err := s.OffsetInQueueByLogOffset("t", 0, off)
			require.NoError(t, err)
			require.Equal(t, want, got, off)
		}
	}
	check()
	_, err := s.RemoveBefore(t.Context(), s.MaxOffset())
	require.NoError(t, err)
	require.Positive(t, s.MinOffsetInQueue("t", 0))
	check()
	off, err := s.OffsetInQueueByLogOffset("unknown", 0, 0)
	require.NoError(t, err)
	require.Zero(t, off)
}

func TestNextOffsetInQueue(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushAsync))
	require.Zero(t, s.NextOffsetInQueue("t", 0))
	for i := range message.QueueOffset(3) {
		put(t, s, "t", 0, "x")
		require.Equal(t, i+1, s.NextOffsetInQueue("t", 0), "whether it can be read or not")
	}
	closeStore(t, s)
	s = openStore(t, dir, smallConfig(FlushAsync))
	require.EqualValues(t, 3, s.NextOffsetInQueue("t", 0), "of a queue that got nothing since")
}

// TestBeginsRecord asks with and without the consume queue that knows.
func TestBeginsRecord(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	m := inner("t", 0, "x")
	m.SysFlag = message.TransactionPrepared
	half, err := s.PutMessage(t.Context(), m)
	require.NoError(t, err)
	whole := put(t, s, "t", 0, "y")
	dispatched(t, s)
	for _, r := range []PutMessageResult{half, whole} {
		found, err := s.LookMessageByOffset(t.Context(), r.LogOffset)
		require.NoError(t, err)
		begins, err := s.BeginsRecord(t.Context(), &found, r.LogOffset)
		require.NoError(t, err)
		require.True(t, begins)
		for _, off := range []message.LogOffset{r.LogOffset + 1, r.LogOffset + message.LogOffset(r.Bytes) - 1, s.MaxOffset()} {
			begins, err = s.BeginsRecord(t.Context(), &found, off)
			require.NoError(t, err)
			require.False(t, begins, off)
		}
	}
	closeStore(t, s)
	_, err = s.BeginsRecord(t.Context(), &message.MessageExt{}, 0)
	require.ErrorIs(t, err, message.ErrClosed)
}
