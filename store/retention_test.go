package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// TestChoose is the decision what to remove, without a store: ten files of 100
// bytes, the first message of file i stored i hours after midnight, the last one
// half an hour later, and the last file written to.
func TestChoose(t *testing.T) {
	midnight := time.Date(2024, 5, 1, 0, 0, 0, 0, time.Local)
	var files []commitlog.FileInfo
	for i := range 10 {
		files = append(files, commitlog.FileInfo{Path: fmt.Sprint(i), Base: message.LogOffset(i) * 100, End: message.LogOffset(i+1) * 100})
	}
	at := func(hours float64) time.Time { return midnight.Add(time.Duration(hours * float64(time.Hour))) }
	for _, tc := range []struct {
		about  string
		r      Retention
		s      situation
		want   int
		reason Reason
	}{
		{"nothing is configured", Retention{}, situation{now: at(1e6)}, 0, 0},
		{"nothing is configured, whatever the hour", Retention{}, situation{now: at(1e6), anyHour: true}, 0, 0},

		{"young", Retention{MaxAge: 4 * time.Hour}, situation{now: at(4.4)}, 0, 0},
		{"to the millisecond", Retention{MaxAge: 4 * time.Hour}, situation{now: at(4.5)}, 1, ReasonAge},
		{"three are old", Retention{MaxAge: 4 * time.Hour}, situation{now: at(6.9)}, 3, ReasonAge},
		{"never the one that is written to", Retention{MaxAge: 4 * time.Hour}, situation{now: at(1000)}, 9, ReasonAge},
		{"another hour", Retention{MaxAge: time.Hour, DeleteWhen: "04"}, situation{now: at(3.99)}, 0, 0},
		{"the hour", Retention{MaxAge: time.Hour, DeleteWhen: "04"}, situation{now: at(4)}, 3, ReasonAge},
		{"the end of the hour", Retention{MaxAge: time.Hour, DeleteWhen: "04"}, situation{now: at(4.99)}, 4, ReasonAge},
		{"after the hour", Retention{MaxAge: time.Hour, DeleteWhen: "04"}, situation{now: at(5)}, 0, 0},
		{"another day", Retention{MaxAge: time.Hour, DeleteWhen: "04"}, situation{now: at(28)}, 9, ReasonAge},
		{"one of two hours", Retention{MaxAge: time.Hour, DeleteWhen: "02; 16"}, situation{now: at(16)}, 9, ReasonAge},
		{"the disk is full, or it was asked for", Retention{MaxAge: time.Hour, DeleteWhen: "04"}, situation{now: at(3.5), anyHour: true}, 3, ReasonAge},
		{"the clock went back", Retention{MaxAge: time.Hour}, situation{now: at(-1000)}, 0, 0},

		{"few bytes", Retention{RetainBytes: 1000}, situation{}, 0, 0},
		{"one byte too many", Retention{RetainBytes: 999}, situation{}, 1, ReasonBytes},
		{"four files are enough", Retention{RetainBytes: 499}, situation{}, 6, ReasonBytes},
		{"less than a file", Retention{RetainBytes: 1}, situation{}, 9, ReasonBytes},
		{"not dispatched", Retention{RetainBytes: 1}, situation{bound: 399}, 3, ReasonBytes},

		{"more than the ratio", Retention{}, situation{excess: 1}, 1, ReasonDisk},
		{"as many as are needed", Retention{}, situation{excess: 301}, 4, ReasonDisk},
		{"what else goes counts", Retention{RetainBytes: 800}, situation{excess: 200}, 2, ReasonBytes},

		{"consumed, and nobody asks", Retention{}, situation{consumed: 500}, 0, 0},
		{"consumed", Retention{Groups: RemoveConsumed}, situation{consumed: 500}, 5, ReasonConsumed},
		{"a part of a file is not", Retention{Groups: RemoveConsumed}, situation{consumed: 499}, 4, ReasonConsumed},
		{"kept for others", Retention{Groups: KeepUnconsumed}, situation{consumed: 500}, 0, 0},

		{"by hand", Retention{}, situation{manual: 250}, 2, ReasonManual},
		{"by hand, all", Retention{}, situation{manual: 1 << 40}, 9, ReasonManual},

		{"one is to be dropped", Retention{}, situation{drop: 1}, 1, ReasonFull},
		{"unless another one goes anyway", Retention{RetainBytes: 999}, situation{drop: 1}, 1, ReasonBytes},
	} {
		t.Run(tc.about, func(t *testing.T) {
			tc.s.files = files
			if tc.s.bound == 0 {
				tc.s.bound = 900
			}
			tc.s.stored = func(f commitlog.FileInfo) (time.Time, bool) { return at(float64(f.Base/100) + 0.5), true }
			got := tc.r.choose(tc.s)
			require.Len(t, got, tc.want)
			for i, d := range got {
				require.Equal(t, files[i], d.file, "the oldest, in order")
				require.Equal(t, tc.reason, d.reason)
			}
		})
	}
	t.Run("a full disk costs ten files at once", func(t *testing.T) {
		many := make([]commitlog.FileInfo, 30)
		for i := range many {
			many[i] = commitlog.FileInfo{Base: message.LogOffset(i) * 100, End: message.LogOffset(i+1) * 100}
		}
		require.Len(t, Retention{}.choose(situation{files: many, bound: 2900, excess: 1 << 40}), 10)
	})
	t.Run("an age that is not known", func(t *testing.T) {
		unknown := func(commitlog.FileInfo) (time.Time, bool) { return time.Time{}, false }
		require.Empty(t, Retention{MaxAge: time.Hour}.choose(situation{files: files, bound: 900, now: at(1e6), stored: unknown}))
	})
	t.Run("a young file protects older looking ones behind it", func(t *testing.T) {
		stored := func(f commitlog.FileInfo) (time.Time, bool) {
			if f.Base/100 <= 2 || 6 <= f.Base/100 && f.Base/100 <= 8 {
				return midnight, true
			}
			return at(100), true
		}
		require.Len(t, Retention{MaxAge: time.Hour}.choose(situation{files: files, bound: 900, now: at(100), stored: stored}), 3)
	})
}

