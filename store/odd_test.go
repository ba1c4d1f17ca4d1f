package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// TestPropertiesOfZerosSurviveACrash though they look like a sector that was
// never written, whichever part of the last sector they fill.
func TestPropertiesOfZerosSurviveACrash(t *testing.T) {
	for _, batch := range []bool{false, true} {
		for _, inLast := range []int{1, 3, 200, 511} { // bytes of the record in its last sector, zeros all
			t.Run(fmt.Sprint(batch, inLast), func(t *testing.T) {
				fs, dir := newCrashFS(t)
				s := openStore(t, dir, withFS(smallConfig(FlushSync), fs))
				props := message.Properties("k\x01v" + strings.Repeat("\x00", 511))
				size := 2*512 + inLast - 1 // what recovery must not miss is one byte more
				m := inner("t", 0, strings.Repeat("b", size-message.MinRecordSize-1-len(props)))
				m.Properties = props
				var r PutMessageResult
				var err error
				if batch {
					m.Properties = ""
					b := &message.MessageExtBatch{MessageExtBrokerInner: *m}
					b.Body = batchElement(m.Body, string(props))
					r, err = s.PutMessages(t.Context(), b)
				} else {
					r, err = s.PutMessage(t.Context(), m)
				}
				require.NoError(t, err)
				require.Equal(t, size+1, r.Bytes)
				image := scratch(t)
				_, err = fs.Crash(crashfs.Oldest, image)
				require.NoError(t, err)
				closeStore(t, s)
				again := openStore(t, filepath.Join(image, "store"), smallConfig(FlushSync))
				require.False(t, again.Recovery().Clean)
				dispatched(t, again)
				got := read(t, again, "t", 0, 0)
				require.Len(t, got.Messages, 1)
				v, ok := got.Messages[0].Message().Properties.Get("k")
				require.True(t, ok)
				require.Equal(t, "v"+strings.Repeat("\x00", 511), v)
			})
		}
	}
}

// TestPropertiesOfTooManyZerosAreRefused: a sector of them could not be told
// from one that was never written.
func TestPropertiesOfTooManyZerosAreRefused(t *testing.T) {
	s := openStore(t, scratch(t), Config{SegmentSize: 1 << 20, MaxBodySize: 100 << 10})
	zeros := func(n int) message.Properties {
		return message.Properties("k\x01v" + strings.Repeat("\x00", n) + "w")
	}
	full := message.Properties("k\x01" + strings.Repeat("v", message.MaxPropertiesLength-3) + "\x00")
	for _, c := range []struct {
		props message.Properties
		want  error
	}{{zeros(511), nil}, {zeros(512), message.ErrIllegal}, {zeros(5000), message.ErrIllegal}, {full, message.ErrLimit}, {full[1:], nil}} {
		m := inner("t", 0, "x")
		m.Properties = c.props
		b := &message.MessageExtBatch{MessageExtBrokerInner: *inner("t", 0, "")}
		b.Body = batchElement([]byte("x"), string(c.props))
		end := s.MaxOffset()
		for _, put := range []func() (PutMessageResult, error){
			func() (PutMessageResult, error) { return s.PutMessage(t.Context(), m) },
			func() (PutMessageResult, error) { return s.PutMessages(t.Context(), b) },
		} {
			r, err := put()
			if c.want == nil {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, "properties")
			require.False(t, r.Status.Stored())
			require.Equal(t, end, s.MaxOffset())
		}
	}
	require.Len(t, bodies(t, s, "t", 0), 4)
}

// TestDamagedStoreTimeStopsNoClock: a store time that a flipped bit has moved far
// into the future is not that of all later messages, in no Open after it.
func TestDamagedStoreTimeStopsNoClock(t *testing.T) {
	const storeTime = 56 // in a record with IPv4 hosts
	for _, bit := range []uint{40, 46, 55, 62, 63} {
		for _, state := range []string{"clean", "crash"} {
			t.Run(fmt.Sprint(state, " ", bit), func(t *testing.T) {
				dir := scratch(t)
				s := openStore(t, dir, smallConfig(FlushSync))
				putN(t, s, "t", 0, 5)
				r := put(t, s, "t", 0, "body5")
				closeStore(t, s)
				require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
				if state == "crash" {
					crashed(t, dir)
				}
				damaged := uint64(r.StoreTimestamp) ^ 1<<bit
				require.EqualValues(t, r.StoreTimestamp, binary.BigEndian.Uint64(peek(t, dir, int64(r.LogOffset)+storeTime, 8)))
				poke(t, dir, int64(r.LogOffset)+storeTime, binary.BigEndian.AppendUint64(nil, damaged))
				closeStore(t, openStore(t, dir, smallConfig(FlushSync))) // leaves a recovery point that names the record
				s = openStore(t, dir, smallConfig(FlushSync))
				require.True(t, s.Recovery().FromPoint)
				now := time.Now()
				r = put(t, s, "t", 0, "body6")
				require.WithinDuration(t, now, time.UnixMilli(r.StoreTimestamp), time.Hour)
				require.Equal(t, sequence(7), bodies(t, s, "t", 0))
				closeStore(t, s)
			})
		}
	}
}

