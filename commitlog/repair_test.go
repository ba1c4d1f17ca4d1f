package commitlog

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

func TestRecoverStopsWithVisitAndContext(t *testing.T) {
	cfg := config(t, false)
	build(t, cfg, repeat(10, 200)...)
	l := load(t, cfg)
	_, err := l.Recover(context.Background(), RecoverConfig{Visit: func(r *message.DispatchRequest) error {
		if r.LogOffset() == 1224 {
			return errInjected
		}
		return nil
	}})
	require.ErrorIs(t, err, errInjected)
	require.ErrorContains(t, err, "1224")
	ctx, cancel := context.WithCancel(context.Background())
	seen := 0
	_, err = l.Recover(ctx, RecoverConfig{Visit: func(*message.DispatchRequest) error {
		seen++
		cancel()
		return nil
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 5, seen, "looked at once for each file")
}

// TestCutRecordsDoNotComeBack writes A, B and C, loses B, and puts D, as large
// as B, in its place: then C would follow D as if it were new.
func TestCutRecordsDoNotComeBack(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		build(t, cfg, 200, 300, 250)
		flip(t, cfg, 200+150)
		l := start(t, cfg)
		require.Equal(t, message.LogOffset(200), l.Visible())
		p := add(t, l, NewCounter(1), 300, 'D')
		require.NoError(t, l.Flush())
		require.Equal(t, message.LogOffset(200), p.LogOffset)
		require.NoError(t, l.Close())
		got := recoverLog(t, load(t, cfg), RecoverConfig{})
		require.Equal(t, []string{"0:0:A", "200:1:D"}, got.Records)
		require.Equal(t, message.LogOffset(500), got.End)
	})
}

// TestOldRecordBehindACutIsNotFound is about a log that somebody cut without
// making the rest zero: a record there is sound, and names its own place.
func TestOldRecordBehindACutIsNotFound(t *testing.T) {
	cfg := config(t, false)
	c := &clock{ms: 100}
	cfg.Now = c.now
	build(t, cfg, 200, 200, 200)
	flip(t, cfg, 200+150)
	l := load(t, cfg)
	require.Equal(t, message.LogOffset(200), recoverLog(t, l, RecoverConfig{}).End)
	l.Start(200, 100) // without Repair
	c.set(500)
	add(t, l, NewCounter(1), 150, 'D')
	require.NoError(t, l.Close())
	for _, rc := range []RecoverConfig{{}, {Clean: true}} {
		got := recoverLog(t, load(t, cfg), rc)
		require.Equal(t, recovered{350, []string{"0:0:A", "200:1:D"}, nil}, got)
	}
}

// TestRecordWithALostSectorIsTorn: header and end of a record reached the disk,
// what lies between did not.
func TestRecordWithALostSectorIsTorn(t *testing.T) {
	big := msg(2092, 'X')
	named := msg(200, 'B')
	var err error
	named.Properties, err = message.NewProperties("K", strings.Repeat("v", 1200))
	require.NoError(t, err)
	for about, m := range map[string]*message.MessageExt{"body": big, "properties": named} {
		for _, followed := range []bool{false, true} {
			t.Run(fmt.Sprint(about, " followed ", followed), func(t *testing.T) {
				cfg := config(t, false)
				cfg.FileSize = 4096
				l := start(t, cfg)
				c := NewCounter(0)
				add(t, l, c, 300, 'A')
				p, err := l.Append(context.Background(), m, c)
				require.NoError(t, err)
				if followed {
					add(t, l, c, 200, 'C')
				}
				require.NoError(t, l.Close())
				require.Equal(t, message.LogOffset(300), p.LogOffset)
				require.Equal(t, p.End(), recoverLog(t, load(t, cfg), RecoverConfig{Trusted: p.End()}).End-message.LogOffset(map[bool]int{true: 200}[followed]))
				poke(t, cfg, 512, make([]byte, 512))
				got := recoverLog(t, load(t, cfg), RecoverConfig{})
				require.Equal(t, recovered{300, []string{"0:0:A"}, nil}, got)
			})
		}
	}
}

