package store

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

func crcConfig(mode FlushMode) Config {
	cfg := smallConfig(mode)
	cfg.AppendPropertyCRC = true
	return cfg
}

// fillCRC puts three messages and a batch of two, all with a checksum over the
// record, and returns where they are.
func fillCRC(t *testing.T, s *DefaultMessageStore) []message.LogOffset {
	t.Helper()
	var offs []message.LogOffset
	for range 3 {
		m := tagged("t", "body", "TagA")
		m.Properties += "\x02__CRC32#\x010123456789\x02" // one that a producer brought along
		r, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		offs = append(offs, r.LogOffset)
	}
	b := batchOf(t, "t", 0, message.Message{Body: []byte("1"), Properties: "TAGS\x01TagA"}, message.Message{Body: []byte("2")})
	b.Properties = "CLUSTER\x01c"
	r, err := s.PutMessages(t.Context(), b)
	require.NoError(t, err)
	dispatched(t, s)
	return append(offs, r.Offsets...)
}

// TestAppendPropertyCRC: every record has it, single or in a batch, in both
// modes, and a header that was changed is found by a read that verifies.
func TestAppendPropertyCRC(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), crcConfig(mode))
			offs := fillCRC(t, s)
			r := query(t, s, GetQuery{Topic: "t", MaxCount: 32, Verify: true, TagFilter: message.ParseTagFilter("TagA")})
			require.Len(t, r.Messages, 4)
			for i, v := range query(t, s, GetQuery{Topic: "t", MaxCount: 32}).Messages {
				p := message.Properties(v.Properties())
				require.Equal(t, 1, strings.Count(string(p), message.PropertyCRC32))
				require.Len(t, p[strings.Index(string(p), message.PropertyCRC32):], 20, "at the end")
				want := []message.Properties{"TAGS\x01TagA", "TAGS\x01TagA", "TAGS\x01TagA", "TAGS\x01TagA\x02CLUSTER\x01c", "CLUSTER\x01c"}[i]
				require.Equal(t, want, p.Without(message.PropertyCRC32))
			}
			flip(t, logFile(s, 0), int64(offs[3])+47) // the producer's time, which nothing else vouches for
			r = query(t, s, GetQuery{Topic: "t", MaxCount: 32, Verify: true})
			require.Len(t, r.Messages, 3)
			_, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", Offset: 3, Verify: true})
			require.ErrorIs(t, err, message.ErrCorrupt)
			require.ErrorContains(t, err, "record checksum")
			_, err = s.LookMessageByOffset(t.Context(), offs[3])
			require.ErrorIs(t, err, message.ErrCorrupt)
			require.Len(t, query(t, s, GetQuery{Topic: "t", MaxCount: 32}).Messages, 5, "without Verify it is not looked at")
			closeStore(t, s)
		})
	}
}

// TestRecoveryChecksThePropertyCRC whatever the configuration: damage in the
// middle is passed over, and at the end of a log that was cut off it is the end.
func TestRecoveryChecksThePropertyCRC(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, crcConfig(FlushSync))
	offs := fillCRC(t, s)
	closeStore(t, s)
	forget := func(dir string) {
		require.NoError(t, os.Remove(dir+"/"+ownDir+"/"+pointFile))
		require.NoError(t, os.Remove(dir+"/checkpoint"))
	}

	middle := copyTree(t, dir)
	forget(middle)
	flip(t, middle+"/commitlog/00000000000000000000", int64(offs[1])+47)
	s = openStore(t, middle, smallConfig(FlushSync))
	require.Len(t, s.Recovery().Damaged, 1)
	require.Equal(t, offs[1], s.Recovery().Damaged[0].From)
	require.Equal(t, offs[2], s.Recovery().Damaged[0].To)
	require.EqualValues(t, 4, s.Recovery().Records)
	closeStore(t, s)

	last := copyTree(t, dir)
	forget(last)
	require.NoError(t, os.RemoveAll(last+"/consumequeue"))
	require.NoError(t, os.WriteFile(last+"/"+abortFile, nil, 0o600))
	flip(t, last+"/commitlog/00000000000000000000", int64(offs[4])+47)
	s = openStore(t, last, smallConfig(FlushSync))
	require.Equal(t, offs[4], s.Recovery().LogEnd)
	require.Positive(t, s.Recovery().CutBytes)
	require.Empty(t, s.Recovery().Damaged)
	require.EqualValues(t, 4, s.MaxOffsetInQueue("t", 0))
	closeStore(t, s)
}

// TestPropertyCRCCountsForTheLimit of 32,767 bytes, alone and in a batch.
func TestPropertyCRCCountsForTheLimit(t *testing.T) {
	s := openStore(t, scratch(t), Config{SegmentSize: 1 << 20, MaxBodySize: 100 << 10, AppendPropertyCRC: true})
	fits := message.Properties("k\x01" + strings.Repeat("v", message.MaxPropertiesLength-2-21))
	for _, c := range []struct {
		p  message.Properties
		ok bool
	}{{fits, true}, {fits + "v", false}} {
		m := inner("t", 0, "x")
		m.Properties = c.p
		r1, err1 := s.PutMessage(t.Context(), m)
		r2, err2 := s.PutMessages(t.Context(), batchOf(t, "t", 0, message.Message{Body: []byte("y"), Properties: c.p}))
		for _, err := range []error{err1, err2} {
			if c.ok {
				require.NoError(t, err)
				continue
			}
			var limit *message.LimitError
			require.ErrorAs(t, err, &limit)
			require.Equal(t, "properties", limit.Field)
			require.EqualValues(t, message.MaxPropertiesLength+1, limit.Value)
		}
		if !c.ok {
			require.Equal(t, []PutMessageStatus{PutPropertiesSizeExceeded, PutPropertiesSizeExceeded}, []PutMessageStatus{r1.Status, r2.Status})
		}
	}
	dispatched(t, s)
	require.EqualValues(t, 2, s.MaxOffsetInQueue("t", 0))
	closeStore(t, s)
}

// TestForeignPropertyCRCIsNotStored: as the last property it would be taken for
// the record's own.
func TestForeignPropertyCRCIsNotStored(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	m := inner("t", 0, "x")
	m.Properties = "k\x01v\x02__CRC32#\x010123456789\x02"
	given := *m
	_, err := s.PutMessage(t.Context(), m)
	require.NoError(t, err)
	_, err = s.PutMessages(t.Context(), batchOf(t, "t", 0, message.Message{Body: []byte("y"), Properties: m.Properties}))
	require.NoError(t, err)
	require.Equal(t, given, *m)
	dispatched(t, s)
	for _, v := range query(t, s, GetQuery{Topic: "t", MaxCount: 32, Verify: true}).Messages {
		require.Equal(t, "k\x01v", string(v.Properties()))
	}
	closeStore(t, s)
}

// TestPropertyCRCSurvivesPowerLoss: the tests of crash_test.go, with it.
func TestPropertyCRCSurvivesPowerLoss(t *testing.T) {
	sc := newScene(t, FlushSync, scratch(t), 31)
	sc.cfg.AppendPropertyCRC = true
	sc.play(t, 8)
	y := sc.images(t, seeds(2))
	y.require(t, 60)
}