// TestDamagedStoreTimeHidesNothing: of two damaged records, one in its time, the
// messages behind them are still found.
func TestDamagedStoreTimeHidesNothing(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	var offs []message.LogOffset
	for i := range 20 {
		offs = append(offs, put(t, s, "t", 0, fmt.Sprint("body", i)).LogOffset)
	}
	closeStore(t, s)
	flipBitAt(t, dir, offs[7]+57, 0x40) // the time
	flipBitAt(t, dir, offs[8]+4, 1)     // the magic
	flipBitAt(t, dir, offs[8]+2, 1)     // and the size
	for _, state := range []string{"with point", "without point", "queues gone"} {
		d := copyTree(t, dir)
		if state != "with point" {
			require.NoError(t, os.Remove(filepath.Join(d, ownDir, pointFile)))
		}
		if state == "queues gone" {
			require.NoError(t, os.RemoveAll(filepath.Join(d, "consumequeue")))
		}
		s := openStore(t, d, smallConfig(FlushSync))
		require.EqualValues(t, 20, s.MaxOffsetInQueue("t", 0), state)
		require.Equal(t, append(sequence(8), sequence(20)[9:]...), served(t, s, "t", 0), state)
		if state != "with point" {
			require.Len(t, s.Recovery().Damaged, 1)
			require.Equal(t, offs[8], s.Recovery().Damaged[0].From)
			require.Equal(t, offs[9], s.Recovery().Damaged[0].To)
		}
		closeStore(t, s)
	}
}

// served is what a reader gets that passes over damage.
func served(t *testing.T, s *DefaultMessageStore, topic string, queueID int32) []string {
	t.Helper()
	dispatched(t, s)
	var got []string
	for off := s.MinOffsetInQueue(topic, queueID); off < s.MaxOffsetInQueue(topic, queueID); {
		r, err := s.GetMessage(t.Context(), GetQuery{Topic: topic, QueueID: queueID, Offset: off, MaxCount: 32, Verify: true})
		if err != nil {
			require.ErrorIs(t, err, message.ErrCorrupt)
		}
		got = append(got, r.texts()...)
		require.Greater(t, r.NextBeginOffset, off)
		off = r.NextBeginOffset
		r.Release()
	}
	return got
}

func flipBitAt(t *testing.T, dir string, at message.LogOffset, bit byte) {
	t.Helper()
	b := peek(t, dir, int64(at), 1)
	b[0] ^= bit
	poke(t, dir, int64(at), b)
}

// TestDamagedNumberMakesFewBlanks: however long the log is, a number that one
// flipped bit made larger is not believed beyond what has a place in between.
func TestDamagedNumberMakesFewBlanks(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushAsync))
	putN(t, s, "busy", 0, 1100)
	var offs []message.LogOffset
	for i := range 12 {
		offs = append(offs, put(t, s, "t", 0, fmt.Sprint("body", i)).LogOffset)
	}
	closeStore(t, s)
	for _, state := range []string{"clean", "crash", "queues gone"} {
		for _, which := range []int{5, 11} {
			for _, bit := range []uint{4, 6, 9, 10, 33, 62} {
				t.Run(fmt.Sprint(state, " ", which, " ", bit), func(t *testing.T) {
					d := copyTree(t, dir)
					poke(t, d, int64(offs[which])+20, binary.BigEndian.AppendUint64(nil, uint64(which)|1<<bit))
					require.NoError(t, os.Remove(filepath.Join(d, ownDir, pointFile)))
					switch state {
					case "crash":
						crashed(t, d)
					case "queues gone":
						require.NoError(t, os.RemoveAll(filepath.Join(d, "consumequeue")))
					}
					s := openStore(t, d, smallConfig(FlushAsync))
					require.Len(t, s.Recovery().Damaged, 1)
					require.Equal(t, offs[which], s.Recovery().Damaged[0].From)
					next := put(t, s, "t", 0, "next")
					require.Contains(t, []message.QueueOffset{11, 12}, next.QueueOffset)
					dispatched(t, s)
					require.Equal(t, next.QueueOffset+1, s.MaxOffsetInQueue("t", 0))
					require.Equal(t, sequence(which), read(t, s, "t", 0, 0).texts()[:which])
					require.Equal(t, []string{"next"}, read(t, s, "t", 0, next.QueueOffset).texts())
					closeStore(t, s)
				})
			}
		}
	}
}

