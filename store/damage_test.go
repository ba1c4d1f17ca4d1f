package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// crashed leaves a closed store as a crash would: with the marker, and without
// our own recovery point.
func crashed(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, ownDir, pointFile)))
}

// poke writes bytes into a file of a closed store's log.
func poke(t *testing.T, dir string, at int64, b []byte) {
	t.Helper()
	base := at - at%testSegment
	f, err := os.OpenFile(filepath.Join(dir, "commitlog", segment.FileName(base)), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt(b, at-base)
	require.NoError(t, err)
}

func peek(t *testing.T, dir string, at, n int64) []byte {
	t.Helper()
	base := at - at%testSegment
	b, err := os.ReadFile(filepath.Join(dir, "commitlog", segment.FileName(base)))
	require.NoError(t, err)
	return bytes.Clone(b[at-base : at-base+n])
}

// TestUndispatchedMessagesReachTheirQueue: the dispatcher was behind at the
// crash, in this file and in the one before.
func TestUndispatchedMessagesReachTheirQueue(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		open := hold(fs, crashfs.OpCreate, queueFiles)
		for i := 0; s.MaxOffset() < testSegment+1000; i++ {
			require.EqualValues(t, i, put(t, s, "new", 0, fmt.Sprint("body", i)).QueueOffset)
		}
		n := int(s.Stats().PutMessages) - 1
		require.Zero(t, s.MaxOffsetInQueue("new", 0))
		image := scratch(t)
		_, err := fs.Crash(crashfs.Oldest, image)
		require.NoError(t, err)
		open()
		closeStore(t, s)

		s = openStore(t, filepath.Join(image, "store"), smallConfig(FlushSync))
		require.False(t, s.Recovery().Clean)
		require.Empty(t, firstDifference(sequence(n), bodies(t, s, "new", 0)))
		last := message.LogOffset(-1)
		for i := range n {
			off, ok := s.CommitLogOffsetInQueue("new", 0, message.QueueOffset(i))
			require.True(t, ok)
			require.Greater(t, off, last)
			last = off
		}
		closeStore(t, s)
	})
}

// TestQueueLongerThanTheLog: the queue was synced further than the log; what the
// log does not have goes, and numbering goes on at the right place, twice.
func TestQueueLongerThanTheLog(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "t", 0, 20)
	dispatched(t, s)
	at, _ := s.CommitLogOffsetInQueue("t", 0, 12)
	end := s.MaxOffset()
	closeStore(t, s)
	crashed(t, dir)
	poke(t, dir, int64(at), make([]byte, end-at)) // never reached the disk
	check := func(n int) {
		t.Helper()
		s := openStore(t, dir, smallConfig(FlushSync))
		require.EqualValues(t, n, s.MaxOffsetInQueue("t", 0))
		for i := range n {
			off, ok := s.CommitLogOffsetInQueue("t", 0, message.QueueOffset(i))
			require.True(t, ok)
			m, err := s.LookMessageByOffset(t.Context(), off)
			require.NoError(t, err)
			require.EqualValues(t, i, m.QueueOffset)
			require.Less(t, off, s.MaxOffset())
		}
		putN(t, s, "t", n, 3)
		closeStore(t, s)
		crashed(t, dir)
	}
	check(12)
	check(15)
	check(18)
}

// TestRecordsOfAnotherPlaceDoNotCount: old bytes that are a sound record, but
// for another position, are no record.
func TestRecordsOfAnotherPlaceDoNotCount(t *testing.T) {
	for _, marker := range []bool{false, true} {
		dir := scratch(t)
		s := openStore(t, dir, smallConfig(FlushSync))
		putN(t, s, "t", 0, 3)
		r := put(t, s, "t", 0, strings.Repeat("b", 50))
		end := s.MaxOffset()
		closeStore(t, s)
		if marker {
			crashed(t, dir)
		}
		poke(t, dir, int64(end), peek(t, dir, int64(r.LogOffset), int64(r.Bytes)))
		s = openStore(t, dir, smallConfig(FlushSync))
		require.Equal(t, end, s.MaxOffset())
		require.EqualValues(t, 4, s.MaxOffsetInQueue("t", 0))
		require.EqualValues(t, 4, put(t, s, "t", 0, "next").QueueOffset)
		require.Len(t, bodies(t, s, "t", 0), 5)
		closeStore(t, s)
	}
}

