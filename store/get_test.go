package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// TestGetStatuses goes through the answers to offsets inside and outside of a
// queue.
func TestGetStatuses(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	putN(t, s, "t", 0, 10)
	dispatched(t, s)
	for _, c := range []struct {
		topic   string
		queueID int32
		off     message.QueueOffset
		status  GetMessageStatus
		text    string
		next    message.QueueOffset
		max     message.QueueOffset
	}{
		{"t", 0, 0, GetFound, "FOUND", 10, 10},
		{"t", 0, 9, GetFound, "FOUND", 10, 10},
		{"t", 0, 10, GetOffsetOverflowOne, "OFFSET_OVERFLOW_ONE", 10, 10},
		{"t", 0, 11, GetOffsetOverflowBadly, "OFFSET_OVERFLOW_BADLY", 10, 10},
		{"t", 0, 100, GetOffsetOverflowBadly, "OFFSET_OVERFLOW_BADLY", 10, 10},
		{"t", 0, 1 << 62, GetOffsetOverflowBadly, "OFFSET_OVERFLOW_BADLY", 10, 10},
		{"t", 0, -1, GetOffsetTooSmall, "OFFSET_TOO_SMALL", 0, 10},
		{"t", 1, 0, GetNoMessageInQueue, "NO_MESSAGE_IN_QUEUE", 0, 0},
		{"t", 1, 7, GetNoMessageInQueue, "NO_MESSAGE_IN_QUEUE", 0, 0},
		{"t", -1, 0, GetNoMessageInQueue, "NO_MESSAGE_IN_QUEUE", 0, 0},
		{"unknown", 0, 0, GetNoMessageInQueue, "NO_MESSAGE_IN_QUEUE", 0, 0},
		{"", 0, 0, GetNoMessageInQueue, "NO_MESSAGE_IN_QUEUE", 0, 0},
		{"../t", 0, 0, GetNoMessageInQueue, "NO_MESSAGE_IN_QUEUE", 0, 0},
	} {
		r := read(t, s, c.topic, c.queueID, c.off)
		name := fmt.Sprint(c.topic, "/", c.queueID, " at ", c.off)
		require.Equal(t, c.status, r.Status, name)
		require.Equal(t, c.text, r.Status.String())
		require.Equal(t, c.next, r.NextBeginOffset, name)
		require.Equal(t, c.max, r.MaxOffset, name)
		require.Zero(t, r.MinOffset, name)
	}
	require.Equal(t, "status 99", GetMessageStatus(99).String())
	require.Len(t, s.Queues(), 1, "asking makes no queue")
}

// TestGetLimits: counts, bytes, the end of a queue file, and one message however
// large.
func TestGetLimits(t *testing.T) {
	cfg := smallConfig(FlushAsync)
	cfg.MaxTransferCount, cfg.MaxTransferBytes = 12, 2000
	s := openStore(t, scratch(t), cfg)
	putN(t, s, "t", 0, 30) // records of 91 + 1 + 5 or 6 bytes; files of 20 units
	require.EqualValues(t, 30, put(t, s, "t", 0, string(make([]byte, 3000))).QueueOffset)
	putN(t, s, "t", 31, 1)
	dispatched(t, s)
	for _, c := range []struct {
		name            string
		off             message.QueueOffset
		count, maxBytes int
		want            int
	}{
		{"0 counts as 1", 0, 0, 0, 1},
		{"less than nothing", 0, -5, 0, 1},
		{"as many as asked for", 0, 7, 0, 7},
		{"the store's limit", 0, 1 << 30, 0, 12},
		{"more than memory", 0, int(^uint(0) >> 1), 0, 12},
		{"bytes", 0, 32, 3 * 97, 3},
		{"one byte less", 0, 32, 3*97 - 1, 2},
		{"one is always given", 0, 32, 1, 1},
		{"the end of a queue file", 15, 32, 0, 5},
		{"a large one is not added", 28, 32, 0, 2},
		{"a large one alone", 30, 32, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := query(t, s, GetQuery{Topic: "t", Offset: c.off, MaxCount: c.count, MaxBytes: c.maxBytes})
			require.Equal(t, GetFound, r.Status)
			require.Len(t, r.Messages, c.want)
			require.Equal(t, c.off+message.QueueOffset(c.want), r.NextBeginOffset)
			sum := 0
			for _, v := range r.Messages {
				sum += v.Size()
			}
			require.Equal(t, sum, r.Bytes)
		})
	}
}