// foldFS takes names that differ in case for one, and keeps them as they were
// made, as macOS and Windows do.
type foldFS struct {
	segment.FS

	root string // what lies above is as it is
}

// real is path as it is spelled on the disk.
func (f foldFS) real(path string) string {
	if path == f.root || !strings.HasPrefix(path, f.root) {
		return path
	}
	dir := f.real(filepath.Dir(path))
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.EqualFold(e.Name(), filepath.Base(path)) {
			return filepath.Join(dir, e.Name())
		}
	}
	return filepath.Join(dir, filepath.Base(path))
}

func (f foldFS) MkdirAll(dir string, perm os.FileMode) error { return f.FS.MkdirAll(f.real(dir), perm) }
func (f foldFS) Create(path string, perm os.FileMode) (segment.Handle, error) {
	return f.FS.Create(f.real(path), perm)
}
func (f foldFS) Open(path string) (segment.Handle, error)     { return f.FS.Open(f.real(path)) }
func (f foldFS) OpenRead(path string) (segment.Handle, error) { return f.FS.OpenRead(f.real(path)) }
func (f foldFS) Remove(path string) error                     { return f.FS.Remove(f.real(path)) }
func (f foldFS) Rename(from, to string) error                 { return f.FS.Rename(f.real(from), f.real(to)) }
func (f foldFS) Link(from, to string) error                   { return f.FS.Link(f.real(from), f.real(to)) }
func (f foldFS) ReadDir(dir string) ([]os.DirEntry, error)    { return f.FS.ReadDir(f.real(dir)) }
func (f foldFS) Lstat(path string) (os.FileInfo, error)       { return f.FS.Lstat(f.real(path)) }
func (f foldFS) SyncDir(dir string) error                     { return f.FS.SyncDir(f.real(dir)) }
func (f foldFS) OpenVolume(dir string) (segment.Volume, error) {
	return f.FS.OpenVolume(f.real(dir))
}

// TestTopicsThatDifferInCase are refused where they would share a directory, and
// are two topics elsewhere.
func TestTopicsThatDifferInCase(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	if !s.counters.folds {
		putN(t, s, "Orders", 0, 3)
		putN(t, s, "orders", 0, 2)
		require.Equal(t, sequence(3), bodies(t, s, "Orders", 0))
		require.Equal(t, sequence(2), bodies(t, s, "orders", 0))
	}
	closeStore(t, s)

	folding := smallConfig(FlushSync)
	own := scratch(t)
	folding.fs = foldFS{segment.OS, own}
	refused := func(s *DefaultMessageStore, topic string) {
		t.Helper()
		end := s.MaxOffset()
		for _, id := range []int32{0, 1} {
			r, err := s.PutMessage(t.Context(), inner(topic, id, "x"))
			require.ErrorIs(t, err, message.ErrIllegal)
			require.ErrorContains(t, err, "Orders")
			require.Equal(t, PutMessageIllegal, r.Status)
			r, err = s.PutMessages(t.Context(), batchOf(t, topic, id, message.Message{Body: []byte("x")}))
			require.ErrorIs(t, err, message.ErrIllegal)
			require.Equal(t, PutMessageIllegal, r.Status)
		}
		require.Equal(t, end, s.MaxOffset())
	}
	s = openStore(t, own, folding)
	require.True(t, s.counters.folds)
	putN(t, s, "Orders", 0, 1) // not dispatched yet, perhaps
	refused(s, "orders")
	require.EqualValues(t, 0, put(t, s, "Orders", 1, "other queue").QueueOffset)
	putN(t, s, "Orders2", 0, 2)
	require.Equal(t, sequence(1), bodies(t, s, "Orders", 0))
	closeStore(t, s)
	s = openStore(t, own, folding)
	refused(s, "ORDERS")
	putN(t, s, "Orders", 1, 1)
	require.Equal(t, sequence(2), bodies(t, s, "Orders", 0))
	closeStore(t, s)

	// A log from elsewhere has both: one is served, the other is reported and kept.
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
	require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
	folding.fs = foldFS{segment.OS, dir}
	s = openStore(t, dir, folding)
	require.Equal(t, sequence(3), bodies(t, s, "Orders", 0))
	require.Zero(t, s.MaxOffsetInQueue("orders", 0))
	require.Len(t, s.Recovery().Damaged, 2)
	refused(s, "orders")
	closeStore(t, s)
}

