package store

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// sized is a message of which the record takes n bytes.
func sized(topic string, n int) *message.MessageExtBrokerInner {
	return inner(topic, 0, strings.Repeat("b", n-message.MinRecordSize-len(topic)))
}

// TestRecordsAtTheEndOfAFile: a record needs 8 bytes behind it; what is left is a
// blank; after a reopen all is the same.
func TestRecordsAtTheEndOfAFile(t *testing.T) {
	const file = 1024
	for _, c := range []struct {
		sizes []int
		want  []message.LogOffset
		left  int64 // bytes of file 0 in the blank
	}{
		{[]int{file - 8, 200}, []message.LogOffset{0, file}, 8},
		{[]int{508, 508, 200}, []message.LogOffset{0, 508, file}, 8},
		{[]int{file - 100, 93, 100}, []message.LogOffset{0, file, file + 93}, 100},
		{[]int{file - 101, 93, 100}, []message.LogOffset{0, file - 101, file}, 8},
		{[]int{file - 102, 93, 100}, []message.LogOffset{0, file - 102, file}, 9},
		{[]int{file - 100, 100, 100}, []message.LogOffset{0, file, file + 100}, 100},
	} {
		for _, mode := range bothModes {
			t.Run(fmt.Sprint(c.sizes, mode), func(t *testing.T) {
				dir := scratch(t)
				cfg := Config{Flush: mode, FlushTimeout: patient, SegmentSize: file, ConsumeQueueFileSize: testQueueFile, IndexSlots: testIndexSlots, IndexEntries: testIndexEntries}
				s := openStore(t, dir, cfg)
				for i, n := range c.sizes {
					r, err := s.PutMessage(t.Context(), sized("t", n))
					require.NoError(t, err)
					require.Equal(t, n, r.Bytes)
					require.Equal(t, c.want[i], r.LogOffset)
				}
				dispatched(t, s)
				end := s.MaxOffset()
				require.Equal(t, c.want[len(c.want)-1]+message.LogOffset(c.sizes[len(c.sizes)-1]), end)
				require.NoError(t, s.Flush(t.Context()))
				b, err := os.ReadFile(logFile(s, 0))
				require.NoError(t, err)
				require.Len(t, b, file)
				tail := b[file-c.left:]
				require.Equal(t, []byte{0, 0, 0, byte(c.left), 0xCB, 0xD4, 0x31, 0x94}, tail[:8])
				closeStore(t, s)
				for _, forget := range []bool{false, true} {
					if forget {
						require.NoError(t, os.RemoveAll(dir+"/"+ownDir+"/"+pointFile))
					}
					again := openStore(t, dir, cfg)
					require.Equal(t, end, again.MaxOffset())
					require.Equal(t, forget, !again.Recovery().FromPoint)
					if forget {
						require.EqualValues(t, len(c.sizes), again.Recovery().Records, "the blank does not count")
					}
					for i, off := range c.want {
						m, err := again.LookMessageByOffset(t.Context(), off)
						require.NoError(t, err)
						require.EqualValues(t, i, m.QueueOffset)
					}
					require.Len(t, bodies(t, again, "t", 0), len(c.sizes))
					closeStore(t, again)
				}
			})
		}
	}
}

// TestRecordTooLongForAFile is refused before anything rolls (spec F26).
func TestRecordTooLongForAFile(t *testing.T) {
	cfg := smallConfig(FlushSync)
	s := openStore(t, scratch(t), cfg)
	putN(t, s, "t", 0, 1)
	dispatched(t, s)
	end := s.MaxOffset()
	m := sized("t", testSegment-7)
	m.Body, m.Properties = m.Body[:len(m.Body)-4000], message.Properties("k\x01"+strings.Repeat("v", 3998))
	r, err := s.PutMessage(t.Context(), m)
	var limit *message.LimitError
	require.ErrorAs(t, err, &limit)
	require.EqualValues(t, testSegment-8, limit.Limit)
	require.EqualValues(t, testSegment-7, limit.Value)
	require.Equal(t, PutMessageIllegal, r.Status)
	require.Equal(t, end, s.MaxOffset())
	putN(t, s, "t", 1, 1)
	require.NoFileExists(t, logFile(s, 2*testSegment))
}