// TestGetLooksAt800Units: a filter that matches nothing gets an answer after 800
// units, which goes forward, so the match is found after a bounded number of
// asks.
func TestGetLooksAt800Units(t *testing.T) {
	cfg := Config{Flush: FlushAsync, SegmentSize: 1 << 20}
	s := openStore(t, scratch(t), cfg)
	const n = 5000
	for i := range n {
		_, err := s.PutMessage(t.Context(), tagged("t", fmt.Sprint("body", i), "other"))
		require.NoError(t, err)
	}
	_, err := s.PutMessage(t.Context(), tagged("t", "wanted", "TagA"))
	require.NoError(t, err)
	dispatched(t, s)
	for _, q := range []GetQuery{
		{TagFilter: message.ParseTagFilter("TagA")},
		{Match: func(v message.View) bool { return string(v.Body()) == "wanted" }},
	} {
		q.Topic, q.MaxCount = "t", 32
		asks := 0
		for ; ; asks++ {
			r := query(t, s, q)
			if r.Status == GetFound {
				require.Equal(t, []string{"wanted"}, r.texts())
				require.EqualValues(t, n+1, r.NextBeginOffset)
				break
			}
			require.Equal(t, GetNoMatchedMessage, r.Status)
			require.Equal(t, q.Offset+800, r.NextBeginOffset)
			q.Offset = r.NextBeginOffset
		}
		require.Equal(t, n/800, asks)
	}
	r := query(t, s, GetQuery{Topic: "t", MaxCount: 1000, TagFilter: message.ParseTagFilter("TagA")})
	require.EqualValues(t, 1000, r.NextBeginOffset, "who asks for more gets more looked at")
}

// TestGetFilters: tags by their hash, so that colliding tags come through;
// Match on the record; both.
func TestGetFilters(t *testing.T) {
	s := openStore(t, scratch(t), Config{Flush: FlushAsync, SegmentSize: 1 << 20})
	for i := range 100 { // TagBB and TagAa have the hash 80566586
		_, err := s.PutMessage(t.Context(), tagged("collide", fmt.Sprint(i), "TagBB"))
		require.NoError(t, err)
	}
	for _, tag := range []string{"AaAa", "BBBB", "AaBB", "C", "BBAa", ""} {
		m := tagged("t", tag, tag)
		if tag == "" {
			m.Properties = ""
		}
		_, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
	}
	dispatched(t, s)

	r := query(t, s, GetQuery{Topic: "collide", MaxCount: 1000, TagFilter: message.ParseTagFilter("TagAa")})
	require.Equal(t, GetFound, r.Status, "the store compares hashes; the consumer compares tags")
	require.Len(t, r.Messages, 32)
	exact := func(tag string) func(message.View) bool {
		return func(v message.View) bool {
			got, _ := v.Property(message.PropertyTags)
			return string(got) == tag
		}
	}
	r = query(t, s, GetQuery{Topic: "collide", MaxCount: 32, TagFilter: message.ParseTagFilter("TagAa"), Match: exact("TagAa")})
	require.Equal(t, GetNoMatchedMessage, r.Status)
	require.EqualValues(t, 100, r.NextBeginOffset)
	require.Empty(t, r.Messages)

	for _, c := range []struct {
		filter string
		match  func(message.View) bool
		want   []string
	}{
		{"", nil, []string{"AaAa", "BBBB", "AaBB", "C", "BBAa", ""}},
		{"*", nil, []string{"AaAa", "BBBB", "AaBB", "C", "BBAa", ""}},
		{"C", nil, []string{"C"}},
		{"BBBB", nil, []string{"AaAa", "BBBB", "AaBB", "BBAa"}},
		{"C || BBBB", nil, []string{"AaAa", "BBBB", "AaBB", "C", "BBAa"}},
		{"BBBB", exact("BBBB"), []string{"BBBB"}},
		{"*", exact("AaBB"), []string{"AaBB"}},
		{"none", nil, nil},
		{"||", nil, nil},
	} {
		r := query(t, s, GetQuery{Topic: "t", MaxCount: 32, TagFilter: message.ParseTagFilter(c.filter), Match: c.match})
		require.Equal(t, c.want, r.texts(), c.filter)
		require.EqualValues(t, 6, r.NextBeginOffset)
		if c.want == nil {
			require.Equal(t, GetNoMatchedMessage, r.Status)
		}
	}
	r = query(t, s, GetQuery{Topic: "t", MaxCount: 2, TagFilter: message.ParseTagFilter("BBBB")})
	require.EqualValues(t, 2, r.NextBeginOffset)
	r = query(t, s, GetQuery{Topic: "t", Offset: 2, MaxCount: 2, TagFilter: message.ParseTagFilter("BBBB")})
	require.Equal(t, []string{"AaBB", "BBAa"}, r.texts())
	require.EqualValues(t, 5, r.NextBeginOffset)
}