// TestRecordsBehindACutStayAway: A B C, cut after A, D of B's size, crash: C
// must not come back (spec F27).
func TestRecordsBehindACutStayAway(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	var r PutMessageResult
	for _, b := range []string{"A", "B", "C"} {
		r2 := put(t, s, "t", 0, b)
		if b == "B" {
			r = r2
		}
	}
	closeStore(t, s)
	crashed(t, dir)
	poke(t, dir, int64(r.LogOffset)+88, []byte("X")) // B's body
	poke(t, dir, int64(r.LogOffset)+4, []byte{0, 0}) // and its magic
	s = openStore(t, dir, smallConfig(FlushSync))
	got := bodies(t, s, "t", 0)
	closeStore(t, s)
	if len(got) > 1 { // B counts as damage, C was kept
		require.Equal(t, "C", got[len(got)-1])
		return
	}
	require.Equal(t, []string{"A"}, got)
	require.Positive(t, s.Recovery().CutBytes)
	s = openStore(t, dir, smallConfig(FlushSync))
	put(t, s, "t", 0, "D")
	closeStore(t, s)
	crashed(t, dir)
	s = openStore(t, dir, smallConfig(FlushSync))
	require.Equal(t, []string{"A", "D"}, bodies(t, s, "t", 0))
}

// TestEmptyLastFile of the log, left by a crash between making it and giving it
// its length, does no harm.
func TestEmptyLastFile(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	for i := range 5 {
		require.EqualValues(t, i, put(t, s, "t", 0, strings.Repeat("b", 3000)).QueueOffset)
	}
	closeStore(t, s)
	require.NoFileExists(t, logFile(s, testSegment))
	crashed(t, dir)
	require.NoError(t, os.WriteFile(logFile(s, testSegment), nil, 0o600))
	s = openStore(t, dir, smallConfig(FlushSync))
	r := put(t, s, "t", 0, strings.Repeat("b", 3000))
	require.EqualValues(t, testSegment, r.LogOffset)
	require.Len(t, bodies(t, s, "t", 0), 6)
}

// TestGarbageAtTheEnd: whatever stands at the write position, the log ends
// before it, nothing large is allocated, and the next put is delivered.
func TestGarbageAtTheEnd(t *testing.T) {
	for name, garbage := range map[string][]byte{
		"largest size":        {0x7F, 0xFF, 0xFF, 0xFF, 0xDA, 0xA3, 0x20, 0xA7},
		"negative size":       {0xFF, 0xFF, 0xFF, 0xFF, 0xDA, 0xA3, 0x20, 0xA7},
		"size 7":              {0, 0, 0, 7, 0xDA, 0xA3, 0x20, 0xA7},
		"size 8":              {0, 0, 0, 8, 0xDA, 0xA3, 0x20, 0xA7},
		"size 0":              {0, 0, 0, 0, 0xDA, 0xA3, 0x20, 0xA7},
		"size 91, no more":    {0, 0, 0, 91, 0xDA, 0xA3, 0x20, 0xA7},
		"blank of wrong size": {0, 0, 0, 20, 0xCB, 0xD4, 0x31, 0x94},
		"no magic":            {1, 2, 3, 4, 5, 6, 7, 8},
		"one byte":            {1},
	} {
		for _, marker := range []bool{false, true} {
			t.Run(fmt.Sprint(name, marker), func(t *testing.T) {
				dir := scratch(t)
				s := openStore(t, dir, smallConfig(FlushSync))
				putN(t, s, "t", 0, 5)
				end := s.MaxOffset()
				closeStore(t, s)
				require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
				if marker {
					crashed(t, dir)
				}
				poke(t, dir, int64(end), garbage)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				s = openStore(t, dir, smallConfig(FlushSync))
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
				require.Equal(t, end, s.MaxOffset())
				require.Positive(t, s.Recovery().CutBytes)
				require.Empty(t, s.Recovery().Damaged)
				require.Equal(t, end, put(t, s, "t", 0, "body5").LogOffset)
				require.Equal(t, sequence(6), bodies(t, s, "t", 0))
			})
		}
	}
}

