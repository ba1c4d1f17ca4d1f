package store

import (
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestBadPuts: each is refused with an error of its kind that names field, limit
// and value; nothing is written and no queue offset is used.
func TestBadPuts(t *testing.T) {
	cfg := Config{SegmentSize: 256 << 10, MaxBodySize: 64 << 10, FlushInterval: time.Hour} // nothing is saved meanwhile
	long := func(n int) message.Properties { return message.Properties("k\x01" + strings.Repeat("v", n-2)) }
	with := func(change func(*message.MessageExtBrokerInner)) *message.MessageExtBrokerInner {
		m := inner("t", 0, "x")
		change(m)
		return m
	}
	type refusal struct {
		field        string
		limit, value int64 // of a LimitError
		status       PutMessageStatus
	}
	limit := func(field string, limit, value int64, status PutMessageStatus) refusal {
		return refusal{field, limit, value, status}
	}
	illegal := func(field string) refusal { return refusal{field: field, status: PutMessageIllegal} }
	for name, c := range map[string]struct {
		m    *message.MessageExtBrokerInner
		want refusal
	}{
		"body over the limit": {inner("t", 0, strings.Repeat("b", 64<<10+1)), limit("body", 64<<10, 64<<10+1, PutMessageIllegal)},
		"topic empty":         {inner("", 0, "x"), illegal("topic")},
		"topic of 128 bytes":  {inner(strings.Repeat("a", 128), 0, "x"), limit("topic", 127, 128, PutMessageIllegal)},
		"topic of 255 bytes":  {inner(strings.Repeat("a", 255), 0, "x"), limit("topic", 127, 255, PutMessageIllegal)},
		"topic of 256 bytes":  {inner(strings.Repeat("a", 256), 0, "x"), limit("topic", 127, 256, PutMessageIllegal)},
		"topic of 43 characters, 129 bytes": {inner(strings.Repeat("€", 43), 0, "x"),
			limit("topic", 127, 129, PutMessageIllegal)},
		"topic .":                 {inner(".", 0, "x"), illegal("topic")},
		"topic ..":                {inner("..", 0, "x"), illegal("topic")},
		"topic with a slash":      {inner("a/b", 0, "x"), illegal("topic")},
		"topic with a backslash":  {inner(`a\b`, 0, "x"), illegal("topic")},
		"topic with NUL":          {inner("a\x00b", 0, "x"), illegal("topic")},
		"topic that is not UTF-8": {inner("a\xffb", 0, "x"), illegal("topic")},
		"negative queue id":       {inner("t", -1, "x"), illegal("queue id")},
		"most negative queue id":  {inner("t", math.MinInt32, "x"), illegal("queue id")},
		"properties of 32,768":    {with(func(m *message.MessageExtBrokerInner) { m.Properties = long(32768) }), limit("properties", 32767, 32768, PutMessageIllegal)},
		"properties of 40,000":    {with(func(m *message.MessageExtBrokerInner) { m.Properties = long(40000) }), limit("properties", 32767, 40000, PutMessageIllegal)},
		"properties of 65,535":    {with(func(m *message.MessageExtBrokerInner) { m.Properties = long(65535) }), limit("properties", 32767, 65535, PutMessageIllegal)},
		"properties of 65,536":    {with(func(m *message.MessageExtBrokerInner) { m.Properties = long(65536) }), limit("properties", 32767, 65536, PutMessageIllegal)},
		"properties of few characters": {with(func(m *message.MessageExtBrokerInner) {
			m.Properties = message.Properties("k\x01" + strings.Repeat("€", 11000))
		}), limit("properties", 32767, 33002, PutPropertiesSizeExceeded)},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, scratch(t), cfg)
			require.EqualValues(t, 0, put(t, s, "t", 0, "before").QueueOffset)
			dispatched(t, s)
			indexed(t, s)
			end, before := s.MaxOffset(), contents(t, s.Dir())
			given := *c.m
			for _, ask := range []func() (PutMessageResult, error){
				func() (PutMessageResult, error) { return s.PutMessage(t.Context(), c.m) },
				func() (PutMessageResult, error) {
					b := &message.MessageExtBatch{MessageExtBrokerInner: *c.m}
					// An element does not know that its length overflows.
					b.Body = batchElement(c.m.Body, string(c.m.Properties))
					b.Properties = ""
					return s.PutMessages(t.Context(), b)
				},
			} {
				r, err := ask()
				requireRefused(t, c.want.field, c.want.limit, c.want.value, err)
				require.False(t, r.Status.Stored())
				want := c.want.status
				if errors.Is(err, message.ErrCorrupt) {
					want = PutMessageIllegal
				}
				if want != PutPropertiesSizeExceeded || !strings.Contains(err.Error(), "batch") {
					require.Equal(t, want, r.Status, "%v", err)
				}
				require.Empty(t, r.MessageID())
			}
			require.Equal(t, given, *c.m)
			require.Equal(t, end, s.MaxOffset())
			after := contents(t, s.Dir())
			maps.DeleteFunc(after, func(path, b string) bool { // made ahead of the writer, whenever that is
				_, known := before[path]
				return !known && strings.HasPrefix(path, "commitlog/") && strings.Trim(b, "\x00") == ""
			})
			requireSameFiles(t, before, after)
			require.EqualValues(t, 1, put(t, s, "t", 0, "after").QueueOffset, "no hole")
			require.Equal(t, []string{"before", "after"}, bodies(t, s, "t", 0))
			closeStore(t, s)
			require.Equal(t, []string{"before", "after"}, bodies(t, openStore(t, s.Dir(), cfg), "t", 0))
		})
	}
}