// TestHalfWrittenGroupIsNotSeenAfterReopen: half of a record reaches the file.
func TestHalfWrittenGroupIsNotSeenAfterReopen(t *testing.T) {
	fsys := newFaultFS()
	cfg := config(t, true)
	cfg.FS = fsys
	l := start(t, cfg)
	c := NewCounter(0)
	add(t, l, c, 200, 'A')
	require.NoError(t, l.Flush())
	add(t, l, c, 200, 'B')
	fsys.set(failing("write", errInjected)) // half of B reaches the file
	require.ErrorIs(t, l.Flush(), errInjected)
	fsys.set(nil)
	require.NoError(t, l.Close())
	l = start(t, cfg)
	require.Equal(t, []string{"0:0:A"}, scanned(t, l))
	require.Equal(t, message.LogOffset(200), add(t, l, NewCounter(1), 200, 'C').LogOffset)
	require.NoError(t, l.Flush())
	require.Equal(t, []string{"0:0:A", "200:1:C"}, scanned(t, l))
}

func TestRepairWritesDoubtfulBytesAgain(t *testing.T) {
	cfg := config(t, false)
	build(t, cfg, repeat(15, 200)...)
	before := content(t, cfg.Dir)
	for _, tc := range []struct {
		doubtful message.LogOffset
		want     []string
	}{
		{0, []string{"write 0", "sync 0", "write 1", "sync 1", "write 2", "sync 2", "sync 2"}},
		{1024, []string{"write 1", "sync 1", "write 2", "sync 2", "sync 2"}},
		{1500, []string{"write 1", "sync 1", "write 2", "sync 2", "sync 2"}},
		{3048, []string{"sync 2"}},
	} {
		fsys := newFaultFS()
		c := cfg
		c.FS = fsys
		l := load(t, c)
		var did []string
		fsys.set(func(op, path string) error {
			if op == "write" || op == "sync" {
				did = append(did, fmt.Sprintf("%s %d", op, baseOf(t, path[strings.LastIndexByte(path, os.PathSeparator)+1:])/1024))
			}
			return nil
		})
		cut, err := l.Repair(tc.doubtful, 3048, nil)
		require.NoError(t, err)
		require.Equal(t, Cut{}, cut)
		require.Equal(t, tc.want, did)
		require.NoError(t, l.Close())
		require.Equal(t, before, content(t, cfg.Dir))
	}
}

func TestInterruptedRepairGoesOn(t *testing.T) {
	image := func(t *testing.T) Config {
		cfg := config(t, false)
		build(t, cfg, repeat(20, 200)...)
		flip(t, cfg, 1424+150)
		return cfg
	}
	repair := func(l *Log) error {
		found, err := l.Recover(context.Background(), RecoverConfig{})
		if err == nil {
			_, err = l.Repair(0, found.End, nil)
		}
		return err
	}
	whole := image(t)
	require.NoError(t, repair(load(t, whole)))
	want := content(t, whole.Dir)
	require.Len(t, want, 2)
	for n := 1; ; n++ {
		cfg := image(t)
		fsys := newFaultFS()
		cfg.FS = fsys
		l := load(t, cfg)
		fsys.failFrom(n)
		err := repair(l)
		fsys.set(nil)
		require.NoError(t, l.Close())
		if err == nil {
			require.Greater(t, n, 6)
			require.Equal(t, want, content(t, cfg.Dir))
			return
		}
		require.ErrorIs(t, err, errInjected)
		again := load(t, cfg)
		got := recoverLog(t, again, RecoverConfig{})
		require.Equal(t, recovered{1424, tenRecords[:7], nil}, got, "call %d", n)
		require.NoError(t, repair(again))
		require.Equal(t, want, content(t, cfg.Dir), "call %d", n)
	}
}

func TestOpenRemovesOnlyAnEmptyLastFile(t *testing.T) {
	cfg := config(t, false)
	build(t, cfg, repeat(10, 200)...)
	require.NoError(t, os.WriteFile(pathOf(cfg, 2048), nil, 0o600))
	l := start(t, cfg)
	require.Equal(t, tenRecords, scanned(t, l))
	require.Equal(t, message.LogOffset(2048), add(t, l, NewCounter(10), 200, 'K').LogOffset)
	require.NoError(t, l.Close())

	require.NoError(t, os.Truncate(pathOf(cfg, 0), 0))
	before := content(t, cfg.Dir)
	_, err := Open(cfg)
	require.Error(t, err)
	require.Equal(t, before, content(t, cfg.Dir))
}