// TestRemovedLockFileLetsNobodyIn: people remove lock files that are in their way.
func TestRemovedLockFileLetsNobodyIn(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "t", 0, 3)
	require.NoError(t, os.Remove(filepath.Join(dir, lockFile)))
	for range 2 {
		_, err := Open(t.Context(), dir, smallConfig(FlushSync))
		require.ErrorIs(t, err, message.ErrLocked)
		require.ErrorContains(t, err, fmt.Sprint("process ", os.Getpid()))
	}
	putN(t, s, "t", 3, 3)
	closeStore(t, s)
	s = openStore(t, dir, smallConfig(FlushSync))
	require.True(t, s.Recovery().Clean)
	require.Equal(t, sequence(6), bodies(t, s, "t", 0))
}

// TestCrashRightAfterFilesWereRemoved: the log has lost its first files, and
// nothing else knows of it yet.
func TestCrashRightAfterFilesWereRemoved(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "gone", 0, 100)
	for i := 0; s.MaxOffset() < 4*testSegment; i++ {
		putN(t, s, "t", i, 1)
	}
	n := s.MaxOffsetInQueue("t", 0)
	dispatched(t, s)
	n = max(n, s.MaxOffsetInQueue("t", 0))
	closeStore(t, s)
	for _, files := range []int64{1, 2, 3} {
		for _, lost := range [][]string{nil, {ownDir + "/" + pointFile}, {checkpointFile}, {ownDir + "/" + pointFile, checkpointFile}, {"index"}} {
			t.Run(fmt.Sprint(files, lost), func(t *testing.T) {
				d := copyTree(t, dir)
				require.NoError(t, os.WriteFile(filepath.Join(d, abortFile), nil, 0o600))
				for i := range files {
					require.NoError(t, os.Remove(filepath.Join(d, "commitlog", segment.FileName(i*testSegment))))
				}
				for _, l := range lost {
					require.NoError(t, os.RemoveAll(filepath.Join(d, l)))
				}
				s := openStore(t, d, smallConfig(FlushSync))
				require.EqualValues(t, files*testSegment, s.MinOffset())
				require.Empty(t, s.Recovery().Damaged)
				lo := s.MinOffsetInQueue("t", 0)
				require.Equal(t, n, s.MaxOffsetInQueue("t", 0))
				require.Empty(t, firstDifference(sequence(int(n))[lo:], bodies(t, s, "t", 0)))
				off, ok := s.CommitLogOffsetInQueue("t", 0, lo)
				require.True(t, ok)
				require.Less(t, off, message.LogOffset(files*testSegment+200), "and no message is passed over")
				require.EqualValues(t, 100, put(t, s, "gone", 0, "x").QueueOffset)
				require.Equal(t, n, put(t, s, "t", 0, "x").QueueOffset)
				closeStore(t, s)
			})
		}
	}
}