// TestMessageKeepsAllItsParts: what was put is what is got, and the result says
// where it is.
func TestMessageKeepsAllItsParts(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), smallConfig(mode))
			v6, err := message.ParseHost("[2001:db8::1]:9876")
			require.NoError(t, err)
			v4, err := message.ParseHost("10.1.2.3:10911")
			require.NoError(t, err)
			for _, c := range []struct {
				name        string
				born, store message.Host
				size, id    int // beyond the parts; characters
			}{
				{"no hosts", message.Host{}, message.Host{}, 91, 32},
				{"v4", v4, v4, 91, 32},
				{"born v6", v6, v4, 91 + 12, 32},
				{"store v6", v4, v6, 91 + 12, 56},
				{"both v6", v6, v6, 91 + 24, 56},
			} {
				m := inner("orders", 3, "body of "+c.name)
				m.Properties = "KEYS\x01a b\x02TAGS\x01TagA\x02n\x01v \x01 w"
				m.Flag, m.SysFlag, m.BornTimestamp, m.ReconsumeTimes = -7, message.FlagCompressed, 1234567890123, 2
				m.BornHost, m.StoreHost = c.born, c.store
				given := *m
				r, err := s.PutMessage(t.Context(), m)
				require.NoError(t, err)
				require.Equal(t, given, *m, "the message is not changed")
				require.Equal(t, c.size+len(m.Topic)+len(m.Body)+len(m.Properties), r.Bytes, c.name)
				require.Equal(t, 1, r.Count)
				require.Nil(t, r.Offsets)
				require.Len(t, r.MessageID(), c.id)
				if c.store == (message.Host{}) {
					require.Equal(t, s.StoreHost(), r.StoreHost)
				} else {
					require.Equal(t, c.store, r.StoreHost)
				}
				dispatched(t, s)

				got := read(t, s, "orders", 3, r.QueueOffset)
				require.Len(t, got.Messages, 1)
				want := m.MessageExt
				want.LogOffset, want.QueueOffset, want.StoreTimestamp = r.LogOffset, r.QueueOffset, r.StoreTimestamp
				want.StoreSize, want.BodyCRC, want.StoreHost = int32(r.Bytes), message.BodyCRC(m.Body), r.StoreHost
				want.SysFlag = got.Messages[0].SysFlag()
				require.Equal(t, message.FlagCompressed, want.SysFlag&^(message.FlagBornHostV6|message.FlagStoreHostV6))
				have := got.Messages[0].Message()
				if c.born == (message.Host{}) {
					want.BornHost = have.BornHost
				}
				require.Equal(t, want, have, c.name)
				looked, err := s.LookMessageByOffset(t.Context(), r.LogOffset)
				require.NoError(t, err)
				require.Equal(t, have, looked)
				require.Equal(t, r.MessageID(), looked.OffsetMessageID().String())
				off, ok := s.CommitLogOffsetInQueue("orders", 3, r.QueueOffset)
				require.True(t, ok)
				require.Equal(t, r.LogOffset, off)
			}
			closeStore(t, s)
			again := openStore(t, s.Dir(), smallConfig(mode))
			require.Len(t, bodies(t, again, "orders", 3), 5, "recovery reads all widths")
		})
	}
}

// TestLookMessageByOffset: only where a record begins.
func TestLookMessageByOffset(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	var offs []message.LogOffset
	for i := range 200 { // two files
		offs = append(offs, put(t, s, "t", 0, fmt.Sprint("body", i)).LogOffset)
	}
	for i, off := range offs {
		m, err := s.LookMessageByOffset(t.Context(), off)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("body", i), string(m.Body))
	}
	end := s.MaxOffset()
	require.Greater(t, end, message.LogOffset(testSegment))
	for _, off := range []message.LogOffset{-1, end, end + 1, 1 << 62, -1 << 62} {
		_, err := s.LookMessageByOffset(t.Context(), off)
		require.ErrorIs(t, err, message.ErrOffsetNotFound, "%d", off)
	}
	for _, off := range []message.LogOffset{1, offs[3] + 1, offs[1] - 4, testSegment - 3} {
		_, err := s.LookMessageByOffset(t.Context(), off)
		require.True(t, errors.Is(err, message.ErrOffsetNotFound) || errors.Is(err, message.ErrCorrupt), "%d: %v", off, err)
	}
	_, ok := s.CommitLogOffsetInQueue("t", 0, 200)
	require.False(t, ok)
	_, ok = s.CommitLogOffsetInQueue("t", 0, -1)
	require.False(t, ok)
	_, ok = s.CommitLogOffsetInQueue("u", 0, 0)
	require.False(t, ok)
}

