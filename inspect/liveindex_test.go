package inspect_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// indexed stores messages with keys and puts them into the index.
func indexed(t *testing.T, s *store.DefaultMessageStore, x *indexfile.Index, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		m := &message.MessageExtBrokerInner{}
		m.Topic, m.Body = "a", []byte("body")
		if i%3 > 0 { // some have no keys
			m.Properties = message.Properties(fmt.Sprintf("UNIQ_KEY\x01%032d\x02KEYS\x01k%d  k k", i, i%7))
		}
		p, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		stored, err := s.LookMessageByOffset(t.Context(), p.LogOffset)
		require.NoError(t, err)
		record := make([]byte, stored.RecordSize())
		stored.PutRecord(record)
		v, _, err := message.ReadRecord(record)
		require.NoError(t, err)
		require.NoError(t, x.Put(&message.DispatchRequest{View: v, Marks: v.Marks()}))
	}
}

// TestVerifyLiveIndex compares an index with the log while both grow.
func TestVerifyLiveIndex(t *testing.T) {
	const slots, entries = 50, 200
	dir := t.TempDir()
	s := open(t, dir, store.FlushAsync)
	x, err := indexfile.Open(indexfile.Config{Dir: filepath.Join(dir, "index"), Slots: slots, Entries: entries})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var n int // how many were put
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel() // also when the test has failed
	writer.Go(func() {
		for ; n < 20 || ctx.Err() == nil && n < 3000; n += 10 {
			indexed(t, s, x, n, n+10)
		}
	})
	for range 20 {
		_, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) { t.Error(f) })
		require.NoError(t, err)
	}
	cancel()
	writer.Wait()
	require.NoError(t, x.Close())
	require.NoError(t, s.Close())
	sum, found := verify(t, dir)
	require.Empty(t, found)
	require.EqualValues(t, n, sum.Records)
	require.EqualValues(t, 4*(n-(n+2)/3), sum.IndexEntries)
}