// TestFilesystemTurnsReadOnly between two puts: what was stored can be read, no
// number changes, and after it is writable again they go on.
func TestFilesystemTurnsReadOnly(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, smallConfig(mode), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
				putN(t, s, "t", 1, 9)
				dispatched(t, s)
				rest(s)
				var faults []*crashfs.Fault
				for _, op := range []crashfs.Op{crashfs.OpCreate, crashfs.OpAllocate, crashfs.OpWriteAt, crashfs.OpSync, crashfs.OpSyncDir,
					crashfs.OpRename, crashfs.OpRemove, crashfs.OpTruncate, crashfs.OpMkdirAll} {
					faults = append(faults, fs.FailFrom(op, "", 1, syscall.EROFS))
				}
				_, err := s.PutMessage(t.Context(), inner("t", 0, "refused"))
				if mode == FlushAsync {
					err = s.Flush(t.Context())
				}
				require.ErrorIs(t, err, syscall.EROFS)
				rest(s)
				require.Zero(t, s.MinOffsetInQueue("t", 0))
				seen := bodies(t, s, "t", 0)
				require.Equal(t, sequence(10), seen[:10])
				require.Zero(t, s.MinOffset())
				_, err = s.PutMessage(t.Context(), inner("t", 0, "refused"))
				require.ErrorIs(t, err, message.ErrFlush)
				require.Error(t, s.Close())
				for _, f := range faults {
					f.Stop()
				}
				again := openStore(t, s.Dir(), smallConfig(mode))
				seen = bodies(t, again, "t", 0)
				require.Equal(t, sequence(10), seen[:10])
				require.EqualValues(t, len(seen), put(t, again, "t", 0, "next").QueueOffset)
				closeStore(t, again)
			})
		})
	}
}

// TestEmptyFileInTheMiddleOfTheLog is an error that names it, and removes
// nothing.
func TestEmptyFileInTheMiddleOfTheLog(t *testing.T) {
	dir := filled(t)
	require.NoError(t, os.Truncate(filepath.Join(dir, "commitlog", segment.FileName(testSegment)), 0))
	was := contents(t, dir)
	_, err := Open(t.Context(), dir, smallConfig(FlushSync))
	require.ErrorIs(t, err, ErrFileSize)
	require.ErrorContains(t, err, segment.FileName(testSegment))
	requireSameFiles(t, was, contents(t, dir))
}

// TestTopicsOutliveTheFiles they were recovered from: nothing that the store
// knows lies in mapped memory.
func TestTopicsOutliveTheFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("provokes faults in mapped memory if it fails, which an emulator does not pass on")
	}
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushAsync))
	const n = 100
	for i := range n {
		put(t, s, fmt.Sprintf("topic%03d", i), int32(i%3), "x")
	}
	closeStore(t, s)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue"))) // the topics come from the log
	release := mmap.Quarantine()
	defer func() { require.NoError(t, release()) }()
	s = openStore(t, dir, smallConfig(FlushAsync))
	closeStore(t, s)
	queues := s.Queues()
	require.Len(t, queues, n)
	for i, q := range queues {
		require.Equal(t, QueueInfo{fmt.Sprintf("topic%03d", i), int32(i % 3), 0, 1}, q)
		require.EqualValues(t, 1, s.MaxOffsetInQueue(q.Topic, q.QueueID))
		require.NotNil(t, s.counters.find(q.Topic, q.QueueID))
	}
	require.Empty(t, s.Recovery().Damaged)
}