// TestLimitIsTheBody: the limit counts the body, so a copy with more properties
// is stored.
func TestLimitIsTheBody(t *testing.T) {
	cfg := Config{SegmentSize: 1 << 20, MaxBodySize: 100 << 10}
	s := openStore(t, scratch(t), cfg)
	m := inner("t", 0, strings.Repeat("b", 100<<10))
	m.Properties = message.Properties("k\x01" + strings.Repeat("v", message.MaxPropertiesLength-2))
	r, err := s.PutMessage(t.Context(), m)
	require.NoError(t, err)
	dispatched(t, s)
	got := read(t, s, "t", 0, r.QueueOffset).Messages[0].Message()
	require.Equal(t, m.Body, got.Body)
	require.Equal(t, m.Properties, got.Properties)
}

// TestPropertiesOfMaximalLength: 32,767 bytes are stored and read back, alone
// and in a batch.
func TestPropertiesOfMaximalLength(t *testing.T) {
	s := openStore(t, scratch(t), Config{SegmentSize: 1 << 20, MaxBodySize: 100 << 10})
	props := message.Properties("k\x01" + strings.Repeat("v", message.MaxPropertiesLength-2))
	m := inner("t", 0, "x")
	m.Properties = props
	_, err := s.PutMessage(t.Context(), m)
	require.NoError(t, err)
	_, err = s.PutMessages(t.Context(), batchOf(t, "t", 0, message.Message{Body: []byte("y"), Properties: props}))
	require.NoError(t, err)
	closeStore(t, s)
	again := openStore(t, s.Dir(), Config{})
	for i := range 2 {
		require.Equal(t, props, read(t, again, "t", 0, message.QueueOffset(i)).Messages[0].Message().Properties)
	}
}

// TestLongestTopic: 127 bytes are a topic, of one-byte and of longer characters,
// also for its directory and after a reopen.
func TestLongestTopic(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	topics := []string{strings.Repeat("a", 127), strings.Repeat("€", 42) + "a", "%RETRY%group", "%DLQ%a|b", "a b\tc", "…", "...", " ", "CON"}
	for _, topic := range topics {
		put(t, s, topic, 0, "x")
	}
	closeStore(t, s)
	again := openStore(t, s.Dir(), smallConfig(FlushSync))
	for _, topic := range topics {
		require.Equal(t, []string{"x"}, bodies(t, again, topic, 0), topic)
	}
	require.Len(t, again.Queues(), len(topics))
}

// TestSeparatorsInProperties: what Java reads, we read.
func TestSeparatorsInProperties(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	want := []string{"k", "v\x01w", "one", "\x01", "K", "v\n\r\t\x00"}
	props, err := message.NewProperties(want...)
	require.NoError(t, err)
	m := inner("t", 0, "x")
	m.Properties = props
	_, err = s.PutMessage(t.Context(), m)
	require.NoError(t, err)
	closeStore(t, s)
	again := openStore(t, s.Dir(), smallConfig(FlushSync))
	got := read(t, again, "t", 0, 0).Messages[0].Message()
	require.Equal(t, props+"\x02", got.Properties, "a separator keeps the zero from the end")
	for i := 0; i < len(want); i += 2 {
		v, ok := got.Properties.Get(want[i])
		require.True(t, ok)
		require.Equal(t, want[i+1], v)
	}
	for _, bad := range [][]string{{"a\x01b", "v"}, {"a\x02b", "v"}, {"k", "v\x02w"}, {"", "v"}, {"k", ""}} {
		_, err := message.NewProperties(bad...)
		require.ErrorIs(t, err, message.ErrIllegal, "%q", bad)
	}
}