// batchElement encodes without looking at limits.
func batchElement(body []byte, properties string) []byte {
	b, _ := message.AppendBatchElement(nil, &message.Message{Body: body})
	b = b[:len(b)-2]
	b = append(b, byte(len(properties)>>8), byte(len(properties)))
	return append(b, properties...)
}

// requireRefused checks that the error names what was wrong. A batch element
// whose length field overflowed can only be called damaged, and a batch is
// limited as a whole.
func requireRefused(t *testing.T, field string, limit, value int64, err error) {
	t.Helper()
	require.Error(t, err)
	var l *message.LimitError
	var i *message.IllegalError
	switch {
	case errors.As(err, &l):
		require.ErrorIs(t, err, message.ErrLimit)
		if l.Field == "batch" {
			return
		}
		require.Equal(t, field, l.Field)
		require.Equal(t, limit, l.Limit)
		require.Equal(t, value, l.Value)
	case errors.As(err, &i):
		require.ErrorIs(t, err, message.ErrIllegal)
		require.Equal(t, field, i.Field)
		require.NotEmpty(t, i.Reason)
		require.Zero(t, limit)
	default:
		require.ErrorIs(t, err, message.ErrCorrupt)
		require.ErrorContains(t, err, "batch element 0")
	}
}

// TestBadBatches: what only a batch can have wrong. An element that is wrong
// takes the whole batch with it (spec F39).
func TestBadBatches(t *testing.T) {
	cfg := Config{SegmentSize: 64 << 10, MaxBodySize: 16 << 10}
	good := message.Message{Body: []byte("x")}
	for name, c := range map[string]struct {
		change func(*message.MessageExtBatch)
		want   error
	}{
		"empty":             {func(b *message.MessageExtBatch) { b.Body = nil }, message.ErrIllegal},
		"in a transaction":  {func(b *message.MessageExtBatch) { b.SysFlag = message.TransactionPrepared }, message.ErrIllegal},
		"committed":         {func(b *message.MessageExtBatch) { b.SysFlag = message.TransactionCommit }, message.ErrIllegal},
		"delayed":           {func(b *message.MessageExtBatch) { b.Properties = "DELAY\x013" }, message.ErrIllegal},
		"cut off":           {func(b *message.MessageExtBatch) { b.Body = b.Body[:len(b.Body)-1] }, message.ErrCorrupt},
		"negative body":     {func(b *message.MessageExtBatch) { b.Body[16] = 0xFF }, message.ErrCorrupt},
		"body too long":     {func(b *message.MessageExtBatch) { b.Body[18] = 0x7F }, message.ErrCorrupt},
		"garbage behind":    {func(b *message.MessageExtBatch) { b.Body = append(b.Body, 1, 2, 3) }, message.ErrCorrupt},
		"over the limit":    {func(b *message.MessageExtBatch) { b.Body = append(b.Body, make([]byte, 16<<10)...) }, message.ErrLimit},
		"properties joined": {func(b *message.MessageExtBatch) { b.Properties = message.Properties(strings.Repeat("p", 32767)) }, message.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, scratch(t), cfg)
			b := batchOf(t, "t", 0, good, message.Message{Body: []byte("y"), Properties: "k\x01v"})
			c.change(b)
			r, err := s.PutMessages(t.Context(), b)
			require.ErrorIs(t, err, c.want)
			if name == "properties joined" {
				require.Equal(t, PutPropertiesSizeExceeded, r.Status)
			} else {
				require.Equal(t, PutMessageIllegal, r.Status)
			}
			require.Zero(t, s.MaxOffset())
			ok, err := s.PutMessages(t.Context(), batchOf(t, "t", 0, good, good))
			require.NoError(t, err)
			require.EqualValues(t, 0, ok.QueueOffset)
			require.EqualValues(t, 0, ok.LogOffset)
			require.Len(t, bodies(t, s, "t", 0), 2)
		})
	}
}

// TestPanicInACallerLeavesNothingLocked: a nil message panics in its own put,
// and the next one works.
func TestPanicInACallerLeavesNothingLocked(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	require.Panics(t, func() { _, _ = s.PutMessage(t.Context(), nil) })
	require.Panics(t, func() { _, _ = s.PutMessages(t.Context(), nil) })
	putN(t, s, "t", 0, 1)
	dispatched(t, s)
	require.Panics(t, func() {
		_, _ = s.GetMessage(t.Context(), GetQuery{Topic: "t", Match: func(message.View) bool { panic("the caller's") }})
	})
	require.Equal(t, sequence(1), bodies(t, s, "t", 0))
	closeStore(t, s)
}