// TestEveryCallOnACutFile: somebody made the only file of the log shorter. Every
// call, each on a goroutine of its own, ends with an error of its kind or an
// answer; when the length is right again puts go on without a hole.
func TestEveryCallOnACutFile(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the system to tell where a memory fault happened, which an emulator does not")
	}
	dir := scratch(t)
	s := openStore(t, dir, Config{Flush: FlushAsync, SegmentSize: 1 << 20})
	for i := range 20 {
		m := inner("t", 0, fmt.Sprint("body", i))
		m.Properties = "KEYS\x01k"
		_, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
	}
	dispatched(t, s)
	require.NoError(t, s.WaitIndexed(t.Context(), s.MaxOffset()))
	require.NoError(t, s.Flush(t.Context()))
	whole, err := os.ReadFile(logFile(s, 0))
	require.NoError(t, err)
	end := s.MaxOffset()
	require.NoError(t, os.Truncate(logFile(s, 0), 0))
	ctx := t.Context()
	refused := func(call func() error) func() error {
		return func() error {
			err := call()
			if !errors.Is(err, message.ErrCorrupt) && !errors.Is(err, segment.ErrFault) {
				return fmt.Errorf("instead of damage: %w", errors.Join(errors.New("got"), err))
			}
			return nil
		}
	}
	for name, call := range map[string]func() error{
		"get": refused(func() error {
			r, err := s.GetMessage(ctx, GetQuery{Topic: "t", MaxCount: 32, Verify: true})
			r.Release()
			return err
		}),
		"get without checking": refused(func() error {
			r, err := s.GetMessage(ctx, GetQuery{Topic: "t", MaxCount: 32})
			r.Release()
			return err
		}),
		"look": refused(func() error { _, err := s.LookMessageByOffset(ctx, 0); return err }),
		"put":  refused(func() error { _, err := s.PutMessage(ctx, inner("t", 0, "x")); return err }),
		"batch": refused(func() error {
			_, err := s.PutMessages(ctx, batchOf(t, "t", 0, message.Message{Body: []byte("x")}))
			return err
		}),
		"query": func() error {
			r, err := s.QueryMessage(ctx, KeyQuery{Topic: "t", Key: "k"})
			if err == nil && len(r.Messages) > 0 {
				err = errors.New("a message from nowhere")
			}
			if r != nil {
				r.Release()
			}
			return err
		},
		"by time": func() error { _, err := s.OffsetInQueueByTime(ctx, "t", 0, 1, BoundaryLower); return err },
		"time": func() error {
			if _, ok := s.MessageStoreTimestamp("t", 0, 3); ok {
				return errors.New("a time from nowhere")
			}
			if _, ok := s.EarliestMessageTime("t", 0); ok {
				return errors.New("a time from nowhere")
			}
			return nil
		},
		"numbers": func() error {
			if s.MaxOffsetInQueue("t", 0) != 20 || s.MinOffsetInQueue("t", 0) != 0 || s.MaxOffset() != end {
				return errors.New("numbers have changed")
			}
			_ = s.Stats()
			return nil
		},
	} {
		result := make(chan error)
		go func() { result <- call() }()
		require.NoError(t, <-result, name)
	}
	require.NoError(t, os.WriteFile(logFile(s, 0), whole, 0o600)) // the same file, as it was
	for i := range 8 {
		require.EqualValues(t, 20+i, put(t, s, "t", 0, fmt.Sprint("body", 20+i)).QueueOffset)
	}
	require.Equal(t, sequence(28), bodies(t, s, "t", 0))
	closeStore(t, s)
	s = openStore(t, dir, smallConfigOf(1<<20))
	require.Equal(t, sequence(28), bodies(t, s, "t", 0))
}

func smallConfigOf(segmentSize int64) Config {
	return Config{Flush: FlushAsync, SegmentSize: segmentSize}
}

// TestPanicOfTheCallerIsNoDamage: a nil pointer in a caller's function is not
// taken for a fault in the file.
func TestPanicOfTheCallerIsNoDamage(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	putN(t, s, "t", 0, 1)
	dispatched(t, s)
	var nowhere *message.MessageExt
	require.PanicsWithError(t, "runtime error: invalid memory address or nil pointer dereference", func() {
		_, _ = s.GetMessage(t.Context(), GetQuery{Topic: "t", Match: func(message.View) bool { return nowhere.QueueID == 0 }})
	})
	require.Equal(t, sequence(1), bodies(t, s, "t", 0))
}

// TestZerosInTheMiddleOfTheLog, as a hole that somebody punched: the messages
// there are damaged, those beside are read, in the open store and later.
func TestZerosInTheMiddleOfTheLog(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, Config{Flush: FlushAsync, SegmentSize: 1 << 20})
	var offs []message.LogOffset
	for i := range 30 {
		offs = append(offs, put(t, s, "t", 0, fmt.Sprint("body", i, " ", strings.Repeat("b", 1000))).LogOffset)
	}
	dispatched(t, s)
	require.NoError(t, s.Flush(t.Context()))
	const from, to = 8 << 10, 16 << 10
	f, err := os.OpenFile(logFile(s, 0), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, to-from), from)
	require.NoError(t, errors.Join(err, f.Close()))
	check := func(s *DefaultMessageStore) {
		t.Helper()
		for i, off := range offs {
			next := s.MaxOffset()
			if i+1 < len(offs) {
				next = offs[i+1]
			}
			hit := next > from && off < to
			_, err := s.LookMessageByOffset(t.Context(), off)
			r, getErr := s.GetMessage(t.Context(), GetQuery{Topic: "t", Offset: message.QueueOffset(i), MaxCount: 1, Verify: true})
			if !hit {
				require.NoError(t, err)
				require.NoError(t, getErr)
				require.Equal(t, off, r.Messages[0].LogOffset())
			} else {
				require.ErrorIs(t, err, message.ErrCorrupt)
				for _, v := range r.Messages { // where units were made again, the answer passes over it
					require.Greater(t, v.QueueOffset(), message.QueueOffset(i))
				}
				require.Greater(t, r.NextBeginOffset, message.QueueOffset(i))
			}
			r.Release()
		}
	}
	check(s)
	offs = append(offs, put(t, s, "t", 0, "behind").LogOffset)
	dispatched(t, s)
	check(s)
	closeStore(t, s)
	for _, state := range []string{"point", "no point", "queues gone"} {
		d := copyTree(t, dir)
		if state != "point" {
			require.NoError(t, os.Remove(filepath.Join(d, ownDir, pointFile)))
		}
		if state == "queues gone" {
			require.NoError(t, os.RemoveAll(filepath.Join(d, "consumequeue")))
		}
		s := openStore(t, d, smallConfigOf(1<<20))
		require.EqualValues(t, 31, s.MaxOffsetInQueue("t", 0), state)
		check(s)
		if state != "point" {
			require.NotEmpty(t, s.Recovery().Damaged)
		}
		closeStore(t, s)
	}
}

