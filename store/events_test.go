package store

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// TestFlushedTellsEverySync: the ranges follow each other, and each message is in
// one of them. Functions may ask the store how it is.
func TestFlushedTellsEverySync(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			var mu sync.Mutex
			var events []FlushEvent
			var s *DefaultMessageStore
			opened := make(chan struct{})
			cfg := smallConfig(mode)
			cfg.Events.Flushed = func(e FlushEvent) {
				<-opened
				_, _ = s.Stats(), s.Health()
				mu.Lock()
				defer mu.Unlock()
				events = append(events, e)
			}
			s = openStore(t, scratch(t), cfg)
			close(opened)
			putN(t, s, "t", 0, 20)
			require.NoError(t, s.Flush(t.Context()))
			_, err := s.PutMessages(t.Context(), batchOf(t, "t", 0, message.Message{}, message.Message{}))
			require.NoError(t, err)
			closeStore(t, s)
			var end message.LogOffset
			var messages int64
			for _, e := range events {
				require.Equal(t, end, e.From)
				require.Greater(t, e.To, e.From)
				require.Positive(t, e.Took)
				end = e.To
				messages += e.Messages
			}
			require.Equal(t, s.MaxOffset(), end)
			require.EqualValues(t, 22, messages)
			require.EqualValues(t, len(events), s.Stats().Syncs)
		})
	}
}

// TestSegmentsAreTold: each file once, in order, and none that was there at Open.
func TestSegmentsAreTold(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	fill := func(upTo message.LogOffset) {
		for s.MaxOffset() < upTo {
			put(t, s, "t", 0, strings.Repeat("b", 3000))
		}
	}
	fill(testSegment + 1)
	closeStore(t, s)
	var d diary
	cfg := smallConfig(FlushSync)
	cfg.Events = d.events()
	s = openStore(t, dir, cfg)
	put(t, s, "t", 0, "x")
	require.NoError(t, s.Flush(t.Context()))
	require.Equal(t, []string{"recovered true"}, d.take())
	fill(3*testSegment + 1)
	closeStore(t, s)
	require.Equal(t, []string{
		"created 00000000000000032768 [32768, 49152)",
		"created 00000000000000049152 [49152, 65536)",
	}, d.take())
	for range 2 {
		s.noticeSegments(2*testSegment, s.MaxOffset()) // as after a removal
	}
	require.Equal(t, []string{
		"removed 00000000000000000000 [0, 16384)",
		"removed 00000000000000016384 [16384, 32768)",
	}, d.take())
}

// TestPanicInAnEvent is logged, and harms nobody.
func TestPanicInAnEvent(t *testing.T) {
	var log bytes.Buffer
	cfg := smallConfig(FlushSync)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Events = Events{
		Recovered:      func(Recovery) { panic("event one") },
		Flushed:        func(FlushEvent) { panic("event two") },
		SegmentCreated: func(SegmentEvent) { panic("event three") },
		Damaged:        func(commitlog.Damage) { panic("not called") },
	}
	s := openStore(t, scratch(t), cfg)
	putN(t, s, "t", 0, 3)
	require.Equal(t, sequence(3), bodies(t, s, "t", 0))
	closeStore(t, s)
	for _, want := range []string{"event one", "event two", "event three", "event=Flushed", "events_test.go"} {
		require.Contains(t, log.String(), want)
	}
	require.NotContains(t, log.String(), "not called")
}

// TestFewLinesAreLogged: what happens for every message or sync leaves none, and
// what fails again and again leaves one.
func TestFewLinesAreLogged(t *testing.T) {
	var log bytes.Buffer
	cfg := smallConfig(FlushSync)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	bubble(t, cfg, func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		putN(t, s, "t", 1, 100)
		rest(s)
		failing := fs.FailFrom(crashfs.OpCreate, "store/consumequeue/other/*/*", 1, context.DeadlineExceeded)
		for range 5 {
			put(t, s, "other", 0, "x")
			_ = s.WaitDispatched(t.Context(), s.MaxOffset())
		}
		rest(s)
		failing.Stop()
		rest(s)
		require.EqualValues(t, 5, s.MaxOffsetInQueue("other", 0))
		closeStore(t, s)
	})
	var lines []string
	for line := range strings.Lines(log.String()) {
		_, text, _ := strings.Cut(line, "msg=")
		lines = append(lines, text[:min(len(text), 18)])
	}
	require.Equal(t, []string{`"store opened" dir`, `"dispatch failed; `, `"dispatch goes on"`, `"store closed" dir`}, lines)
}

// TestMeasuringAllocatesNothing, on the paths of puts, gets and syncs.
func TestMeasuringAllocatesNothing(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		s.measures.put.since(s.beginPut())
		s.measures.get.since(beginGet())
		s.passed(1, 1)
		s.logSynced(commitlog.Sync{From: 1, To: 2, Messages: 3, Took: 4})
	}))
}
