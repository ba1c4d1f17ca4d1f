package commitlog

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

func TestReadChecksSizeAndPlaceAlways(t *testing.T) {
	cfg := config(t, false)
	build(t, cfg, repeat(6, 200)...)
	flip(t, cfg, 400+150) // in the body of the third
	l := start(t, cfg)
	f := l.Acquire(0)
	require.NotNil(t, f)
	defer f.Unpin()
	v, err := l.Read(f, 200, true)
	require.NoError(t, err)
	require.Equal(t, message.QueueOffset(1), v.QueueOffset())

	_, err = l.Read(f, 400, false)
	require.ErrorIs(t, err, message.ErrOffsetNotFound, "cut by recovery")
	require.Nil(t, l.Acquire(-1))
	require.Nil(t, l.Acquire(1<<40))
}

func TestReadOfWhatIsNoRecord(t *testing.T) {
	cfg := config(t, false)
	l := start(t, cfg)
	c := NewCounter(0)
	for i := range 8 {
		add(t, l, c, 200, byte('A'+i))
	}
	flip(t, cfg, 400+150)                   // body
	flip(t, cfg, 600+4)                     // magic
	poke(t, cfg, 800, peek(t, cfg, 0, 200)) // a record of elsewhere
	f := l.Acquire(0)
	require.NotNil(t, f)
	defer f.Unpin()
	for _, tc := range []struct {
		about    string
		off      message.LogOffset
		plain    error
		verified error
	}{
		{"sound", 200, nil, nil},
		{"body", 400, nil, message.ErrCorrupt},
		{"magic", 600, message.ErrCorrupt, message.ErrCorrupt},
		{"foreign", 800, message.ErrCorrupt, message.ErrCorrupt},
		{"blank", 1000, message.ErrCorrupt, message.ErrCorrupt},
		{"inside a record", 250, message.ErrCorrupt, message.ErrCorrupt},
		{"behind the blank", 1010, message.ErrCorrupt, message.ErrCorrupt},
		{"last byte of the file", 1023, message.ErrCorrupt, message.ErrCorrupt},
	} {
		_, err := l.Read(f, tc.off, false)
		require.ErrorIs(t, err, tc.plain, tc.about)
		_, err = l.Read(f, tc.off, true)
		require.ErrorIs(t, err, tc.verified, tc.about)
		m, copied := l.Copy(f, tc.off)
		require.ErrorIs(t, copied, tc.verified, tc.about)
		if err == nil {
			require.Equal(t, tc.off, m.LogOffset)
			continue
		}
		var where *message.CorruptionError
		require.ErrorAs(t, err, &where, tc.about)
		require.Equal(t, tc.off, where.Offset)
		require.Equal(t, f.Path(), where.File)
		used := false
		err = l.View(f, tc.off, func(message.View) { used = true })
		require.Equal(t, tc.plain == nil, used, tc.about)
		require.ErrorIs(t, err, tc.plain, tc.about)
	}
}

func TestViewSeesWhatIsNotVisibleYet(t *testing.T) {
	cfg := config(t, false)
	build(t, cfg, 200)
	l := load(t, cfg) // not started: nothing is visible
	f := l.Acquire(0)
	require.NotNil(t, f)
	defer f.Unpin()
	_, err := l.Read(f, 0, true)
	require.ErrorIs(t, err, message.ErrOffsetNotFound)
	var size int
	require.NoError(t, l.View(f, 0, func(v message.View) { size = v.Size() }))
	require.Equal(t, 200, size)
}

func TestFileStoredBefore(t *testing.T) {
	cfg := config(t, false)
	c := &clock{}
	cfg.Now = c.now
	require.Zero(t, load(t, cfg).FileStoredBefore(5))
	l := start(t, cfg)
	n := NewCounter(0)
	for i := range 15 { // five records each in files of times 100.., 105.., 110..
		c.set(100 + int64(i))
		add(t, l, n, 200, 'A')
	}
	for time, want := range map[int64]message.LogOffset{0: 0, 99: 0, 100: 0, 104: 0, 105: 1024, 109: 1024, 110: 2048, 1 << 50: 2048} {
		require.Equal(t, want, l.FileStoredBefore(time), time)
	}
	flip(t, cfg, 1024+4)
	require.Zero(t, l.FileStoredBefore(107), "a file whose first record is unreadable tells nothing")
	require.Equal(t, message.LogOffset(2048), l.FileStoredBefore(110))
}

// TestFileCutShortFromOutside provokes faults in the mapping.
func TestFileCutShortFromOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("provokes faults in mapped memory, which an emulator does not pass on")
	}
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file can not be cut on Windows")
	}
	page := int64(os.Getpagesize())
	cfg := config(t, false)
	cfg.FileSize = 16 * page
	l := start(t, cfg)
	c := NewCounter(0)
	for l.Visible() < message.LogOffset(4*page) {
		add(t, l, c, 500, 'A')
	}
	end, next := l.Visible(), l.Next(c)
	require.NoError(t, os.Truncate(pathOf(cfg, 0), page))

	f := l.Acquire(0)
	require.NotNil(t, f)
	defer f.Unpin()
	require.NoError(t, l.View(f, 0, func(message.View) {}), "what is there is read")
	last := message.LogOffset(int64(end) - 500)
	_, err := l.Read(f, last, true)
	require.ErrorIs(t, err, segment.ErrFault)
	_, err = l.Copy(f, last)
	require.ErrorIs(t, err, segment.ErrFault)
	require.ErrorIs(t, l.View(f, last, func(message.View) {}), segment.ErrFault)
	stopped, err := l.Scan(0, end, func(*message.DispatchRequest) error { return nil })
	require.ErrorIs(t, err, segment.ErrFault)
	require.Greater(t, stopped, message.LogOffset(0))

	var b Batch
	require.NoError(t, b.Encode(batchOf(t, 3, 200), message.Host{}, 1<<20, 1<<20, false))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				_, err := l.Append(context.Background(), msg(500, 'x'), c)
				require.ErrorIs(t, err, segment.ErrFault)
			}
		})
	}
	wg.Wait()
	_, err = l.AppendBatch(context.Background(), &b, c)
	require.ErrorIs(t, err, segment.ErrFault)
	_, err = l.Append(context.Background(), msg(int(16*page-8), 'x'), c) // its blank has no place
	require.ErrorIs(t, err, segment.ErrFault)
	require.Equal(t, end, l.Visible(), "nothing moved")
	require.Equal(t, next, l.Next(c))
	require.NoError(t, l.Refusal())

	require.NoError(t, os.Truncate(pathOf(cfg, 0), cfg.FileSize)) // zeros where records were
	for range 8 {
		wg.Go(func() {
			for range 30 {
				_, err := l.Append(context.Background(), msg(500, 'B'), c)
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, next+240, l.Next(c))
	var offsets []message.QueueOffset
	_, err = l.Scan(end, l.Visible(), func(r *message.DispatchRequest) error {
		offsets = append(offsets, r.QueueOffset())
		return nil
	})
	require.NoError(t, err)
	require.Len(t, offsets, 240)
	for i, off := range offsets {
		require.Equal(t, next+message.QueueOffset(i), off)
	}
}

func TestReplacedFileIsNoticed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file can not be replaced on Windows")
	}
	cfg := config(t, false)
	l := start(t, cfg)
	add(t, l, NewCounter(0), 200, 'A')
	require.NoError(t, l.CheckInPlace())
	require.NoError(t, os.Rename(pathOf(cfg, 0), cfg.Dir+".moved"))
	err := l.CheckInPlace()
	require.True(t, errors.Is(err, segment.ErrMoved), err)
}