// TestAddressesOfBothWidthsHaveTheirTime: the store time lies 12 bytes further
// for each IPv6 address, wherever it is looked at.
func TestAddressesOfBothWidthsHaveTheirTime(t *testing.T) {
	v6, err := message.ParseHost("[2001:db8::1]:9876")
	require.NoError(t, err)
	v4, err := message.ParseHost("10.1.2.3:10911")
	require.NoError(t, err)
	for _, hosts := range [][2]message.Host{{v4, v4}, {v6, v4}, {v4, v6}, {v6, v6}} {
		var now clock
		cfg := smallConfig(FlushSync)
		cfg.Now = now.now
		dir := scratch(t)
		s := openStore(t, dir, cfg)
		var offs []message.LogOffset
		for i := range int64(20) {
			now.ms.Store(1_700_000_000_000 + i*10_000)
			m := inner("t", 0, strings.Repeat("b", 3000))
			m.BornHost, m.StoreHost = hosts[0], hosts[1]
			r, err := s.PutMessage(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, now.ms.Load(), r.StoreTimestamp)
			offs = append(offs, r.LogOffset)
		}
		dispatched(t, s)
		at, ok := s.EarliestMessageTime("t", 0)
		require.True(t, ok)
		require.EqualValues(t, int64(1_700_000_000_000), at)
		off, err := s.OffsetInQueueByTime(t.Context(), "t", 0, 1_700_000_000_000+70_000, BoundaryLower)
		require.NoError(t, err)
		require.EqualValues(t, 7, off)
		closeStore(t, s)
		crashed(t, dir) // with RocketMQ's checkpoint, which picks the last file by its time
		poke(t, dir, int64(offs[2])+4, []byte{0})
		poke(t, dir, int64(offs[18])+4, []byte{0})
		s = openStore(t, dir, cfg)
		require.Equal(t, offs[18], s.MaxOffset(), "the tail is torn")
		require.Len(t, s.Recovery().Damaged, 1, "what lies in an older file is damage")
		require.Equal(t, offs[2], s.Recovery().Damaged[0].From)
		closeStore(t, s)
	}
}