// TestUsedPercent is RocketMQ's rounding, and what is beyond a ratio.
func TestUsedPercent(t *testing.T) {
	for _, tc := range []struct {
		total, free  int64
		used         int
		ratio        int
		excess       int64
		excessAtMost int64
	}{
		{0, 0, 0, 75, 0, 0},
		{1000, 1000, 0, 75, 0, 0},
		{1000, 999, 1, 75, 0, 0},
		{1000, 250, 75, 75, 0, 0},
		{1000, 249, 76, 75, 1, 1},
		{1000, 0, 100, 75, 250, 250},
		{1000, 0, 100, 0, 0, 0},
		{10_000, 2_499, 76, 75, 1, 1},
		{1 << 62, 0, 100, 50, 1 << 61, 1<<61 + 100},
	} {
		s := space{tc.total, tc.free}
		require.Equal(t, tc.used, s.usedPercent(), "%+v", tc)
		require.GreaterOrEqual(t, s.excess(tc.ratio), tc.excess, "%+v", tc)
		require.LessOrEqual(t, s.excess(tc.ratio), tc.excessAtMost, "%+v", tc)
	}
}

// clock is a clock that a test sets.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// fakeDisk is a disk whose use a test sets, in percent.
type fakeDisk struct{ used atomic.Int64 }

func (d *fakeDisk) space(string) (total, free int64, err error) {
	const size = 1 << 20
	return size, size - size*d.used.Load()/100, nil
}

// tinySegments hold two messages of tinyBody each.
const tinySegment = 4 << 10

var tinyBody = strings.Repeat("b", 1800)

func tinyConfig(mode FlushMode) (Config, *clock, *fakeDisk) {
	c, d := &clock{}, &fakeDisk{}
	c.ms.Store(time.Date(2024, 5, 1, 12, 0, 0, 0, time.Local).UnixMilli())
	return Config{Flush: mode, FlushTimeout: patient, SegmentSize: tinySegment, ConsumeQueueFileSize: 100, NoIndex: true, Now: c.now, space: d.space}, c, d
}

// putTiny puts n messages, two of which fill a file.
func putTiny(t testing.TB, s *DefaultMessageStore, topic string, n int) {
	t.Helper()
	for range n {
		put(t, s, topic, 0, tinyBody)
	}
	dispatched(t, s)
	settle(t, s)
}

// settle waits until the store has looked at what can be removed for every file
// that was begun: it would else do so when the test has moved the clock.
func settle(t testing.TB, s *DefaultMessageStore) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.rolledKick)+len(s.cleanKick) == 0 }, time.Minute, time.Millisecond)
	_, err := s.routine(cleaning{}) // comes after what was begun
	require.NoError(t, err)
}

// requireStart checks that log and queue begin with message first, of which two
// are in a file, and that all is readable from there.
func requireStart(t testing.TB, s *DefaultMessageStore, topic string, first, end int) {
	t.Helper()
	require.EqualValues(t, first/2*tinySegment, s.MinOffset())
	require.EqualValues(t, first, s.MinOffsetInQueue(topic, 0))
	require.EqualValues(t, end, s.MaxOffsetInQueue(topic, 0))
	require.Equal(t, end-first, len(bodies(t, s, topic, 0)))
	if first > 0 {
		r := read(t, s, topic, 0, message.QueueOffset(first-1))
		require.Equal(t, GetOffsetTooSmall, r.Status)
		require.EqualValues(t, first, r.NextBeginOffset)
	}
	files, err := os.ReadDir(filepath.Join(s.Dir(), "consumequeue", topic, "0"))
	require.NoError(t, err)
	const units = 5 // of a file
	require.Len(t, files, (end+units-1)/units-min(first, end-1)/units, "files of the queue")
}

// TestRemovalByAge: by the store timestamp of a file's last message, at the hour
// given; what is removed stays so after a reopen, with the numbering.
func TestRemovalByAge(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			cfg, clock, _ := tinyConfig(mode)
			cfg.Retention = Retention{MaxAge: 10 * time.Hour, DeleteWhen: "04"}
			s := openStore(t, scratch(t), cfg)
			for range 10 {
				putTiny(t, s, "t", 2)
				clock.advance(time.Hour)
			}
			requireStart(t, s, "t", 0, 20)
			clock.advance(5*time.Hour + 30*time.Minute) // half past three
			_, err := s.routine(cleaning{})
			require.NoError(t, err)
			requireStart(t, s, "t", 0, 20)
			clock.advance(time.Hour)
			removal, err := s.routine(cleaning{})
			require.NoError(t, err)
			require.Len(t, removal.Files, 7)
			require.EqualValues(t, 14, removal.Messages)
			require.Len(t, removal.Derived, 2)
			require.EqualValues(t, 7*tinySegment+2*100, removal.Bytes)
			require.EqualValues(t, 7*tinySegment, removal.LogStart)
			for i, f := range removal.Files {
				require.Equal(t, ReasonAge, f.Reason)
				require.EqualValues(t, i*tinySegment, f.From)
				require.EqualValues(t, (i+1)*tinySegment, f.To)
				require.NoFileExists(t, f.Path)
			}
			requireStart(t, s, "t", 14, 20)
			stats := s.Stats()
			require.EqualValues(t, 7, stats.SegmentsRemoved[ReasonAge])
			require.EqualValues(t, 7*tinySegment, stats.BytesRemoved[ReasonAge])
			require.EqualValues(t, 14, stats.MessagesRemoved[ReasonAge])

			clock.advance(time.Hour) // the hour is over, but it is asked for
			removal, err = s.DeleteExpired(t.Context())
			require.NoError(t, err)
			require.Len(t, removal.Files, 1)
			clock.advance(1000 * time.Hour)
			removal, err = s.DeleteExpired(t.Context())
			require.NoError(t, err)
			require.Len(t, removal.Files, 1, "the last file stays")
			requireStart(t, s, "t", 18, 20)
			closeStore(t, s)
			s = openStore(t, s.Dir(), cfg)
			require.True(t, s.Recovery().FromPoint)
			requireStart(t, s, "t", 18, 20)
			require.EqualValues(t, 20, put(t, s, "t", 0, tinyBody).QueueOffset)
		})
	}
}