// TestHolesInTheLastRecord: right header, right end, and zeros in a sector of the
// body, of the topic or of the properties, which no checksum covers.
func TestHolesInTheLastRecord(t *testing.T) {
	for name, m := range map[string]*message.MessageExtBrokerInner{
		"body":       inner("t", 0, strings.Repeat("\xAB", 2000)),
		"properties": {MessageExt: message.MessageExt{Message: message.Message{Topic: "t", Body: []byte("x"), Properties: message.Properties("k\x01" + strings.Repeat("v", 1200))}}},
		"end":        {MessageExt: message.MessageExt{Message: message.Message{Topic: "t", Body: []byte("x"), Properties: message.Properties("k\x01" + strings.Repeat("v", 300))}}},
		"topic":      inner(strings.Repeat("a", 127), 0, strings.Repeat("b", 40)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := scratch(t)
			s := openStore(t, dir, smallConfig(FlushSync))
			put(t, s, "other", 0, strings.Repeat("b", 300-92-4)) // to position 300, about
			r, err := s.PutMessage(t.Context(), m)
			require.NoError(t, err)
			end := r.LogOffset + message.LogOffset(r.Bytes)
			require.Greater(t, end, message.LogOffset(512))
			closeStore(t, s)
			crashed(t, dir)
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "checkpoint")))
			poke(t, dir, 512, make([]byte, 512)) // a sector that was not written
			s = openStore(t, dir, smallConfig(FlushSync))
			require.Equal(t, r.LogOffset, s.MaxOffset())
			require.Empty(t, s.Recovery().Damaged)
			require.Zero(t, s.MaxOffsetInQueue(m.Topic, 0))
			require.Len(t, bodies(t, s, "other", 0), 1)
		})
	}
}

// TestPropertiesThatEndInZeros are no hole, as long as a record follows.
func TestPropertiesThatEndInZeros(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	const n = 40
	for i := range n {
		m := inner("t", 0, fmt.Sprint("body", i))
		m.Properties = message.Properties("k\x01v" + strings.Repeat("\x00", 30+i))
		_, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
	}
	put(t, s, "t", 0, fmt.Sprint("body", n))
	closeStore(t, s)
	crashed(t, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, "checkpoint")))
	s = openStore(t, dir, smallConfig(FlushSync))
	require.Equal(t, sequence(n+1), bodies(t, s, "t", 0))
}

// TestPreparedFileIsUsed: the crash came between making a file and the first
// record in it.
func TestPreparedFileIsUsed(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	_, err := s.PutMessage(t.Context(), sized("t", testSegment-8))
	require.NoError(t, err)
	closeStore(t, s)
	crashed(t, dir)
	blank := []byte{0, 0, 0, 8, 0xCB, 0xD4, 0x31, 0x94}
	poke(t, dir, testSegment-8, blank)
	require.NoError(t, os.WriteFile(logFile(s, testSegment), make([]byte, testSegment), 0o600))
	s = openStore(t, dir, smallConfig(FlushSync))
	require.EqualValues(t, testSegment, s.MaxOffset())
	require.EqualValues(t, testSegment, put(t, s, "t", 0, "x").LogOffset)
	closeStore(t, s)
	require.NoFileExists(t, logFile(s, 2*testSegment))
	s = openStore(t, dir, smallConfig(FlushSync))
	require.Len(t, bodies(t, s, "t", 0), 2)
}

