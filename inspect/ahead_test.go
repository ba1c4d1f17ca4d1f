package inspect_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// TestVerifyRecordsOfAllSizes reads a log whose records are of a few bytes up to
// several times what is read at once, whole and then with a damaged one.
func TestVerifyRecordsOfAllSizes(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, store.Config{Flush: store.FlushAsync, SegmentSize: 4 << 20, MaxBodySize: 2 << 20, ConsumeQueueFileSize: 20 * 1000})
	require.NoError(t, err)
	sizes := []int{1, 100, 1000, 60_000, 256 << 10, 300_000, 1 << 20, 2 << 20}
	random := rand.New(rand.NewPCG(1, 2))
	var middle store.PutMessageResult
	const count = 400
	for i := range count {
		m := &message.MessageExtBrokerInner{}
		m.Topic, m.QueueID = "sizes", int32(random.IntN(2))
		size := 1 + random.IntN(300)
		if i%8 == 0 {
			size = max(1, sizes[random.IntN(len(sizes))]-random.IntN(100))
		}
		m.Body = make([]byte, size)
		m.Properties = message.Properties("KEYS\x01a b\x02TAGS\x01t")
		r, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		if i == count/2 {
			middle = r
		}
	}
	require.NoError(t, s.Close())

	sum, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) { t.Error(f) })
	require.NoError(t, err)
	require.EqualValues(t, count, sum.Records)
	require.EqualValues(t, 2*count, sum.IndexEntries)

	flip(t, dir, middle)
	var findings []inspect.FindingKind
	sum, err = inspect.Verify(context.Background(), dir, func(f inspect.Finding) { findings = append(findings, f.Kind) })
	require.NoError(t, err)
	require.EqualValues(t, count, sum.Records)
	require.Equal(t, []inspect.FindingKind{inspect.RecordBody}, findings)
}

// flip changes the first byte of a message's body.
func flip(t *testing.T, dir string, r store.PutMessageResult) {
	t.Helper()
	const segment, body = 4 << 20, 88
	base := int64(r.LogOffset) / segment * segment
	f, err := os.OpenFile(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", base)), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte{0xFF}, int64(r.LogOffset)-base+body)
	require.NoError(t, err)
}