// routine cleans as the maintenance goroutine does by itself.
func (s *DefaultMessageStore) routine(c cleaning) (Removal, error) {
	return s.askToClean(context.Background(), c)
}

// TestFileTimesDoNotMatter: touched files are neither kept nor removed for that,
// and in a log whose times go back, as another program may have written,
// nothing is removed from the middle.
func TestFileTimesDoNotMatter(t *testing.T) {
	cfg, clock, _ := tinyConfig(FlushSync)
	cfg.Retention = Retention{MaxAge: 72 * time.Hour}
	s := openStore(t, scratch(t), cfg)
	putTiny(t, s, "t", 20)
	touch := func(age time.Duration, files ...int) {
		for _, i := range files {
			path := filepath.Join(s.Dir(), "commitlog", fmt.Sprintf("%020d", i*tinySegment))
			require.NoError(t, os.Chtimes(path, clock.now().Add(-age), clock.now().Add(-age)))
		}
	}
	touch(100*time.Hour, 0, 1, 2, 6, 7, 8)
	removal, err := s.DeleteExpired(t.Context())
	require.NoError(t, err)
	require.Empty(t, removal.Files)

	closeStore(t, s)
	clock.advance(100 * time.Hour)
	touch(0, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	for i := range 20 { // all but those of files 0 to 2 and 6 to 8 are new
		if i/2 <= 2 || 6 <= i/2 && i/2 <= 8 {
			continue
		}
		path := filepath.Join(s.Dir(), "commitlog", fmt.Sprintf("%020d", i/2*tinySegment))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		at := i % 2 * int(binary.BigEndian.Uint32(b))
		binary.BigEndian.PutUint64(b[at+storeTimestampAt:], uint64(clock.now().UnixMilli()))
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(s.Dir(), ownDir, pointFile)))
	s = openStore(t, s.Dir(), cfg)
	require.Empty(t, s.Recovery().Damaged)
	_, err = s.DeleteExpired(t.Context())
	require.NoError(t, err)
	requireStart(t, s, "t", 6, 20)
}

// storeTimestampAt is where a record has its store timestamp.
const storeTimestampAt = 56

// TestAgeOfAFileWithoutQueuedMessages: no queue knows its messages, so it goes
// by the first message behind it.
func TestAgeOfAFileWithoutQueuedMessages(t *testing.T) {
	cfg, clock, _ := tinyConfig(FlushSync)
	cfg.Retention = Retention{MaxAge: 10 * time.Hour}
	s := openStore(t, scratch(t), cfg)
	for range 2 {
		m := inner("t", 0, tinyBody)
		m.SysFlag = message.TransactionPrepared
		_, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
	}
	clock.advance(5 * time.Hour)
	putTiny(t, s, "t", 1)
	clock.advance(9 * time.Hour)
	removal, err := s.DeleteExpired(t.Context())
	require.NoError(t, err)
	require.Empty(t, removal.Files)
	clock.advance(time.Hour)
	removal, err = s.DeleteExpired(t.Context())
	require.NoError(t, err)
	require.Len(t, removal.Files, 1)
	require.Zero(t, removal.Messages)
}

// TestRemovalByBytes happens by itself when the log rolls.
func TestRemovalByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _, _ := tinyConfig(FlushAsync)
		cfg.Retention.RetainBytes = 5 * tinySegment
		s := openStore(t, scratch(t), cfg)
		for range 30 {
			putTiny(t, s, "t", 1)
			synctest.Wait()
		}
		require.LessOrEqual(t, s.log.Files(), 6)
		require.EqualValues(t, 30-2*s.Stats().SegmentsRemoved[ReasonBytes], len(bodies(t, s, "t", 0)))
		require.Positive(t, s.Stats().SegmentsRemoved[ReasonBytes])
		closeStore(t, s)
	})
}

