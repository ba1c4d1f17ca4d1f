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