// TestCutAtTheStartOfAFile leaves the file before whole.
func TestCutAtTheStartOfAFile(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	for i := range 6 { // 5 to a file
		require.EqualValues(t, i, put(t, s, "t", 0, strings.Repeat("b", 3000)).QueueOffset)
	}
	closeStore(t, s)
	crashed(t, dir)
	poke(t, dir, testSegment, []byte{0, 0, 0, 9})
	s = openStore(t, dir, smallConfig(FlushSync))
	require.EqualValues(t, testSegment, s.MaxOffset())
	r := put(t, s, "t", 0, "x")
	require.EqualValues(t, testSegment, r.LogOffset)
	require.EqualValues(t, 5, r.QueueOffset)
	closeStore(t, s)
	s = openStore(t, dir, smallConfig(FlushSync))
	require.Len(t, bodies(t, s, "t", 0), 6)
	require.EqualValues(t, testSegment+r.Bytes, s.MaxOffset())
}

// TestTornTailIsDroppedQuietly, and damage in the middle is not.
func TestTornTailIsDroppedQuietly(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	var offs []message.LogOffset
	for i := range 10 {
		offs = append(offs, put(t, s, "t", 0, fmt.Sprint("body", i)).LogOffset)
	}
	closeStore(t, s)
	t.Run("tail after a crash", func(t *testing.T) {
		d := copyTree(t, dir)
		crashed(t, d)
		flipAt(t, d, offs[9]+88)
		s := openStore(t, d, smallConfig(FlushSync))
		require.Equal(t, sequence(9), bodies(t, s, "t", 0))
		require.Equal(t, offs[9], s.MaxOffset())
		require.Empty(t, s.Recovery().Damaged)
		require.EqualValues(t, 95, s.Recovery().CutBytes, "what was not zero")
		require.EqualValues(t, 1, s.Recovery().UnitsDropped)
	})
	for _, point := range []bool{true, false} {
		t.Run(fmt.Sprint("middle after a clean stop, point ", point), func(t *testing.T) {
			d := copyTree(t, dir)
			flipAt(t, d, offs[4]+88)
			if !point {
				require.NoError(t, os.Remove(filepath.Join(d, ownDir, pointFile)))
			}
			s := openStore(t, d, smallConfig(FlushSync))
			require.EqualValues(t, 10, s.MaxOffsetInQueue("t", 0))
			require.Equal(t, sequence(4), read(t, s, "t", 0, 0).texts())
			require.Equal(t, sequence(10)[5:], read(t, s, "t", 0, 5).texts())
			r, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", Offset: 4, MaxCount: 32, Verify: true})
			require.ErrorIs(t, err, message.ErrCorrupt)
			require.EqualValues(t, 5, r.NextBeginOffset)
			r.Release()
			if !point {
				require.Len(t, s.Recovery().Damaged, 1)
				d := s.Recovery().Damaged[0]
				require.Equal(t, offs[4], d.From)
				require.Equal(t, offs[5], d.To)
				require.ErrorIs(t, d, message.ErrCorrupt)
			}
		})
	}
}

// flipAt flips a bit at a log offset.
func flipAt(t *testing.T, dir string, at message.LogOffset) {
	t.Helper()
	b := peek(t, dir, int64(at), 1)
	b[0] ^= 8
	poke(t, dir, int64(at), b)
}

// TestFlippedSizeLosesOneMessage: one bit of a size field does not take the rest
// of the log along.
func TestFlippedSizeLosesOneMessage(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushAsync))
	putN(t, s, "t", 0, 1000)
	dispatched(t, s)
	at, ok := s.CommitLogOffsetInQueue("t", 0, 500)
	require.True(t, ok)
	closeStore(t, s)
	for _, state := range []string{"point", "no point", "queues gone"} {
		t.Run(state, func(t *testing.T) {
			d := copyTree(t, dir)
			flipAt(t, d, at+3)
			switch state {
			case "queues gone":
				require.NoError(t, os.RemoveAll(filepath.Join(d, "consumequeue")))
				fallthrough
			case "no point":
				require.NoError(t, os.Remove(filepath.Join(d, ownDir, pointFile)))
			}
			s := openStore(t, d, smallConfig(FlushAsync))
			require.EqualValues(t, 1000, s.MaxOffsetInQueue("t", 0))
			var got []string
			errs := 0
			for off := message.QueueOffset(0); off < 1000; {
				r, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", Offset: off, MaxCount: 32, Verify: true})
				if err != nil {
					require.ErrorIs(t, err, message.ErrCorrupt)
					require.EqualValues(t, 500, off)
					errs++
				}
				got = append(got, r.texts()...)
				require.Greater(t, r.NextBeginOffset, off)
				off = r.NextBeginOffset
				r.Release()
			}
			want := sequence(1000)
			require.Empty(t, firstDifference(append(want[:500:500], want[501:]...), got))
			if state != "point" {
				require.Len(t, s.Recovery().Damaged, 1)
				require.Equal(t, at, s.Recovery().Damaged[0].From)
			}
			if state != "queues gone" {
				require.Equal(t, 1, errs)
			}
			require.EqualValues(t, 1000, put(t, s, "t", 0, "x").QueueOffset)
		})
	}
}

