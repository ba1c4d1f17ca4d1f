package broker

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// timerFileBytes is a file with two timers.
const timerFileBytes = "504d5154494d4552" + "00000001" + "00000000" + // PMQTIMER, version
	"0000000000000007" + "0000000000000400" + "0000000000000800" + "0000000000000002" + // next, last, mark, n
	"0000000000000003" + "0000018bcfe5687b" + "ef46db3751d8e999" +
	"0000000000000006" + "0000018bcfe56800" + "0000000000000001"

func timerFileState() timerState {
	s := timerState{index: newTimerIndex(), next: 7, last: 1024, mark: 2048}
	s.index.add(timer{6, 1_700_000_000_000, 1})
	s.index.add(timer{3, 1_700_000_000_123, keyOf("")})
	return s
}

func TestTimerFileBytes(t *testing.T) {
	s := timerFileState()
	require.Equal(t, timerFileBytes, hex.EncodeToString(s.encode()))
	b, err := hex.DecodeString(timerFileBytes)
	require.NoError(t, err)
	got, err := decodeTimers(b)
	require.NoError(t, err)
	require.Equal(t, []timer{{3, 1_700_000_000_123, keyOf("")}, {6, 1_700_000_000_000, 1}}, got.index.byOffset.chunks[0])
	require.Equal(t, []dueTimer{{1_700_000_000_000, 6}, {1_700_000_000_123, 3}}, got.index.byDue.chunks[0])
	require.Equal(t, [3]int64{7, 1024, 2048}, [3]int64{int64(got.next), int64(got.last), int64(got.mark)})
}

// TestDamagedTimerBytes are refused with what is wrong.
func TestDamagedTimerBytes(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string // replaced in the hexadecimal text
		want     string
	}{
		"empty":            {timerFileBytes, "", "does not begin"},
		"magic":            {"504d51", "504d52", "does not begin"},
		"version":          {"0000000100000000", "0000000200000000", "version 2"},
		"n":                {"0000000000000002", "0000000000000003", "3 timers"},
		"n is negative":    {"0000000000000002", "8000000000000002", "timers in 48 bytes"},
		"a part of one":    {"0000018bcfe568000000000000000001", "", "timers in 32 bytes"},
		"negative next":    {"0000000000000007", "8000000000000007", "next -"},
		"negative mark":    {"0000000000000800", "8000000000000800", "mark -"},
		"order":            {"0000000000000006", "0000000000000003", "queue offset 3 at byte 72"},
		"not before next":  {"0000000000000006", "0000000000000007", "queue offset 7 at byte 72"},
		"negative offset":  {"0000000000000003", "8000000000000003", "at byte 48"},
		"bytes behind it":  {timerFileBytes[80:], timerFileBytes[80:] + "00", "timers in 49 bytes"},
		"half of a header": {timerFileBytes, timerFileBytes[:60], "does not begin"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, 1, strings.Count(timerFileBytes, test.from))
			b, err := hex.DecodeString(strings.Replace(timerFileBytes, test.from, test.to, 1))
			require.NoError(t, err)
			_, err = decodeTimers(b)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// FuzzTimerFile: what is accepted is written back as it was.
func FuzzTimerFile(f *testing.F) {
	b, err := hex.DecodeString(timerFileBytes)
	require.NoError(f, err)
	f.Add(b)
	f.Add(b[:timerFileHeader])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeTimers(b)
		if err == nil && len(b) >= 16 {
			copy(b[12:16], make([]byte, 4)) // reserved
			require.Equal(t, b, s.encode())
		}
	})
}

// TestUselessTimerFile: without a file, with a damaged one and with one that is of
// another log, nothing is lost and nothing comes twice.
func TestUselessTimerFile(t *testing.T) {
	change := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, change(b), 0o600))
		}
	}
	for name, spoil := range map[string]func(*testing.T, string){
		"missing": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"empty":   change(func([]byte) []byte { return nil }),
		"cut":     change(func(b []byte) []byte { return b[:len(b)-1] }),
		"a bit":   change(func(b []byte) []byte { b[len(b)-5] ^= 4; return b }),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var clock atomic.Int64
			clock.Store(1e12)
			now := func() time.Time { return time.UnixMilli(clock.Load()) }
			s := openDelayStore(t, dir, store.Config{Now: now})
			b := openBroker(t, Config{Store: s, Now: now})
			createTopic(t, b, "orders", 1)
			for i := range 40 {
				sendAt(t, b, fmt.Sprint("m", i), now().Add(time.Duration(1+i)*time.Second))
				send(t, b, "others", 0, strings.Repeat("x", 3000))
			}
			require.NoError(t, cancelTimer(t, b, "m30"))
			require.NoError(t, b.Close())
			clock.Add(20_000)
			b = openBroker(t, Config{Store: s, Now: now})
			require.Eventually(t, func() bool { return len(bodies(t, s, "orders", 0)) == 20 }, time.Minute, time.Millisecond)
			require.NoError(t, b.Close())
			require.NoError(t, s.Close())
			spoil(t, filepath.Join(dir, "pocketmq", timerFile))

			clock.Add(60_000)
			s = openDelayStore(t, dir, store.Config{Now: now})
			b = openBroker(t, Config{Store: s, Now: now})
			waitForAll(t, b)
			require.NoError(t, b.Close()) // it waits for the sync
			require.Equal(t, append(numbered(0, 30), numbered(31, 40)...), bodies(t, s, "orders", 0))
			require.NoError(t, s.Close())
		})
	}
}

