package commitlog

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestBatchAtKnowsWhereBatchesLie, once they are passed no more, and nothing about
// records alone.
func TestBatchAtKnowsWhereBatchesLie(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		l := start(t, config(t, staged))
		c := NewCounter(0)
		batch := func(n int) Placement {
			var b Batch
			require.NoError(t, b.Encode(batchOf(t, n, 110), message.Host{}, 1<<20, 1<<20, false))
			p, err := l.AppendBatch(context.Background(), &b, c)
			require.NoError(t, err)
			return p
		}
		alone := add(t, l, c, 200, 'A')
		first := batch(3)
		batch(1) // one record is not a batch here
		second := batch(5)
		for _, tc := range []struct {
			off message.LogOffset
			in  *Placement
		}{
			{alone.LogOffset, nil},
			{first.LogOffset, &first},
			{first.End() - 1, &first},
			{first.LogOffset + 1, &first}, // again: after an error the same record comes again
			{first.End(), nil},
			{second.LogOffset, &second},
			{second.End() - 1, &second},
			{second.End(), nil},
			{second.LogOffset, nil}, // passed
		} {
			from, to, ok := l.BatchAt(tc.off)
			require.Equal(t, tc.in != nil, ok, tc.off)
			if ok {
				require.Equal(t, tc.in.LogOffset, from)
				require.Equal(t, tc.in.End(), to)
			}
		}
	})
}