// TestDamageInTheLastRecord after a clean stop: both maxima are those before it,
// and further puts work (spec 17.3, C59).
func TestDamageInTheLastRecord(t *testing.T) {
	for _, marker := range []bool{false, true} {
		t.Run(fmt.Sprint(marker), func(t *testing.T) {
			dir := scratch(t)
			s := openStore(t, dir, smallConfig(FlushSync))
			putN(t, s, "t", 0, 100)
			closeStore(t, s)
			s = openStore(t, dir, smallConfig(FlushSync))
			require.EqualValues(t, 100, s.MaxOffsetInQueue("t", 0))
			putN(t, s, "t", 100, 100)
			r := put(t, s, "t", 0, "last")
			closeStore(t, s)
			poke(t, dir, int64(r.LogOffset)+88+4, make([]byte, 16)) // from the topic's length on
			if marker {
				crashed(t, dir)
			}
			s = openStore(t, dir, smallConfig(FlushSync))
			all := bodies(t, s, "t", 0)
			require.Empty(t, firstDifference(sequence(200), all))
			require.EqualValues(t, 200, s.MaxOffsetInQueue("t", 0), "a consumer's backlog reaches 0")
			putN(t, s, "t", 200, 100)
			require.Len(t, bodies(t, s, "t", 0), 300)
			closeStore(t, s)
			s = openStore(t, dir, smallConfig(FlushSync))
			require.Empty(t, firstDifference(sequence(300), bodies(t, s, "t", 0)))
		})
	}
}

// TestOldStateWithANewLog: checkpoint, point and queues from 100 messages ago do
// no harm.
func TestOldStateWithANewLog(t *testing.T) {
	for _, marker := range []bool{false, true} {
		for _, old := range [][]string{{"checkpoint"}, {ownDir + "/" + pointFile}, {"consumequeue"}, {"checkpoint", ownDir + "/" + pointFile}, {"checkpoint", ownDir + "/" + pointFile, "consumequeue"}} {
			t.Run(fmt.Sprint(marker, old), func(t *testing.T) {
				dir := scratch(t)
				s := openStore(t, dir, smallConfig(FlushSync))
				putN(t, s, "t", 0, 150)
				putN(t, s, "u", 0, 10)
				closeStore(t, s)
				before := copyTree(t, dir)
				s = openStore(t, dir, smallConfig(FlushSync))
				putN(t, s, "t", 150, 100)
				putN(t, s, "new", 0, 10)
				end := s.MaxOffset()
				closeStore(t, s)
				for _, p := range old {
					require.NoError(t, os.RemoveAll(filepath.Join(dir, p)))
					if info, err := os.Stat(filepath.Join(before, p)); err == nil && info.IsDir() {
						require.NoError(t, os.CopyFS(filepath.Join(dir, p), os.DirFS(filepath.Join(before, p))))
					} else {
						b, err := os.ReadFile(filepath.Join(before, p))
						require.NoError(t, err)
						require.NoError(t, os.WriteFile(filepath.Join(dir, p), b, 0o600))
					}
				}
				if marker {
					require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))
				}
				s = openStore(t, dir, smallConfig(FlushSync))
				require.Equal(t, end, s.MaxOffset())
				require.Empty(t, firstDifference(sequence(250), bodies(t, s, "t", 0)))
				require.Equal(t, sequence(10), bodies(t, s, "u", 0))
				require.Equal(t, sequence(10), bodies(t, s, "new", 0))
				putN(t, s, "t", 250, 1)
				require.Equal(t, end, mustOffset(t, s, "t", 250))
			})
		}
	}
}