// TestTimerFileOfAnotherLog, whose records end or differ where those of the file
// are, is of no use.
func TestTimerFileOfAnotherLog(t *testing.T) {
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		s := openDelayStore(t, dir, store.Config{})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		for j := range 3 * (i + 1) {
			send(t, b, "others", 0, strings.Repeat("x", 100+i))
			sendAt(t, b, fmt.Sprint("log", i, "-", j), time.Now().Add(time.Hour))
		}
		require.Len(t, waiting(t, b), 3*(i+1)) // before it has seen them it has nothing to save
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	}
	path := func(i int) string { return filepath.Join(dirs[i], "pocketmq", timerFile) }
	files := [2][]byte{}
	for i := range dirs {
		var err error
		files[i], err = os.ReadFile(path(i))
		require.NoError(t, err)
	}
	for i, dir := range dirs {
		require.NoError(t, os.WriteFile(path(i), files[1-i], 0o600))
		s := openDelayStore(t, dir, store.Config{})
		b := openBroker(t, Config{Store: s})
		require.Len(t, waiting(t, b), 3*(i+1))
		require.Equal(t, fmt.Sprint("log", i, "-0"), waiting(t, b)[0])
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	}
}

// TestDerivedFileMissing or damaged is told apart.
func TestDerivedFileMissing(t *testing.T) {
	s := openStore(t, t.TempDir())
	_, err := s.ReadDerived(timerFile)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, s.WriteDerived(timerFile, []byte("x")))
	b, err := s.ReadDerived(timerFile)
	require.NoError(t, err)
	require.Equal(t, "x", string(b))
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "pocketmq", timerFile), []byte("nonsense and more of it"), 0o600))
	_, err = s.ReadDerived(timerFile)
	require.ErrorIs(t, err, message.ErrCorrupt)
	require.ErrorContains(t, err, timerFile)
}

// TestTimerIndexModel compares the index with maps.
func TestTimerIndexModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := newTimerIndex()
	all := map[message.QueueOffset]timer{}
	claimed := map[message.QueueOffset]bool{}
	draw := func() message.QueueOffset { return message.QueueOffset(r.IntN(4000)) }
	for step := range 60_000 {
		growing := step/10_000%2 == 0
		switch off := draw(); {
		case growing && r.IntN(4) > 0:
			e := timer{off, int64(r.IntN(500)), uint64(r.IntN(50)) << 60}
			if _, ok := all[off]; !ok {
				all[off] = e
			}
			x.add(e)
		case r.IntN(4) > 0:
			_, ok := all[off]
			require.Equal(t, ok, x.end(off))
			delete(all, off)
			delete(claimed, off)
		case r.IntN(2) == 0:
			e, ok := all[off]
			require.Equal(t, ok && !claimed[off], ok && x.claim(e))
			claimed[off] = ok
		default:
			x.unclaim(timer{offset: off, due: all[off].due})
			delete(claimed, off)
		}
		if step%5000 == 4999 {
			requireIndex(t, &x, all, claimed)
		}
	}
}

func requireIndex(t *testing.T, x *timerIndex, all map[message.QueueOffset]timer, claimed map[message.QueueOffset]bool) {
	t.Helper()
	require.Equal(t, len(all), x.len())
	n, last, byKey := 0, dueTimer{-1, 0}, map[uint64]int{}
	for d := range x.byDue.from(dueTimer{-1, 0}) {
		require.Negative(t, x.byDue.compare(last, d))
		require.Equal(t, all[d.offset].due, d.due)
		require.False(t, claimed[d.offset])
		last = d
		n++
	}
	for off, e := range all {
		got, ok := x.at(off)
		require.True(t, ok)
		require.Equal(t, e, got)
		byKey[e.key]++
		if claimed[off] {
			n++
		}
	}
	require.Equal(t, len(all), n)
	require.Len(t, x.listFrom(dueTimer{-1, 0}, n+1), n, "claimed or not")
	for key, n := range byKey {
		require.Len(t, x.withKey(key), n)
	}
	for _, c := range x.byOffset.chunks {
		require.Equal(t, sortedChunk, cap(c))
		require.NotEmpty(t, c)
	}
	require.LessOrEqual(t, len(x.byOffset.chunks), 2+4*len(all)/sortedChunk, "memory follows what is in it")
}