// TestDiskRatios: above the first expired files go at any hour, above the second
// all do, a few at a time, and above the third nothing is taken, until the
// second is met again.
func TestDiskRatios(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, clock, disk := tinyConfig(FlushAsync)
		cfg.Retention = RocketMQConfig().Retention
		s := openStore(t, scratch(t), cfg)
		putTiny(t, s, "t", 6)
		clock.advance(100 * time.Hour) // now it is 16 o'clock
		putTiny(t, s, "t", 54)
		pass := func() { <-time.After(cleanInterval + time.Second); synctest.Wait() }
		first := func() int { return int(s.MinOffset()) / tinySegment }
		disk.used.Store(75)
		pass()
		require.Equal(t, 0, first())
		disk.used.Store(76)
		pass()
		require.Equal(t, 3, first(), "what is expired")
		disk.used.Store(85)
		pass()
		require.Equal(t, 3, first())
		disk.used.Store(89)
		pass()
		require.Equal(t, 13, first(), "ten more")
		put(t, s, "t", 0, tinyBody)
		disk.used.Store(91)
		pass()
		require.Equal(t, 23, first())
		r, err := s.PutMessage(t.Context(), inner("t", 0, tinyBody))
		require.ErrorIs(t, err, message.ErrDiskFull)
		require.Equal(t, PutServiceNotAvailable, r.Status)
		var full *FullError
		require.ErrorAs(t, err, &full)
		require.EqualValues(t, 91, full.Have)
		require.EqualValues(t, 90, full.Limit)
		disk.used.Store(88)
		_, err = s.PutMessage(t.Context(), inner("t", 0, tinyBody))
		require.ErrorIs(t, err, message.ErrDiskFull, "not yet")
		disk.used.Store(85)
		require.EqualValues(t, 61, put(t, s, "t", 0, tinyBody).QueueOffset, "without a word from anybody")
		require.EqualValues(t, 3, s.Stats().SegmentsRemoved[ReasonAge])
		require.EqualValues(t, 20, s.Stats().SegmentsRemoved[ReasonDisk])
		require.EqualValues(t, 1<<20, s.Stats().DiskTotal)
		require.InDelta(t, 1<<20*15/100, s.Stats().DiskFree, 2)
		closeStore(t, s)
	})
}

// TestFullDiskBlocksUntilItHasRoom, looking every second.
func TestFullDiskBlocksUntilItHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _, disk := tinyConfig(FlushSync)
		cfg.Retention.DiskWarningLevelRatio = 90
		cfg.WhenFull = BlockWhenFull
		s := openStore(t, scratch(t), cfg)
		disk.used.Store(95)
		s.disk.look()
		answer := make(chan error, 3)
		for range 3 {
			go func() { _, err := s.PutMessage(t.Context(), inner("t", 0, "x")); answer <- err }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := s.PutMessage(ctx, inner("t", 0, "x"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, message.ErrDiskFull)
		require.Empty(t, answer)
		synctest.Wait() // one may just be looking at the disk again
		require.EqualValues(t, 3, s.Stats().Blocked)
		require.GreaterOrEqual(t, s.Stats().BlockedPuts, int64(4))
		disk.used.Store(80)
		<-time.After(2 * time.Second)
		for range 3 {
			require.NoError(t, <-answer)
		}
		require.Zero(t, s.Stats().Blocked)
		disk.used.Store(95)
		s.disk.look()
		go func() { _, err := s.PutMessage(t.Context(), inner("t", 0, "x")); answer <- err }()
		synctest.Wait()
		closeStore(t, s)
		require.ErrorIs(t, <-answer, message.ErrClosed)
	})
}

// TestLimit: with each policy, when the store reaches MaxBytes.
func TestLimit(t *testing.T) {
	limited := func(mode FlushMode, policy FullPolicy) Config {
		cfg, _, _ := tinyConfig(mode)
		cfg.WhenFull, cfg.MaxBytes = policy, 10*tinySegment
		return cfg
	}
	// The reserve, the room for derived files and the files of the queue leave
	// eight files.
	const fits = 16
	for _, mode := range bothModes {
		t.Run("reject "+mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), limited(mode, RejectWhenFull))
			putTiny(t, s, "t", fits)
			for range 3 {
				r, err := s.PutMessage(t.Context(), inner("t", 0, tinyBody))
				require.ErrorIs(t, err, message.ErrDiskFull)
				require.ErrorContains(t, err, "MaxBytes")
				require.Equal(t, PutServiceNotAvailable, r.Status)
			}
			requireStart(t, s, "t", 0, fits)
			removal, err := s.RemoveBefore(t.Context(), 2*tinySegment+1)
			require.NoError(t, err)
			require.Len(t, removal.Files, 2)
			require.Equal(t, ReasonManual, removal.Files[0].Reason)
			putTiny(t, s, "t", 4)
			requireStart(t, s, "t", 4, fits+4)
			require.LessOrEqual(t, s.Stats().BytesStored, int64(10*tinySegment))
			closeStore(t, s)
			s = openStore(t, s.Dir(), limited(mode, RejectWhenFull))
			_, err = s.PutMessage(t.Context(), inner("t", 0, tinyBody))
			require.ErrorIs(t, err, message.ErrDiskFull)
		})
		t.Run("block "+mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), limited(mode, BlockWhenFull))
			putTiny(t, s, "t", fits)
			answer := make(chan error)
			go func() { _, err := s.PutMessage(t.Context(), inner("t", 0, tinyBody)); answer <- err }()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := s.PutMessages(ctx, batchOf(t, "t", 0, message.Message{Body: []byte(tinyBody)}))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			_, err = s.RemoveBefore(t.Context(), tinySegment)
			require.NoError(t, err)
			require.NoError(t, <-answer)
			dispatched(t, s)
			requireStart(t, s, "t", 2, fits+1)
		})
		t.Run("drop "+mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), limited(mode, DropOldest))
			putTiny(t, s, "t", 100)
			first := int(s.MinOffsetInQueue("t", 0))
			require.GreaterOrEqual(t, 100-first, 10, "no more was dropped than had to")
			requireStart(t, s, "t", first, 100)
			stats := s.Stats()
			require.EqualValues(t, first, stats.MessagesRemoved[ReasonFull])
			require.EqualValues(t, first/2, stats.SegmentsRemoved[ReasonFull])
			require.LessOrEqual(t, stats.BytesStored, int64(10*tinySegment))
			require.Zero(t, stats.PutFailures)
		})
	}
}

