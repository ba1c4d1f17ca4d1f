package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// The tests of this file harm a queue behind the back of a store that was closed
// properly. Its recovery point holds, so Open looks at no queue; who uses one first
// must meet what the log says.

// bigQueueConfig has queue files of one page and more, so that harm does not change
// which files there are.
func bigQueueConfig() Config {
	cfg := smallConfig(FlushSync)
	cfg.ConsumeQueueFileSize = 20_000
	return cfg
}

// unitBytes is a unit as it is on disk, from the queue's file.
func unitBytes(t *testing.T, path string, n int) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return bytes.Clone(b[n*consumequeue.UnitSize : (n+1)*consumequeue.UnitSize])
}

func overwrite(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
}

func TestDamagedQueueIsMadeAgainAtItsFirstUse(t *testing.T) {
	const n, unit = 100, consumequeue.UnitSize
	dir := scratch(t)
	s := openStore(t, dir, bigQueueConfig())
	putN(t, s, "other", 0, 10)
	putN(t, s, "t", 0, n)
	path, other := queueFile(s, "t", 0), queueFile(s, "other", 0)
	closeStore(t, s)
	for name, c := range map[string]struct {
		harm  func(t *testing.T, path, other string)
		sound bool // there is nothing to make again
	}{
		"all zero":            {harm: func(t *testing.T, path, _ string) { overwrite(t, path, 0, make([]byte, n*unit)) }},
		"tail zero":           {harm: func(t *testing.T, path, _ string) { overwrite(t, path, 90*unit, make([]byte, 10*unit)) }},
		"last unit zero":      {harm: func(t *testing.T, path, _ string) { overwrite(t, path, 99*unit, make([]byte, unit)) }},
		"last unit random":    {harm: func(t *testing.T, path, _ string) { overwrite(t, path, 99*unit, []byte("01234567890123456789")) }},
		"last unit elsewhere": {harm: func(t *testing.T, path, _ string) { overwrite(t, path, 99*unit, unitBytes(t, path, 98)) }},
		"last of another queue": {harm: func(t *testing.T, path, other string) {
			overwrite(t, path, 99*unit, unitBytes(t, other, 9))
		}},
		"file of another queue": {harm: func(t *testing.T, path, other string) {
			b, err := os.ReadFile(other)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}},
		"a unit too many": {harm: func(t *testing.T, path, _ string) { overwrite(t, path, 100*unit, unitBytes(t, path, 99)) }, sound: true},
		"a unit too many, and a hole": {harm: func(t *testing.T, path, _ string) {
			overwrite(t, path, 700*unit, unitBytes(t, path, 99))
		}, sound: true},
		"nothing": {harm: func(*testing.T, string, string) {}, sound: true},
	} {
		for _, first := range []string{"get", "put", "bounds"} {
			t.Run(name+", first use by "+first, func(t *testing.T) {
				d := copyTree(t, dir)
				c.harm(t, filepath.Join(d, rel(t, dir, path)), filepath.Join(d, rel(t, dir, other)))
				s := openStore(t, d, bigQueueConfig())
				require.True(t, s.Recovery().FromPoint)
				require.Zero(t, s.Recovery().Bytes)
				want := n
				switch first {
				case "get":
					require.Equal(t, "body99", read(t, s, "t", 0, 99).texts()[0])
				case "put":
					putN(t, s, "t", n, 1)
					want++
				case "bounds":
					require.EqualValues(t, n, s.MaxOffsetInQueue("t", 0))
					require.Zero(t, s.MinOffsetInQueue("t", 0))
				}
				require.Empty(t, firstDifference(sequence(want), bodies(t, s, "t", 0)))
				require.Equal(t, c.sound, len(s.Recovery().QueuesReset) == 0)
				require.Equal(t, sequence(10), bodies(t, s, "other", 0))
				require.Empty(t, s.Recovery().Damaged)
				putN(t, s, "t", want, 3)
				closeStore(t, s)
				s = openStore(t, d, bigQueueConfig())
				require.True(t, s.Recovery().FromPoint)
				require.Empty(t, firstDifference(sequence(want+3), bodies(t, s, "t", 0)))
				require.Empty(t, s.Recovery().QueuesReset)
			})
		}
	}
}

func rel(t *testing.T, dir, path string) string {
	t.Helper()
	r, err := filepath.Rel(dir, path)
	require.NoError(t, err)
	return r
}

// TestDamagedLogDoesNotCondemnItsQueues: when the last messages of a queue can not
// be read, its units stay, and so does its numbering; the log is not read again.
func TestDamagedLogDoesNotCondemnItsQueues(t *testing.T) {
	for _, lost := range []int{1, 3, unitsCompared, unitsCompared + 1} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			dir := scratch(t)
			s := openStore(t, dir, bigQueueConfig())
			putN(t, s, "t", 0, 20)
			dispatched(t, s)
			var offsets []message.LogOffset
			for i := 20 - lost; i < 20; i++ {
				offsets = append(offsets, mustOffset(t, s, "t", message.QueueOffset(i)))
			}
			put(t, s, "other", 0, "the point names this one")
			closeStore(t, s)
			for _, off := range offsets {
				poke(t, dir, int64(off)+4, []byte{0})
			}
			s = openStore(t, dir, bigQueueConfig())
			require.True(t, s.Recovery().FromPoint)
			require.Equal(t, sequence(20-lost), read(t, s, "t", 0, 0).texts())
			require.EqualValues(t, 20, s.MaxOffsetInQueue("t", 0))
			_, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", Offset: 19})
			require.ErrorIs(t, err, message.ErrCorrupt)
			require.Equal(t, lost <= unitsCompared-1, len(s.Recovery().QueuesReset) == 0)
			require.EqualValues(t, 20, put(t, s, "t", 0, "next").QueueOffset)
			closeStore(t, s)
			s = openStore(t, dir, bigQueueConfig())
			require.EqualValues(t, 21, s.MaxOffsetInQueue("t", 0))
			require.Equal(t, []string{"next"}, read(t, s, "t", 0, 20).texts())
		})
	}
}