// TestBatchMembersKeepTheirs: own keys, tag and properties, consecutive offsets,
// one time; a property of the batch is not glued to the last one.
func TestBatchMembersKeepTheirs(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), smallConfig(mode))
			putN(t, s, "t", 0, 1)
			var messages []message.Message
			for i := range 3 {
				messages = append(messages, message.Message{
					Body: []byte(fmt.Sprint("body", i+1)), Flag: int32(i),
					Properties: message.Properties(fmt.Sprintf("n\x01%d\x02KEYS\x01k%d\x02TAGS\x01TagA", i, i)),
				})
			}
			b := batchOf(t, "t", 0, messages...)
			b.Properties = "CLUSTER\x01c"
			given := *b
			r, err := s.PutMessages(t.Context(), b)
			require.NoError(t, err)
			require.Equal(t, given, *b)
			require.EqualValues(t, 1, r.QueueOffset)
			require.Equal(t, 3, r.Count)
			require.Len(t, r.Offsets, 3)
			require.Equal(t, r.LogOffset, r.Offsets[0])
			require.Len(t, strings.Split(r.MessageID(), ","), 3)
			dispatched(t, s)
			got := query(t, s, GetQuery{Topic: "t", Offset: 1, MaxCount: 32, TagFilter: message.ParseTagFilter("TagA"), Verify: true})
			require.Len(t, got.Messages, 3)
			sum := 0
			for i, v := range got.Messages {
				m := v.Message()
				require.Equal(t, messages[i].Body, m.Body)
				require.EqualValues(t, i, m.Flag)
				require.Equal(t, r.Offsets[i], m.LogOffset)
				require.EqualValues(t, i+1, m.QueueOffset)
				require.Equal(t, r.StoreTimestamp, m.StoreTimestamp)
				require.Equal(t, messages[i].Properties+"\x02CLUSTER\x01c", m.Properties)
				require.Equal(t, "TagA", m.Tags())
				require.Equal(t, []string{fmt.Sprint("k", i)}, m.Keys())
				unit, ok := findQueue(t, s, "t", 0).At(m.QueueOffset)
				require.True(t, ok)
				require.EqualValues(t, 2598919, unit.TagsCode)
				sum += v.Size()
			}
			require.Equal(t, sum, r.Bytes)
		})
	}
}

// TestTagsCodes are Java's hashes, before and after a rebuild.
func TestTagsCodes(t *testing.T) {
	tags := []struct {
		tag  string
		code uint64
	}{
		{"TagA", 0x000000000027a807}, {"payment", 0xffffffffd11c3206}, {"refund", 0xffffffffc847df78},
		{"order-created", 0xffffffffe897bb69}, {"\U0001F600", 0x00000000001b0d63}, {"订单", 0x0000000000113bf3},
		{"\xff\xfe\x61", 65008833}, // not UTF-8: hashed as Java decodes it
	}
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	for _, c := range tags {
		_, err := s.PutMessage(t.Context(), tagged("t", "x", c.tag))
		require.NoError(t, err)
	}
	check := func(s *DefaultMessageStore) {
		dispatched(t, s)
		for i, c := range tags {
			u, ok := findQueue(t, s, "t", 0).At(message.QueueOffset(i))
			require.True(t, ok)
			require.Equal(t, c.code, uint64(u.TagsCode), c.tag)
		}
	}
	check(s)
	closeStore(t, s)
	require.NoError(t, os.RemoveAll(s.Dir()+"/consumequeue"))
	check(openStore(t, s.Dir(), smallConfig(FlushSync)))
}