// TestDropOldestWithManyWriters drops no more than is needed, whoever asks.
func TestDropOldestWithManyWriters(t *testing.T) {
	for _, mode := range bothModes {
		cfg, _, _ := tinyConfig(mode)
		cfg.WhenFull, cfg.MaxBytes = DropOldest, 12*tinySegment
		s := openStore(t, scratch(t), cfg)
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for range 40 {
					if _, err := s.PutMessage(t.Context(), inner("t", int32(w%2), tinyBody)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		dispatched(t, s)
		stats := s.Stats()
		require.GreaterOrEqual(t, s.log.Files(), 6)
		require.EqualValues(t, 320, stats.MessagesRemoved[ReasonFull]+int64(len(bodies(t, s, "t", 0))+len(bodies(t, s, "t", 1))))
		closeStore(t, s)
	}
}

// TestSmallestLimit: two files of the log must have room.
func TestSmallestLimit(t *testing.T) {
	cfg, _, _ := tinyConfig(FlushSync)
	cfg.MaxBytes = 3*tinySegment + tinySegment/4 - 1
	_, err := Open(t.Context(), scratch(t), cfg)
	var limit *message.LimitError
	require.ErrorAs(t, err, &limit)
	require.Equal(t, message.LimitError{Field: "Config.MaxBytes", Limit: cfg.MaxBytes + 1, Value: cfg.MaxBytes, AtLeast: true}, *limit)

	cfg.MaxBytes++
	cfg.MaxBytes += 200 // files of a queue
	cfg.WhenFull = DropOldest
	s := openStore(t, scratch(t), cfg)
	putTiny(t, s, "t", 50)
	require.Equal(t, 2, s.log.Files())
	require.LessOrEqual(t, s.Stats().BytesStored, cfg.MaxBytes)
	require.Equal(t, 4, len(bodies(t, s, "t", 0)))
}

// TestConfigOfRetention names what is out of range.
func TestConfigOfRetention(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Retention.MaxAge":                 {Retention: Retention{MaxAge: -1}},
		"Retention.RetainBytes":            {Retention: Retention{RetainBytes: -1}},
		"Retention.DiskMaxUsedSpaceRatio":  {Retention: Retention{DiskMaxUsedSpaceRatio: 100}},
		"Retention.DiskCleanForciblyRatio": {Retention: Retention{DiskCleanForciblyRatio: -1}},
		"Retention.DiskWarningLevelRatio":  {Retention: Retention{DiskWarningLevelRatio: 101}},
		"Retention.DeleteWhen":             {Retention: Retention{DeleteWhen: "24"}},
		"Retention.Groups":                 {Retention: Retention{Groups: 3}},
		"MaxBytes":                         {MaxBytes: -1},
		"WhenFull":                         {WhenFull: 3},
	} {
		_, err := Open(t.Context(), scratch(t), cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
	for _, hours := range []string{"", "0", "04", "4;5", "23; 00"} {
		require.NoError(t, Config{Retention: Retention{DeleteWhen: hours}}.withDefaults().validate(), hours)
	}
	for _, hours := range []string{";", "x", "-1", "4,5", "04:00"} {
		require.ErrorIs(t, Config{Retention: Retention{DeleteWhen: hours}}.withDefaults().validate(), message.ErrIllegal, hours)
	}
}

// TestGroups: what a group has not consumed is kept whatever happens, and with
// RemoveConsumed the rest goes as soon as it is consumed.
func TestGroups(t *testing.T) {
	consumed := func(positions map[string]message.QueueOffset) Consumed {
		return func(topic string, _ int32) (message.QueueOffset, bool) {
			off, ok := positions[topic]
			return off, ok
		}
	}
	open := func(t *testing.T, rule GroupRule) *DefaultMessageStore {
		cfg, clock, _ := tinyConfig(FlushSync)
		cfg.Retention = Retention{Groups: rule, MaxAge: time.Hour}
		s := openStore(t, scratch(t), cfg)
		putTiny(t, s, "t", 10)
		putTiny(t, s, "u", 10)
		clock.advance(100 * time.Hour)
		return s
	}
	t.Run("nothing is known", func(t *testing.T) {
		for _, rule := range []GroupRule{KeepUnconsumed, RemoveConsumed} {
			s := open(t, rule)
			removal, err := s.RemoveBefore(t.Context(), s.MaxOffset())
			require.NoError(t, err)
			require.Empty(t, removal.Files)
		}
	})
	t.Run("keep", func(t *testing.T) {
		s := open(t, KeepUnconsumed)
		s.SetConsumed(consumed(map[string]message.QueueOffset{"t": 5}))
		_, err := s.DeleteExpired(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2*tinySegment, s.MinOffset(), "message 5 is in the third file")
		s.SetConsumed(consumed(map[string]message.QueueOffset{"t": 10, "u": 0}))
		_, err = s.RemoveBefore(t.Context(), s.MaxOffset())
		require.NoError(t, err)
		require.EqualValues(t, 5*tinySegment, s.MinOffset())
		s.SetConsumed(consumed(nil)) // no group any more
		_, err = s.DeleteExpired(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 9*tinySegment, s.MinOffset())
		stats := s.Stats()
		require.EqualValues(t, 9, stats.SegmentsRemoved[ReasonAge]+stats.SegmentsRemoved[ReasonManual])
	})
	t.Run("remove", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cfg, _, _ := tinyConfig(FlushSync)
			cfg.Retention.Groups = RemoveConsumed
			s := openStore(t, scratch(t), cfg)
			putTiny(t, s, "t", 10)
			putTiny(t, s, "u", 10)
			positions := map[string]message.QueueOffset{"t": 100}
			s.SetConsumed(consumed(positions))
			synctest.Wait()
			require.EqualValues(t, 5*tinySegment, s.MinOffset(), "u has no group")
			positions["u"] = 3
			s.NotifyConsumed()
			synctest.Wait()
			require.EqualValues(t, 6*tinySegment, s.MinOffset())
			require.EqualValues(t, 6, s.Stats().SegmentsRemoved[ReasonConsumed])
			require.EqualValues(t, 12, s.Stats().MessagesRemoved[ReasonConsumed])
			require.EqualValues(t, 10, s.MinOffsetInQueue("t", 0))
			require.EqualValues(t, 2, s.MinOffsetInQueue("u", 0))
			closeStore(t, s)
		})
	})
	t.Run("drop", func(t *testing.T) {
		cfg, _, _ := tinyConfig(FlushSync)
		cfg.Retention.Groups, cfg.WhenFull, cfg.MaxBytes = KeepUnconsumed, DropOldest, 10*tinySegment
		s := openStore(t, scratch(t), cfg)
		s.SetConsumed(consumed(map[string]message.QueueOffset{"t": 5}))
		n := 0
		for ; ; n++ {
			if _, err := s.PutMessage(t.Context(), inner("t", 0, tinyBody)); err != nil {
				require.ErrorIs(t, err, message.ErrDiskFull)
				require.ErrorContains(t, err, "KEEP_UNCONSUMED")
				break
			}
		}
		require.EqualValues(t, 4, s.MinOffsetInQueue("t", 0))
		require.Equal(t, n-4, len(bodies(t, s, "t", 0)))
	})
}