// TestSpoiledDerivedFiles: each file of a store in turn, but for the log, is
// missing, empty, cut or full of nonsense. It opens, and has every message,
// by its queue and by its key.
func TestSpoiledDerivedFiles(t *testing.T) {
	cfg := smallConfig(FlushSync)
	cfg.IndexSlots, cfg.IndexEntries = 8, 16
	dir := scratch(t)
	s := openStore(t, dir, cfg)
	const n = 50
	for i := range n {
		m := inner("t", int32(i%2), fmt.Sprint("body", i/2))
		m.Properties = message.Properties(fmt.Sprint("KEYS\x01k", i, " all"))
		_, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
	}
	require.NoError(t, s.WriteConfig("topics.json", []byte("{}")))
	closeStore(t, s)
	files, err := tree(dir)
	require.NoError(t, err)
	spoils := map[string]func(path, was string) error{
		"missing": func(path, _ string) error { return os.Remove(path) },
		"empty":   func(path, _ string) error { return os.WriteFile(path, nil, 0o600) },
		"half":    func(path, was string) error { return os.WriteFile(path, []byte(was[:len(was)/2]), 0o600) },
		"zero":    func(path, was string) error { return os.WriteFile(path, make([]byte, len(was)), 0o600) },
		"random": func(path, was string) error {
			b := make([]byte, len(was))
			for i := range b {
				b[i] = byte(i*i*31 + i*7 + 0x55)
			}
			return os.WriteFile(path, b, 0o600)
		},
	}
	tried, lastIndex := 0, ""
	for path := range files {
		if strings.HasPrefix(path, "index/2") {
			lastIndex = max(lastIndex, path)
		}
	}
	for path, was := range files {
		if strings.HasSuffix(path, "/") || strings.HasPrefix(path, "commitlog/") || path == ownDir+"/"+primaryFile || path == lockFile || strings.HasPrefix(path, configDir) {
			continue
		}
		for how, spoil := range spoils {
			for _, state := range []string{"clean", "crash", "crash without point"} {
				if how == "half" && strings.HasPrefix(path, "consumequeue/") {
					continue // refused: it may be the configuration that is wrong
				}
				if strings.HasPrefix(path, "index/") && (how == "missing" || how == "zero" && path == lastIndex) {
					continue // nobody can miss a file that was the newest; see what the index itself promises
				}
				name := fmt.Sprint(path, " ", how, " ", state)
				d := copyTree(t, dir)
				if state != "clean" {
					require.NoError(t, os.WriteFile(filepath.Join(d, abortFile), nil, 0o600))
				}
				require.NoError(t, spoil(filepath.Join(d, path), was), name)
				if state == "crash without point" {
					if err := os.Remove(filepath.Join(d, ownDir, pointFile)); err != nil {
						require.ErrorIs(t, err, fs.ErrNotExist)
					}
				}
				s, err := Open(t.Context(), d, cfg)
				require.NoError(t, err, name)
				for q := range int32(2) {
					got := served(t, s, "t", q)
					if how == "random" && strings.HasPrefix(path, "consumequeue/") && s.Recovery().FromPoint { // found when it is read
						require.Subset(t, sequence(n/2), got, name)
						require.GreaterOrEqual(t, len(got), n/2-testQueueFile/20, name)
						continue
					}
					require.Equal(t, sequence(n/2), got, name)
				}
				require.NoError(t, s.WaitIndexed(t.Context(), s.MaxOffset()))
				for i := range n {
					requireFound(t, s, fmt.Sprint("k", i), 1, name)
				}
				requireFound(t, s, "all", n, name)
				closeStore(t, s)
				require.NoError(t, os.RemoveAll(d))
				tried++
			}
		}
	}
	require.Greater(t, tried, 100)
}

// requireFound asks for all messages with key, each of which must have it.
func requireFound(t *testing.T, s *DefaultMessageStore, key string, n int, name string) {
	t.Helper()
	r, err := s.QueryMessage(t.Context(), KeyQuery{Topic: "t", Key: key, MaxNum: 64})
	require.NoError(t, err, name)
	defer r.Release()
	require.Len(t, r.Messages, n, "%s, key %s", name, key)
	last := message.LogOffset(-1)
	for _, v := range r.Messages {
		m := v.Message()
		require.Contains(t, m.Keys(), key, name)
		require.Greater(t, v.LogOffset(), last, name)
		last = v.LogOffset()
	}
}

// TestIndexThatCanNotBeMapped leaves one file behind at most, and no put waits
// for it; later it has everything.
func TestIndexThatCanNotBeMapped(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		require.NoError(t, os.RemoveAll(filepath.Join(s.Dir(), "index")))
		closeStore(t, s)
		none := fs.FailFrom(crashfs.OpMap, "store/index/*", 1, syscall.ENOMEM)
		s = openStore(t, s.Dir(), s.cfgOf(fs))
		for i := range 100 {
			m := inner("t", 0, fmt.Sprint("body", i))
			m.Properties = message.Properties(fmt.Sprint("KEYS\x01all k", i))
			_, err := s.PutMessage(t.Context(), m)
			require.NoError(t, err)
			if i%10 == 0 {
				rest(s)
			}
		}
		require.Positive(t, none.Fired())
		require.Positive(t, s.Stats().IndexFailures)
		entries, err := os.ReadDir(filepath.Join(s.Dir(), "index"))
		require.True(t, err == nil || errors.Is(err, os.ErrNotExist))
		require.LessOrEqual(t, len(entries), 1)
		none.Stop()
		rest(s)
		require.NoError(t, s.WaitIndexed(t.Context(), s.MaxOffset()))
		for i := range 100 {
			requireFound(t, s, fmt.Sprint("k", i), 1, "")
		}
		closeStore(t, s)
	})
}