// flip changes one bit of a file under an open or closed store.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	flipBit(t, path, at, 0x08)
}

func flipBit(t *testing.T, path string, at int64, bit byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(t, err)
	b[0] ^= bit
	_, err = f.WriteAt(b[:], at)
	require.NoError(t, err)
}

func logFile(s *DefaultMessageStore, base int64) string {
	return filepath.Join(s.Dir(), "commitlog", segment.FileName(base))
}

func queueFile(s *DefaultMessageStore, topic string, base int64) string {
	return filepath.Join(s.Dir(), "consumequeue", topic, "0", segment.FileName(base))
}

// TestVerifyFindsADamagedBody: the message alone is refused, and the next ask
// goes on behind it.
func TestVerifyFindsADamagedBody(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	var offs []message.LogOffset
	for i := range 5 {
		offs = append(offs, put(t, s, "t", 0, fmt.Sprint("body", i)).LogOffset)
	}
	dispatched(t, s)
	flip(t, logFile(s, 0), int64(offs[2])+88) // the first byte of the body

	r := read(t, s, "t", 0, 0)
	require.Equal(t, GetFound, r.Status)
	require.Equal(t, sequence(2), r.texts())
	require.EqualValues(t, 2, r.NextBeginOffset)

	r, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", Offset: 2, MaxCount: 32, Verify: true})
	require.ErrorIs(t, err, message.ErrCorrupt)
	var where *message.CorruptionError
	require.ErrorAs(t, err, &where)
	require.Equal(t, offs[2], where.Offset)
	require.Equal(t, logFile(s, 0), where.File)
	require.NotNil(t, r)
	require.Empty(t, r.Messages)
	require.EqualValues(t, 3, r.NextBeginOffset)
	r.Release()

	require.Equal(t, []string{"body3", "body4"}, read(t, s, "t", 0, 3).texts())
	_, err = s.LookMessageByOffset(t.Context(), offs[2])
	require.ErrorIs(t, err, message.ErrCorrupt)

	r = query(t, s, GetQuery{Topic: "t", MaxCount: 32})
	require.Len(t, r.Messages, 5, "without Verify the checksum is not looked at")
}

// TestDamagedHeaderIsNotServed: whatever a flipped bit in a header or in a unit
// of a consume queue does, no other message is given in its place.
func TestDamagedHeaderIsNotServed(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	var offs []message.LogOffset
	for i := range 5 {
		offs = append(offs, put(t, s, "t", 0, fmt.Sprint("body", i)).LogOffset)
		put(t, s, "other", 0, fmt.Sprint("other", i))
	}
	dispatched(t, s)
	check := func(t *testing.T) {
		t.Helper()
		var got []string
		for off := message.QueueOffset(0); off < 5; {
			r, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", Offset: off, MaxCount: 32, Verify: true})
			require.NotNil(t, r)
			if err != nil {
				require.ErrorIs(t, err, message.ErrCorrupt)
			}
			for _, v := range r.Messages {
				require.Equal(t, fmt.Sprint("body", v.QueueOffset()), string(v.Body()))
			}
			got = append(got, r.texts()...)
			require.Greater(t, r.NextBeginOffset, off)
			off = r.NextBeginOffset
			r.Release()
		}
		require.Subset(t, got, []string{"body0", "body1", "body3", "body4"}, "the others are not lost")
	}
	for _, at := range []int64{0, 3, 4, 7, 16, 19, 20, 27, 28, 35, 85, 87, 93, 94} { // sizes, magic, queue, offsets, lengths, topic
		flip(t, logFile(s, 0), int64(offs[2])+at)
		check(t)
		flip(t, logFile(s, 0), int64(offs[2])+at)
	}
	for at := range int64(12) { // of the unit: log offset and size
		flip(t, queueFile(s, "t", 0), 2*20+at)
		check(t)
		flip(t, queueFile(s, "t", 0), 2*20+at)
	}
	// The unit becomes zero, and that of another message.
	unit := func(b []byte) []byte {
		f, err := os.OpenFile(queueFile(s, "t", 0), os.O_RDWR, 0)
		require.NoError(t, err)
		defer f.Close()
		old := make([]byte, 20)
		_, err = f.ReadAt(old, 2*20)
		require.NoError(t, err)
		_, err = f.WriteAt(b, 2*20)
		require.NoError(t, err)
		return old
	}
	good := unit(make([]byte, 20))
	check(t)
	other := append([]byte(nil), good...)
	binary.BigEndian.PutUint64(other, uint64(offs[3]))
	unit(other)
	check(t)
	unit(good)
	require.Equal(t, sequence(5), bodies(t, s, "t", 0))
}