// TestReadersAmidRemoval looks up messages while the oldest files go: each
// answer is the right message, or that it is gone, and memory that is pinned
// stays.
func TestReadersAmidRemoval(t *testing.T) {
	const segments = 50
	cfg := Config{SegmentSize: 1 << 10, ConsumeQueueFileSize: 100, Flush: FlushAsync}
	s := openStore(t, scratch(t), cfg)
	var offsets []message.LogOffset
	for i := range segments * 4 {
		offsets = append(offsets, put(t, s, "t", 0, fmt.Sprintf("body%04d%s", i, strings.Repeat("b", 100))).LogOffset)
	}
	dispatched(t, s)
	held := read(t, s, "t", 0, 0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	var lookups atomic.Int64
	stop := sync.OnceFunc(func() { close(done); wg.Wait() })
	defer stop() // also when the test has failed
	for r := range 4 {
		wg.Go(func() {
			for i := r; ; i += 7 {
				select {
				case <-done:
					return
				default:
				}
				if err := lookUp(s, offsets, i%len(offsets)); err != nil {
					t.Error(err)
					return
				}
				lookups.Add(1)
			}
		})
	}
	for i := range message.LogOffset(segments) {
		want := lookups.Load() + 20
		for lookups.Load() < want && !t.Failed() {
			<-time.After(100 * time.Microsecond)
		}
		_, err := s.RemoveBefore(t.Context(), (i+1)<<10)
		require.NoError(t, err)
	}
	stop()
	require.EqualValues(t, s.log.Active(), s.MinOffset())
	for i, v := range held.Messages {
		require.Equal(t, fmt.Sprintf("body%04d", i), string(v.Body()[:8]))
		require.NoError(t, v.CheckBody())
	}
}

// lookUp asks for message i by both ways.
func lookUp(s *DefaultMessageStore, offsets []message.LogOffset, i int) error {
	want := fmt.Sprintf("body%04d", i)
	m, err := s.LookMessageByOffset(context.Background(), offsets[i])
	switch {
	case err == nil && string(m.Body[:8]) != want:
		return fmt.Errorf("%q instead of %q at %d", m.Body[:8], want, offsets[i])
	case err != nil && offsets[i] >= s.MinOffset():
		return fmt.Errorf("%s is there: %w", want, err)
	}
	r, err := s.GetMessage(context.Background(), GetQuery{Topic: "t", Offset: message.QueueOffset(i), MaxCount: 2, Verify: true})
	if err != nil {
		return err
	}
	defer r.Release()
	switch r.Status {
	case GetFound:
		if got := int(r.Messages[0].QueueOffset()); got < i || got > i && offsets[got-1] >= s.MinOffset() {
			return fmt.Errorf("message %d instead of %d", got, i)
		}
	case GetOffsetTooSmall, GetMessageWasRemoving, GetOffsetFoundNull:
		if offsets[i] >= s.MinOffset() || int(r.NextBeginOffset) <= i {
			return fmt.Errorf("message %d is there: %v, go on at %d", i, r.Status, r.NextBeginOffset)
		}
	default:
		return fmt.Errorf("message %d: %v", i, r.Status)
	}
	return nil
}

// TestPinnedQueueFile: a reader that has a file does not stop what follows.
func TestPinnedFilesAreRemovedAllTheSame(t *testing.T) {
	cfg, _, _ := tinyConfig(FlushSync)
	s := openStore(t, scratch(t), cfg)
	putTiny(t, s, "t", 10)
	held := read(t, s, "t", 0, 0)
	require.Len(t, held.Messages, 5)
	removal, err := s.RemoveBefore(t.Context(), 2*tinySegment)
	require.NoError(t, err)
	require.Len(t, removal.Files, 2)
	for _, f := range removal.Files {
		require.NoFileExists(t, f.Path)
	}
	require.NoError(t, held.Messages[0].CheckBody())
	removal, err = s.RemoveBefore(t.Context(), 4*tinySegment)
	require.NoError(t, err)
	require.Len(t, removal.Files, 2)
	requireStart(t, s, "t", 8, 10)
	require.NoError(t, held.Messages[0].CheckBody())
}

// TestPowerLossWhileRemoving: at every call of a removal, what is left opens
// and answers right, with the recovery point of before or without.
func TestPowerLossWhileRemoving(t *testing.T) {
	notEmulated(t)
	for _, mode := range bothModes {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprint(mode, ", closed before: ", clean), func(t *testing.T) { powerLossWhileRemoving(t, mode, clean) })
		}
	}
}