// TestBadDelayDoesNoHarm: a DELAY that is no level is stored like any property;
// only the broker acts on it.
func TestBadDelayDoesNoHarm(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	values := []string{"4x", "-1", "19", "2147483648", "0"}
	for _, v := range values {
		for _, topic := range []string{"t", message.ScheduleTopic} {
			m := inner(topic, 0, "x")
			m.Properties = message.Properties("DELAY\x01" + v)
			_, err := s.PutMessage(t.Context(), m)
			require.NoError(t, err)
		}
	}
	require.Len(t, bodies(t, s, "t", 0), len(values))
	require.Len(t, bodies(t, s, message.ScheduleTopic, 0), len(values))
	closeStore(t, s)
	again := openStore(t, s.Dir(), smallConfig(FlushSync))
	require.Len(t, bodies(t, again, message.ScheduleTopic, 0), len(values))
}

// TestParkedMessagesHaveTheirTime: the tags code of the schedule topic is the
// time of delivery.
func TestParkedMessagesHaveTheirTime(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	m := inner(message.ScheduleTopic, 2, "x")
	m.Properties = "DELAY\x013"
	r, err := s.PutMessage(t.Context(), m)
	require.NoError(t, err)
	dispatched(t, s)
	u, ok := findQueue(t, s, message.ScheduleTopic, 2).At(0)
	require.True(t, ok)
	require.Equal(t, r.StoreTimestamp+10_000, u.TagsCode)
}

// TestTransactionsTakeNoOffset: prepared and rolled-back records are in the log
// and in no queue; a committed one is in its queue.
func TestTransactionsTakeNoOffset(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	for _, typ := range []message.SysFlag{message.TransactionPrepared, message.TransactionRollback} {
		m := inner("t", 0, "half")
		m.SysFlag = typ
		r, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		require.Zero(t, r.QueueOffset)
		looked, err := s.LookMessageByOffset(t.Context(), r.LogOffset)
		require.NoError(t, err)
		require.Equal(t, typ, looked.SysFlag.Transaction())
	}
	m := inner("t", 0, "body0")
	m.SysFlag = message.TransactionCommit
	_, err := s.PutMessage(t.Context(), m)
	require.NoError(t, err)
	putN(t, s, "t", 1, 1)
	require.Equal(t, sequence(2), bodies(t, s, "t", 0))
	closeStore(t, s)
	require.NoError(t, os.RemoveAll(s.Dir()+"/consumequeue"))
	require.Equal(t, sequence(2), bodies(t, openStore(t, s.Dir(), smallConfig(FlushSync)), "t", 0))
}

// TestTimeInTheLogNeverDecreases, whatever the clock does, also over a reopen.
func TestTimeInTheLogNeverDecreases(t *testing.T) {
	var now atomic.Int64
	now.Store(1_700_000_000_000)
	cfg := smallConfig(FlushSync)
	cfg.Now = func() time.Time { return time.UnixMilli(now.Load()) }
	dir := scratch(t)
	last := int64(0)
	for _, step := range []time.Duration{0, -time.Hour, time.Millisecond, 10 * 365 * 24 * time.Hour, -20 * 365 * 24 * time.Hour} {
		now.Add(step.Milliseconds())
		s := openStore(t, dir, cfg)
		for range 3 {
			r := put(t, s, "t", 0, strings.Repeat("b", 5000))
			require.GreaterOrEqual(t, r.StoreTimestamp, last)
			require.GreaterOrEqual(t, r.StoreTimestamp, now.Load())
			last = r.StoreTimestamp
		}
		all := bodies(t, s, "t", 0)
		require.EqualValues(t, len(all), s.MaxOffsetInQueue("t", 0))
		closeStore(t, s)
	}
}

// TestFilesFollowEachOther: a closed log has the files that hold messages, and
// none that was only prepared.
func TestFilesFollowEachOther(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	for i := range 50 {
		put(t, s, "t", 0, strings.Repeat("b", 3000)+fmt.Sprint(i))
	}
	closeStore(t, s)
	entries, err := os.ReadDir(s.Dir() + "/commitlog")
	require.NoError(t, err)
	require.Len(t, entries, 10) // 5 records to a file, and no file that was only prepared
	for i, e := range entries {
		require.Equal(t, segment.FileName(int64(i)*testSegment), e.Name())
	}
}
