package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestQueryByUniqueKeyAllocatesItsResult and nothing else, in one index file and in
// many.
func TestQueryByUniqueKeyAllocatesItsResult(t *testing.T) {
	cfg := smallConfig(FlushAsync)
	cfg.IndexSlots, cfg.IndexEntries = 16, 64
	s := openStore(t, scratch(t), cfg)
	for i := range 500 {
		m := inner("t", 0, "x")
		m.Properties = message.Properties(fmt.Sprintf("UNIQ_KEY\x01%032d", i))
		_, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
	}
	require.NoError(t, s.WaitIndexed(t.Context(), s.MaxOffset()))
	ctx, key := t.Context(), fmt.Sprintf("%032d", 77)
	n := testing.AllocsPerRun(1000, func() {
		r, err := s.QueryMessage(ctx, KeyQuery{Topic: "t", Key: key})
		if err != nil || len(r.Messages) != 1 || r.Messages[0].QueueOffset() != 77 {
			t.Error(r, err)
		}
		r.Release()
	})
	require.LessOrEqual(t, n, 1.0)
}

// TestQueryAcrossLogFiles: of records with keys of one hash those are found that have
// the key, whatever file of the log they lie in, and no file stays pinned.
func TestQueryAcrossLogFiles(t *testing.T) {
	cfg := smallConfig(FlushAsync)
	s := openStore(t, scratch(t), cfg)
	const one, other = "Aa", "BB" // Java takes them for the same
	require.Equal(t, message.JavaHash(one), message.JavaHash(other))
	const n = 90
	var offsets []message.LogOffset
	for i := range n {
		m := inner("t", 0, string(make([]byte, cfg.SegmentSize/8)))
		m.Properties = "KEYS\x01" + other
		if i >= n/3 && i%2 == 0 {
			m.Properties = "KEYS\x01" + one
		}
		r, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		offsets = append(offsets, r.LogOffset)
	}
	require.NoError(t, s.WaitIndexed(t.Context(), s.MaxOffset()))
	for _, most := range []int{1, 3, 20, n} {
		r, err := s.QueryMessage(t.Context(), KeyQuery{Topic: "t", Key: one, MaxNum: most})
		require.NoError(t, err)
		var want, got []message.LogOffset
		for i := n - 2; i >= n/3 && len(want) < min(most, cfg.withDefaults().MaxQueryResults); i -= 2 {
			want = append([]message.LogOffset{offsets[i]}, want...)
		}
		for _, v := range r.Messages {
			got = append(got, v.LogOffset())
		}
		require.Equal(t, want, got)
		r.Release()
		r.Release()                          // it is idempotent
		for _, off := range offsets[:n-16] { // the writer has the last file
			f := s.log.Acquire(off)
			f.Unpin()
			require.Panics(t, func() { f.Bytes() }, "nobody has a pin of %s", f.Path())
		}
	}
}