func powerLossWhileRemoving(t *testing.T, mode FlushMode, reopen bool) {
	t.Helper()
	fs, dir := newCrashFS(t)
	cfg, _, _ := tinyConfig(mode)
	s := openStore(t, dir, withFS(cfg, fs))
	putTiny(t, s, "t", 20)
	putTiny(t, s, "u", 7)
	putTiny(t, s, "t", 13)
	require.NoError(t, s.Flush(t.Context()))
	if reopen { // the recovery point names all there is
		closeStore(t, s)
		s = openStore(t, dir, withFS(cfg, fs))
	}
	root := scratch(t)
	starts := make(map[message.LogOffset]int)
	n := 0
	var mu sync.Mutex
	check := func(c crashfs.Call) error {
		if !changes[c.Op] {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		shot, err := fs.Snapshot()
		if err != nil {
			return err
		}
		for seed := range uint64(4) {
			n++
			image := filepath.Join(root, fmt.Sprint(n))
			if _, err := shot.Image(seed, image); err != nil {
				return err
			}
			start, err := checkRemoved(filepath.Join(image, "store"), cfg)
			if err != nil {
				t.Errorf("before %v, seed %d: %v", c, seed, err)
			}
			starts[start]++
			if err := os.RemoveAll(image); err != nil {
				return err
			}
		}
		return nil
	}
	fs.Hook(check)
	removal, err := s.RemoveBefore(t.Context(), 12*tinySegment)
	require.NoError(t, err)
	require.Len(t, removal.Files, 12)
	require.NoError(t, check(crashfs.Call{Op: crashfs.OpSync}))
	fs.Hook(nil)
	mu.Lock() // a call that was under way may still be looked at
	seen := len(starts)
	mu.Unlock()
	require.Equal(t, 13, seen, "images with every number of files removed: %v", starts)
	closeStore(t, s)
	start, err := checkRemoved(dir, cfg)
	require.NoError(t, err)
	require.EqualValues(t, 12*tinySegment, start)
}

// checkRemoved opens a store that had 33 messages in t and 7 in u, two in a
// file, and removes the oldest; everything from the start on must be there.
func checkRemoved(dir string, cfg Config) (message.LogOffset, error) {
	cfg.fs = nil
	s, err := Open(context.Background(), dir, cfg)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	start := s.MinOffset()
	if r := s.Recovery(); len(r.Damaged) > 0 || start%tinySegment != 0 {
		return start, fmt.Errorf("start %d, damaged %v", start, r.Damaged)
	}
	gone := int(start/tinySegment) * 2 // in the order in which they were put
	mins := map[string]int{"t": min(gone, 20) + max(0, gone-27), "u": min(max(0, gone-20), 7)}
	for topic, end := range map[string]int{"t": 33, "u": 7} {
		if lo, hi := int(s.MinOffsetInQueue(topic, 0)), int(s.MaxOffsetInQueue(topic, 0)); lo != mins[topic] || hi != end {
			return start, fmt.Errorf("%s has [%d, %d), the log begins at %d", topic, lo, hi, start)
		}
		for at := mins[topic]; at < end; {
			r, err := s.GetMessage(context.Background(), GetQuery{Topic: topic, Offset: message.QueueOffset(at), MaxCount: 32, Verify: true})
			if err != nil {
				return start, err
			}
			n := len(r.Messages)
			r.Release()
			if n == 0 {
				return start, fmt.Errorf("%s: message %d is missing, the log begins at %d", topic, at, start)
			}
			at += n
		}
		r, err := s.PutMessage(context.Background(), inner(topic, 0, "x"))
		if err != nil || int(r.QueueOffset) != end {
			return start, fmt.Errorf("%s goes on with %d instead of %d: %w", topic, r.QueueOffset, end, err)
		}
	}
	return start, nil
}

// TestRemovalThatFails: what could not be removed is removed the next time, and
// the minimum is that of what is there.
func TestRemovalThatFails(t *testing.T) {
	fs, dir := newCrashFS(t)
	cfg, _, _ := tinyConfig(FlushSync)
	s := openStore(t, dir, withFS(cfg, fs))
	putTiny(t, s, "t", 20)
	fault := fs.FailFrom(crashfs.OpRemove, logFiles, 3, errInjected)
	removal, err := s.RemoveBefore(t.Context(), 5*tinySegment)
	require.ErrorIs(t, err, errInjected)
	require.Len(t, removal.Files, 2)
	requireStart(t, s, "t", 4, 20)
	fault.Stop()
	fault = fs.FailFrom(crashfs.OpRemove, queueFiles, 1, errInjected)
	removal, err = s.RemoveBefore(t.Context(), 5*tinySegment)
	require.ErrorIs(t, err, errInjected)
	require.Len(t, removal.Files, 3)
	require.EqualValues(t, 10, s.MinOffsetInQueue("t", 0), "nobody is sent to what is gone")
	fault.Stop()
	removal, err = s.DeleteExpired(t.Context())
	require.NoError(t, err)
	require.Empty(t, removal.Files)
	require.Len(t, removal.Derived, 2)
	requireStart(t, s, "t", 10, 20)
	closeStore(t, s)
	_, err = s.DeleteExpired(t.Context())
	require.ErrorIs(t, err, message.ErrClosed)
}

// TestReplacedFileIsNoticedAtTheRoll, not only about a second later.
func TestReplacedFileIsNoticedAtTheRoll(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, _, _ := tinyConfig(mode)
				s := openStore(t, scratch(t), cfg)
				putTiny(t, s, "t", 2)
				<-time.After(time.Minute) // all is saved and checked
				path := s.log.FileList()[0].Path
				b, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.Remove(path))
				require.NoError(t, os.WriteFile(path, b, 0o600))
				_, _ = s.PutMessage(t.Context(), inner("t", 0, tinyBody)) // in the next file
				synctest.Wait()
				_, err = s.PutMessage(t.Context(), inner("t", 0, "x"))
				require.ErrorIs(t, err, ErrMoved)
				require.Error(t, s.Close())
			})
		})
	}
}