// TestQueueWithoutMessagesKeepsItsNumbers: the log has lost all that it had, also
// when its units are gone as well.
func TestQueueWithoutMessagesKeepsItsNumbers(t *testing.T) {
	for _, c := range []struct{ zeros, checkpoint bool }{{false, true}, {true, true}, {false, false}, {true, false}} {
		dir := scratch(t)
		s := openStore(t, dir, bigQueueConfig())
		putN(t, s, "old", 0, 30)
		for s.MaxOffset() < 2*testSegment {
			put(t, s, "t", 0, string(make([]byte, 3000)))
		}
		path := queueFile(s, "old", 0)
		closeStore(t, s)
		require.NoError(t, os.Remove(filepath.Join(dir, "commitlog", segment.FileName(0))))
		if !c.checkpoint { // then Open asks all queues for the last message that they know
			require.NoError(t, os.Remove(filepath.Join(dir, checkpointFile)))
		}
		if c.zeros {
			overwrite(t, path, 0, make([]byte, 30*consumequeue.UnitSize))
		}
		s = openStore(t, dir, bigQueueConfig())
		require.True(t, s.Recovery().FromPoint)
		require.EqualValues(t, 30, s.MinOffsetInQueue("old", 0))
		require.EqualValues(t, 30, s.MaxOffsetInQueue("old", 0))
		require.Equal(t, c.zeros, len(s.Recovery().QueuesReset) == 1)
		require.EqualValues(t, 30, put(t, s, "old", 0, "body30").QueueOffset)
		require.Equal(t, []string{"body30"}, bodies(t, s, "old", 0))
		closeStore(t, s)
		s = openStore(t, dir, bigQueueConfig())
		require.Equal(t, []string{"body30"}, bodies(t, s, "old", 0))
	}
}

// TestQueueFileThatCanNotBeOpened is an error of get and put, and of nobody else;
// the bounds are those that are known; and all is well when it can be opened.
func TestQueueFileThatCanNotBeOpened(t *testing.T) {
	fs, dir := newCrashFS(t)
	cfg := withFS(bigQueueConfig(), fs)
	s := openStore(t, dir, cfg)
	putN(t, s, "t", 0, 10)
	putN(t, s, "u", 0, 10)
	closeStore(t, s)
	s = openStore(t, dir, cfg)
	fault := fs.FailFrom(crashfs.OpOpen, "store/consumequeue/t/0/*", 1, errInjected)
	_, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", MaxCount: 1})
	require.ErrorIs(t, err, errInjected)
	_, err = s.PutMessage(t.Context(), inner("t", 0, "x"))
	require.ErrorIs(t, err, errInjected)
	_, err = s.OffsetInQueueByTime(t.Context(), "t", 0, 0, BoundaryLower)
	require.ErrorIs(t, err, errInjected)
	require.EqualValues(t, 10, s.MaxOffsetInQueue("t", 0))
	require.Equal(t, []QueueInfo{{"t", 0, 0, 10}, {"u", 0, 0, 10}}, s.Queues())
	require.Equal(t, sequence(10), bodies(t, s, "u", 0))
	fault.Stop()
	require.Equal(t, sequence(10), bodies(t, s, "t", 0))
	putN(t, s, "t", 10, 1)
	require.Positive(t, fault.Fired())
}

// TestPointCostsWhatChanged: with many queues, a point writes entries for those
// that changed since the last one.
func TestPointCostsWhatChanged(t *testing.T) {
	fs, dir := newCrashFS(t)
	cfg := withFS(bigQueueConfig(), fs)
	s := openStore(t, dir, cfg)
	for id := range int32(300) {
		put(t, s, "t", id, "body0")
	}
	closeStore(t, s)
	size := s.ledger.size
	require.EqualValues(t, 300*(ledgerEntrySize+1), size)
	s = openStore(t, dir, cfg)
	stop := fs.Record()
	for _, id := range []int32{7, 8, 7, 299} {
		put(t, s, "t", id, "more")
	}
	closeStore(t, s)
	opened := make(map[string]bool)
	for _, c := range stop() {
		if ok, _ := filepath.Match("store/consumequeue/t/*/*", c.Path); ok {
			opened[c.Path] = true
		}
	}
	require.Len(t, opened, 3, "no other queue was touched")
	require.Equal(t, size+3*(ledgerEntrySize+1), s.ledger.size)
	s = openStore(t, dir, cfg)
	require.True(t, s.Recovery().FromPoint)
	require.EqualValues(t, 3, s.MaxOffsetInQueue("t", 7))
	require.EqualValues(t, 2, s.MaxOffsetInQueue("t", 299))
	require.EqualValues(t, 1, s.MaxOffsetInQueue("t", 0))
}

// TestClosedFilesOfTheLogAreOpenedAgain: more segments than may be mapped.
func TestClosedFilesOfTheLogAreOpenedAgain(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			cfg := smallConfig(mode)
			cfg.MaxMappedFiles = 1
			dir := scratch(t)
			s := openStore(t, dir, cfg)
			putN(t, s, "t", 0, 1000)
			require.Greater(t, s.log.Files(), 5)
			require.Empty(t, firstDifference(sequence(1000), bodies(t, s, "t", 0)))
			closeStore(t, s)
			for range 2 {
				s = openStore(t, dir, cfg)
				require.Empty(t, firstDifference(sequence(1000), bodies(t, s, "t", 0)))
				closeStore(t, s)
				crashed(t, dir)
			}
		})
	}
}