func mustOffset(t *testing.T, s *DefaultMessageStore, topic string, off message.QueueOffset) message.LogOffset {
	t.Helper()
	dispatched(t, s)
	at, ok := s.CommitLogOffsetInQueue(topic, 0, off)
	require.True(t, ok)
	return at
}

// TestZerosInsideAQueue: they are never taken for its end nor served; without
// the recovery point, and after a crash, the units are made again.
func TestZerosInsideAQueue(t *testing.T) {
	for _, state := range []string{"clean without point", "crash"} {
		t.Run(state, func(t *testing.T) {
			dir := scratch(t)
			s := openStore(t, dir, smallConfig(FlushSync))
			putN(t, s, "t", 0, 10)
			closeStore(t, s)
			f, err := os.OpenFile(queueFile(s, "t", 0), os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(make([]byte, 20), 5*20)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			if state == "crash" {
				crashed(t, dir)
			} else {
				require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
			}
			s = openStore(t, dir, smallConfig(FlushSync))
			require.Equal(t, sequence(10), bodies(t, s, "t", 0))
		})
	}
}

// TestStrangeRecordsOfOthers: records that no queue of ours can hold are
// reported and passed over; the rest is served.
func TestStrangeRecordsOfOthers(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "t", 0, 2)
	end := int64(s.MaxOffset())
	closeStore(t, s)
	crashed(t, dir)
	for i, topic := range []string{"a/b", "..", "", "nul\x00", "t"} {
		m := message.MessageExt{Message: message.Message{Topic: topic, Body: []byte("strange")}, QueueID: -int32(i / 4), LogOffset: message.LogOffset(end), StoreTimestamp: 1 << 41}
		m.BodyCRC = message.BodyCRC(m.Body)
		b := make([]byte, m.RecordSize())
		m.PutRecord(b)
		poke(t, dir, end, b)
		end += int64(len(b))
	}
	m := message.MessageExt{Message: message.Message{Topic: "t", Body: []byte("body2")}, QueueOffset: 2, LogOffset: message.LogOffset(end), StoreTimestamp: 1 << 41}
	m.BodyCRC = message.BodyCRC(m.Body)
	b := make([]byte, m.RecordSize())
	m.PutRecord(b)
	poke(t, dir, end, b)
	s = openStore(t, dir, smallConfig(FlushSync))
	require.Equal(t, sequence(3), bodies(t, s, "t", 0))
	require.Len(t, s.Recovery().Damaged, 5)
	require.Len(t, s.Queues(), 1)
	entries, err := os.ReadDir(filepath.Join(dir, "consumequeue"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is made outside")
	putN(t, s, "t", 3, 1)
}

// TestDamagedQueueOffsetOfTheLastRecord does not change the numbering: it is the
// end of the queue that it would move.
func TestDamagedQueueOffsetOfTheLastRecord(t *testing.T) {
	for _, marker := range []bool{false, true} {
		for _, off := range []uint64{1 << 63, 1<<63 | 11, 1 << 62, 1 << 40, 1 << 20, 1000, ^uint64(0)} {
			t.Run(fmt.Sprint(marker, int64(off)), func(t *testing.T) {
				dir := scratch(t)
				s := openStore(t, dir, smallConfig(FlushSync))
				putN(t, s, "t", 0, 11)
				r := put(t, s, "t", 0, "damaged")
				closeStore(t, s)
				require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
				if marker {
					crashed(t, dir)
				}
				poke(t, dir, int64(r.LogOffset)+20, binary.BigEndian.AppendUint64(nil, off))
				s = openStore(t, dir, smallConfig(FlushSync))
				require.Len(t, s.Recovery().Damaged, 1)
				require.Equal(t, r.LogOffset, s.Recovery().Damaged[0].From)
				require.Equal(t, sequence(11), read(t, s, "t", 0, 0).texts())
				next := put(t, s, "t", 0, "next")
				require.Contains(t, []message.QueueOffset{11, 12}, next.QueueOffset)
				dispatched(t, s)
				require.Equal(t, []string{"next"}, read(t, s, "t", 0, next.QueueOffset).texts())
				entries, err := os.ReadDir(filepath.Join(dir, "consumequeue", "t", "0"))
				require.NoError(t, err)
				require.Len(t, entries, 1, "no files full of blanks")
				closeStore(t, s)
			})
		}
	}
}

// TestDamagedHeaderHarmsNoOtherQueue: a number or a queue id that one bit has
// changed to one that exists takes no other message's place, whether the queues
// are there or are made again.
func TestDamagedHeaderHarmsNoOtherQueue(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    int64 // in the record of message 5 of queue 0
		value []byte
	}{
		{"number 1", 27, []byte{1}}, {"number 4", 27, []byte{4}}, {"number 7", 27, []byte{7}}, {"number 13", 27, []byte{13}},
		{"queue 1", 15, []byte{1}}, {"queue 2", 15, []byte{2}}, {"topic u", 88 + 5 + 1, []byte("u")}, {"topic v", 88 + 5 + 1, []byte("v")},
	} {
		for _, state := range []string{"clean", "crash", "queues gone"} {
			t.Run(c.name+" "+state, func(t *testing.T) {
				dir := scratch(t)
				s := openStore(t, dir, smallConfig(FlushSync))
				var at message.LogOffset
				for i := range 12 {
					body := sequence(12)[i]
					if i < 10 {
						if r := put(t, s, "t", 0, body); i == 5 {
							at = r.LogOffset
						}
					}
					put(t, s, "t", 1, body)
					put(t, s, "u", 0, body)
				}
				closeStore(t, s)
				poke(t, dir, int64(at)+c.at, c.value)
				require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
				switch state {
				case "crash":
					crashed(t, dir)
				case "queues gone":
					require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
				}
				s = openStore(t, dir, smallConfig(FlushSync))
				for _, q := range []queueKey{{"t", 0}, {"t", 1}, {"u", 0}} {
					want, got := sequence(12), []string(nil)
					if q == (queueKey{"t", 0}) {
						want = append(sequence(5), sequence(10)[6:]...)
					}
					for off := message.QueueOffset(0); off < s.MaxOffsetInQueue(q.topic, q.id); {
						r, err := s.GetMessage(t.Context(), GetQuery{Topic: q.topic, QueueID: q.id, Offset: off, MaxCount: 32, Verify: true})
						if err != nil {
							require.ErrorIs(t, err, message.ErrCorrupt)
						}
						got = append(got, r.texts()...)
						off = r.NextBeginOffset
						r.Release()
					}
					if state == "queues gone" { // nobody can tell who is right
						require.GreaterOrEqual(t, len(got), len(want)-1, "%v: %v", q, got)
						continue
					}
					require.Equal(t, want, got, "%v", q)
				}
				closeStore(t, s)
			})
		}
	}
}

// TestUnitsOnDisk: 20 bytes each, as RocketMQ reads them, and zeros behind.
func TestUnitsOnDisk(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	r, err := s.PutMessage(t.Context(), tagged("t", "x", "TagA"))
	require.NoError(t, err)
	r2, err := s.PutMessage(t.Context(), tagged("t", "x", "TagA"))
	require.NoError(t, err)
	closeStore(t, s)
	b, err := os.ReadFile(queueFile(s, "t", 0))
	require.NoError(t, err)
	require.Len(t, b, testQueueFile)
	for i, r := range []PutMessageResult{r, r2} {
		u := b[i*consumequeue.UnitSize:]
		require.EqualValues(t, r.LogOffset, binary.BigEndian.Uint64(u))
		require.EqualValues(t, r.Bytes, binary.BigEndian.Uint32(u[8:]))
		require.EqualValues(t, 2598919, binary.BigEndian.Uint64(u[12:]))
	}
	require.Equal(t, make([]byte, testQueueFile-40), b[40:])
}