// TestOldMetadataWithACleanedLog: a log after a removal, with the queues, the
// checkpoint and the recovery point of before. What the queues have too
// much goes with the first cleaning.
func TestOldMetadataWithACleanedLog(t *testing.T) {
	for _, clean := range []bool{true, false} {
		cfg, _, _ := tinyConfig(FlushSync)
		s := openStore(t, scratch(t), cfg)
		putTiny(t, s, "t", 20)
		closeStore(t, s)
		before := copyTree(t, s.Dir())
		s = openStore(t, s.Dir(), cfg)
		_, err := s.RemoveBefore(t.Context(), 6*tinySegment)
		require.NoError(t, err)
		closeStore(t, s)
		require.NoError(t, os.RemoveAll(filepath.Join(before, "commitlog")))
		require.NoError(t, os.CopyFS(filepath.Join(before, "commitlog"), os.DirFS(filepath.Join(s.Dir(), "commitlog"))))
		if !clean {
			require.NoError(t, os.WriteFile(filepath.Join(before, abortFile), nil, 0o600))
		}
		s = openStore(t, before, cfg)
		require.Empty(t, s.Recovery().Damaged)
		_, err = s.DeleteExpired(t.Context()) // at the latest
		require.NoError(t, err)
		requireStart(t, s, "t", 12, 20)
		require.EqualValues(t, 20, put(t, s, "t", 0, tinyBody).QueueOffset)
		closeStore(t, s)
	}
}

// TestNothingIsWrittenWithoutNeed: opening a log that was cleaned, and asking
// for a cleaning that finds nothing, leave the directory as it is.
func TestNothingIsWrittenWithoutNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, dir := newCrashFS(t)
		cfg, _, _ := tinyConfig(FlushSync)
		cfg.fs = fs
		s := openStore(t, dir, cfg)
		putTiny(t, s, "t", 20)
		_, err := s.RemoveBefore(t.Context(), 6*tinySegment)
		require.NoError(t, err)
		closeStore(t, s)
		s = openStore(t, dir, cfg)
		rest(s)
		stop := fs.Record()
		_, err = s.DeleteExpired(t.Context())
		require.NoError(t, err)
		rest(s)
		for _, c := range stop() {
			require.False(t, changes[c.Op], "%v", c)
		}
		closeStore(t, s)
	})
}

// TestPowerLossWhileDropping: at many calls of a store that drops its oldest
// messages as new ones come, what is left is one run of messages up to the last
// that was acknowledged.
func TestPowerLossWhileDropping(t *testing.T) {
	fs, dir := newCrashFS(t)
	cfg, _, _ := tinyConfig(FlushSync)
	cfg.WhenFull, cfg.MaxBytes = DropOldest, 8*tinySegment
	s := openStore(t, dir, withFS(cfg, fs))
	root := scratch(t)
	var mu sync.Mutex
	var acked atomic.Int64
	calls, images, removed := 0, 0, 0
	fs.Hook(func(c crashfs.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; !changes[c.Op] || c.Op != crashfs.OpRemove && calls%5 != 0 {
			return nil
		}
		kept := acked.Load()
		shot, err := fs.Snapshot()
		if err != nil {
			return err
		}
		for seed := range uint64(3) {
			images++
			image := filepath.Join(root, fmt.Sprint(images))
			if _, err := shot.Image(seed, image); err != nil {
				return err
			}
			start, err := checkRun(filepath.Join(image, "store"), cfg, kept)
			if err != nil {
				t.Errorf("before %v, seed %d: %v", c, seed, err)
			}
			if start > 0 {
				removed++
			}
			if err := os.RemoveAll(image); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range 40 {
		put(t, s, "t", 0, fmt.Sprint("body", i, " ", tinyBody))
		acked.Store(int64(i) + 1)
	}
	fs.Hook(nil)
	require.Positive(t, s.Stats().MessagesRemoved[ReasonFull])
	closeStore(t, s)
	mu.Lock()
	defer mu.Unlock()
	require.Greater(t, removed, 50, "of %d images", images)
}

// checkRun opens a store and checks that its queue holds messages up to kept at
// least, numbered as their bodies say.
func checkRun(dir string, cfg Config, kept int64) (message.LogOffset, error) {
	cfg.fs, cfg.MaxBytes = nil, 0
	s, err := Open(context.Background(), dir, cfg)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	lo, hi := s.MinOffsetInQueue("t", 0), s.MaxOffsetInQueue("t", 0)
	if r := s.Recovery(); len(r.Damaged) > 0 || int64(hi) < kept || int64(lo) != int64(s.MinOffset())/tinySegment*2 {
		return 0, fmt.Errorf("messages [%d, %d) of %d, the log begins at %d; damaged %v", lo, hi, kept, s.MinOffset(), r.Damaged)
	}
	for at := lo; at < hi; {
		r, err := s.GetMessage(context.Background(), GetQuery{Topic: "t", Offset: at, MaxCount: 32, Verify: true})
		if err != nil {
			return 0, err
		}
		n := len(r.Messages)
		for i, v := range r.Messages {
			if want := fmt.Sprint("body", int(at)+i, " "); !strings.HasPrefix(string(v.Body()), want) {
				err = fmt.Errorf("message %d is %.10q", int(at)+i, v.Body())
			}
		}
		r.Release()
		if err != nil || n == 0 {
			return 0, fmt.Errorf("at %d, got %d: %w", at, n, err)
		}
		at += message.QueueOffset(n)
	}
	return s.MinOffset(), nil
}