// TestFileCutFromOutsideIsAnError: the library's own accesses to a file that
// somebody made shorter are errors, not the end of the process.
func TestFileCutFromOutsideIsAnError(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the system to tell where a memory fault happened, which an emulator does not")
	}
	for _, what := range []string{"log", "queue"} {
		t.Run(what, func(t *testing.T) {
			s := openStore(t, scratch(t), smallConfig(FlushSync))
			putN(t, s, "t", 0, 10)
			putN(t, s, "u", 0, 1)
			dispatched(t, s)
			path := logFile(s, 0)
			if what == "queue" {
				path = queueFile(s, "t", 0)
			}
			require.NoError(t, os.Truncate(path, 0))
			for range 3 {
				r, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", MaxCount: 32, Verify: true})
				require.ErrorIs(t, err, message.ErrCorrupt)
				require.NotNil(t, r)
				if what == "queue" {
					require.Zero(t, r.NextBeginOffset, "the log has the messages")
				}
				r.Release()
			}
			_, err := s.LookMessageByOffset(t.Context(), 0)
			require.Equal(t, what == "log", errors.Is(err, message.ErrCorrupt))
			_ = s.Close()
		})
	}
}

// TestResultsStayValidUntilRelease: Close does not take memory away that is in
// use.
func TestResultsStayValidUntilRelease(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	putN(t, s, "t", 0, 10)
	dispatched(t, s)
	r, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", MaxCount: 32, Verify: true})
	require.NoError(t, err)
	closeStore(t, s)
	require.Equal(t, sequence(10), r.texts())
	kept := r.Messages[3].Message()
	r.Release()
	require.Equal(t, "body3", string(kept.Body))
}

// TestMessagesOfRemovedFiles: where the log's first files are gone, queues begin
// later; a queue that lost all keeps its numbering.
func TestMessagesOfRemovedFiles(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "gone", 0, 100) // 97 or 98 bytes each; a file holds 164
	for i := 0; s.MaxOffset() < 2*testSegment; i++ {
		putN(t, s, "part", i, 1)
	}
	dispatched(t, s)
	n := s.MaxOffsetInQueue("part", 0)
	putN(t, s, "new", 0, 3)
	closeStore(t, s)
	for _, derived := range []string{"kept", "checkpoint and point of before the removal gone", "queues gone"} {
		t.Run(derived, func(t *testing.T) {
			d := copyTree(t, dir)
			require.NoError(t, os.Remove(filepath.Join(d, "commitlog", segment.FileName(0))))
			switch derived {
			case "queues gone":
				require.NoError(t, os.RemoveAll(filepath.Join(d, "consumequeue")))
			case "checkpoint and point of before the removal gone":
				require.NoError(t, os.Remove(filepath.Join(d, "checkpoint")))
				require.NoError(t, os.Remove(filepath.Join(d, ownDir, pointFile)))
			}
			s := openStore(t, d, smallConfig(FlushSync))
			require.EqualValues(t, testSegment, s.MinOffset())
			lo, hi := s.MinOffsetInQueue("part", 0), s.MaxOffsetInQueue("part", 0)
			require.Greater(t, lo, message.QueueOffset(0))
			require.Equal(t, n, hi)
			require.Equal(t, GetOffsetTooSmall, read(t, s, "part", 0, 0).Status)
			require.Equal(t, lo, read(t, s, "part", 0, lo-1).NextBeginOffset)
			require.Equal(t, lo, read(t, s, "part", 0, 0).MinOffset)
			require.Len(t, bodies(t, s, "part", 0), int(hi-lo), "every one from there on can be read")
			require.Equal(t, sequence(3), bodies(t, s, "new", 0))
			if derived == "queues gone" { // nothing remembers it
				require.EqualValues(t, 0, put(t, s, "gone", 0, "x").QueueOffset)
				return
			}
			require.EqualValues(t, 100, s.MinOffsetInQueue("gone", 0))
			require.EqualValues(t, 100, s.MaxOffsetInQueue("gone", 0))
			r := read(t, s, "gone", 0, 0)
			require.Equal(t, GetOffsetTooSmall, r.Status)
			require.EqualValues(t, 100, r.NextBeginOffset)
			require.EqualValues(t, 100, put(t, s, "gone", 0, "x").QueueOffset)
			require.Equal(t, []string{"x"}, bodies(t, s, "gone", 0))
		})
	}
}
