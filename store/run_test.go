package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// given is a record at a log offset that claims a number in queue 0 of topic T.
func given(t *testing.T, at message.LogOffset, number message.QueueOffset) *message.DispatchRequest {
	t.Helper()
	m := message.MessageExt{Message: message.Message{Topic: "T"}, LogOffset: at, QueueOffset: number}
	rec := make([]byte, m.RecordSize())
	m.PutRecord(rec)
	v, _, err := message.ReadRecord(rec)
	require.NoError(t, err)
	var r message.DispatchRequest
	r.Read(v, nil)
	return &r
}

// TestRunOfUnitsIsWhatOneByOneWouldBe: records that come again after an error,
// skip numbers or claim one that another record has.
func TestRunOfUnitsIsWhatOneByOneWouldBe(t *testing.T) {
	type rec struct {
		at     message.LogOffset
		number message.QueueOffset
	}
	const never = -1
	for name, c := range map[string]struct {
		records  []rec
		complete int // after how many records there is a Complete, besides that at the end
		want     []message.LogOffset
	}{
		"in order":              {[]rec{{1000, 0}, {2000, 1}, {3000, 2}}, never, []message.LogOffset{1000, 2000, 3000}},
		"all again":             {[]rec{{1000, 0}, {2000, 1}, {1000, 0}, {2000, 1}, {3000, 2}}, never, []message.LogOffset{1000, 2000, 3000}},
		"all again, completed":  {[]rec{{1000, 0}, {2000, 1}, {1000, 0}, {2000, 1}, {3000, 2}}, 2, []message.LogOffset{1000, 2000, 3000}},
		"the last again":        {[]rec{{1000, 0}, {2000, 1}, {2000, 1}, {3000, 2}}, never, []message.LogOffset{1000, 2000, 3000}},
		"a gap":                 {[]rec{{1000, 0}, {3000, 2}, {4000, 3}}, never, []message.LogOffset{1000, 0, 3000, 4000}},
		"a number twice":        {[]rec{{1000, 0}, {2000, 1}, {3000, 2}, {4000, 1}, {5000, 3}}, never, []message.LogOffset{1000, 4000, 3000, 5000}},
		"a number twice, later": {[]rec{{1000, 0}, {2000, 1}, {3000, 2}, {4000, 1}, {5000, 3}}, 3, []message.LogOffset{1000, 4000, 3000, 5000}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, t.TempDir(), Config{})
			sink := (*queueSink)(s)
			for i, r := range c.records {
				require.NoError(t, sink.Dispatch(given(t, r.at, r.number)))
				if i+1 == c.complete {
					require.NoError(t, sink.Complete())
				}
			}
			require.NoError(t, sink.Complete())
			q, err := consumequeue.Find(s.queues, "T", 0)
			require.NoError(t, err)
			require.EqualValues(t, len(c.want), q.Max())
			for i, at := range c.want {
				u, err := q.Unit(message.QueueOffset(i))
				require.NoError(t, err)
				require.Equal(t, at, u.LogOffset, "message %d", i)
			}
			require.Equal(t, int64(c.records[len(c.records)-1].at), s.lastDispatched.Load())
		})
	}
}
