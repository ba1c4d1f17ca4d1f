package consumequeue

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

func TestUnitBytes(t *testing.T) {
	for _, tc := range []struct {
		unit  Unit
		bytes string
	}{
		{Unit{0x0102030405060708, 0x11121314, 0x2122232425262728}, "0102030405060708" + "11121314" + "2122232425262728"},
		{Unit{1073741824, 158, -1}, "0000000040000000" + "0000009e" + "ffffffffffffffff"},
		{Unit{0, 91, 2598919}, "0000000000000000" + "0000005b" + "000000000027a807"},
		{Blank, "0000000000000000" + "7fffffff" + "0000000000000000"},
	} {
		b := make([]byte, UnitSize)
		tc.unit.put(b)
		require.Equal(t, tc.bytes, hex.EncodeToString(b))
		require.Equal(t, tc.unit, ParseUnit(b))
	}
	require.True(t, Blank.IsBlank())
	require.False(t, Blank.IsReal())
	require.False(t, Unit{}.IsBlank())
	require.False(t, Unit{}.IsReal())
	require.False(t, Unit{LogOffset: 5, Size: -3}.IsReal())
	require.True(t, Unit{Size: 91}.IsReal(), "the first message of a log")
	require.True(t, Unit{LogOffset: 1, Size: math.MaxInt32}.IsReal())
}

func TestPutAppendsOverSeveralFiles(t *testing.T) {
	cfg := config(t)
	q := queue(t, cfg)
	require.Equal(t, bounds{0, 0}, boundsOf(q))
	for n := range 25 {
		require.NoError(t, q.Put(message.QueueOffset(n), unit(n), n%2 == 0))
		require.Equal(t, bounds{0, message.QueueOffset(n + 1)}, boundsOf(q))
	}
	require.Equal(t, wanted(0, 25), units(t, q, 0))
	require.Equal(t, wanted(13, 25), units(t, q, 13))
	require.NoError(t, q.Flush())
	files := content(t, cfg.Dir)
	require.Len(t, files, 3)
	require.Equal(t, string(file(wanted(20, 25)...)), files["T/0/00000000000000000400"])
	require.Equal(t, message.QueueOffset(10), q.NextFile(0))
	require.Equal(t, message.QueueOffset(10), q.NextFile(9))
	require.Equal(t, message.QueueOffset(20), q.NextFile(10))
	require.Equal(t, int64(200), q.FileSize())

	again := find(t, open(t, cfg), "T", 0)
	require.Equal(t, bounds{0, 25}, boundsOf(again))
	require.Equal(t, wanted(0, 25), units(t, again, 0))
	put(t, again, 25, 31)
	require.Equal(t, wanted(0, 31), units(t, again, 0))
}

func TestPutAgainChangesNothing(t *testing.T) {
	cfg := config(t)
	q := queue(t, cfg)
	put(t, q, 0, 15)
	before := content(t, cfg.Dir)
	for _, rewrite := range []bool{false, true} {
		for n := range 15 {
			require.NoError(t, q.Put(message.QueueOffset(n), unit(n), rewrite))
		}
		require.Equal(t, bounds{0, 15}, boundsOf(q))
		require.Equal(t, before, content(t, cfg.Dir))
	}
}

func TestPutReplacesWhatDiffers(t *testing.T) {
	cfg := config(t)
	q := queue(t, cfg)
	put(t, q, 0, 15)
	require.NoError(t, q.Flush())
	other := Unit{7, 8, 9}
	require.NoError(t, q.Put(4, other, false))
	want := wanted(0, 15)
	want[4] = other
	require.Equal(t, want, units(t, q, 0))
	require.Equal(t, bounds{0, 15}, boundsOf(q))
}

func TestReplacedUnitIsSyncedAgain(t *testing.T) {
	fsys := &faultFS{FS: segment.OS}
	cfg := config(t)
	cfg.FS = fsys
	q := queue(t, cfg)
	put(t, q, 0, 25)
	syncs := 0
	fsys.set(func(op string) error {
		if op == "sync" {
			syncs++
		}
		return nil
	})
	flush := func() int {
		syncs = 0
		require.NoError(t, q.Flush())
		return syncs
	}
	require.Equal(t, 3, flush())
	require.Equal(t, 0, flush(), "nothing new")
	require.NoError(t, q.Put(14, unit(14), false))
	require.Equal(t, 0, flush(), "it was there")
	require.NoError(t, q.Put(14, unit(14), true))
	require.Equal(t, 2, flush(), "the files of 14 to 24")
	put(t, q, 25, 26)
	require.Equal(t, 1, flush())
}

func TestGapBecomesBlanks(t *testing.T) {
	cfg := config(t)
	q := queue(t, cfg)
	put(t, q, 0, 2)
	require.NoError(t, q.Put(3, unit(3), false))
	require.Equal(t, []Unit{unit(0), unit(1), Blank, unit(3)}, units(t, q, 0))
	require.NoError(t, q.Put(27, unit(27), false)) // over a whole file
	require.Equal(t, bounds{0, 28}, boundsOf(q))
	got := units(t, q, 0)
	for n := 4; n < 27; n++ {
		require.Equal(t, Blank, got[n])
	}
	require.Equal(t, unit(27), got[27])
	require.NoError(t, q.Put(2, unit(2), false), "it was found after all")
	require.Equal(t, wanted(0, 4), units(t, q, 0)[:4])
	again := find(t, open(t, cfg), "T", 0)
	require.Equal(t, bounds{0, 28}, boundsOf(again))
}

func TestFirstUnitBeginsItsFile(t *testing.T) {
	cfg := config(t)
	q := queue(t, cfg)
	require.NoError(t, q.Put(1003, unit(3), false))
	require.Equal(t, bounds{1003, 1004}, boundsOf(q))
	// as RocketMQ writes it: blanks from the start of the file, and only there
	pre := "00000000000000007fffffff0000000000000000"
	require.Equal(t, map[string]string{
		"T/0/00000000000000020000": string(file(Blank, Blank, Blank, unit(3))),
	}, content(t, cfg.Dir))
	require.Equal(t, strings.Repeat(pre, 3), hex.EncodeToString([]byte(content(t, cfg.Dir)["T/0/00000000000000020000"])[:60]))
	u, ok := q.At(1003)
	require.True(t, ok)
	require.Equal(t, unit(3), u)
	_, ok = q.At(999)
	require.False(t, ok, "no file")

	// after a restart the blanks are there, until Min is put right
	again := find(t, open(t, cfg), "T", 0)
	require.Equal(t, bounds{1000, 1004}, boundsOf(again))
	require.NoError(t, again.CorrectMin(0))
	require.Equal(t, bounds{1003, 1004}, boundsOf(again))
	require.NoError(t, again.CorrectMin(1301))
	require.Equal(t, bounds{1004, 1004}, boundsOf(again))
}

func TestFirstUnitAtTheStartOfAFile(t *testing.T) {
	cfg := config(t)
	q := queue(t, cfg)
	require.NoError(t, q.Put(50, unit(0), false))
	require.Equal(t, bounds{50, 51}, boundsOf(q))
	require.Equal(t, map[string]string{"T/0/00000000000000001000": string(file(unit(0)))}, content(t, cfg.Dir))
}

func TestQueueOfBlanksOnly(t *testing.T) {
	cfg := config(t)
	write(t, cfg, 200, file(Blank, Blank, Blank)) // a crash before the first real unit
	q := find(t, open(t, cfg), "T", 0)
	require.Equal(t, bounds{10, 13}, boundsOf(q))
	require.NoError(t, q.CorrectMin(0))
	require.Equal(t, bounds{13, 13}, boundsOf(q))
	put(t, q, 13, 14)
	require.Equal(t, []Unit{unit(13)}, units(t, q, q.Min()))
}

func TestBeginInterruptedByFullDisk(t *testing.T) {
	const many = 10_000 // so that blanks cross an allocation step
	for _, op := range []string{"create", "allocate"} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprint(op, n), func(t *testing.T) {
				fsys := &faultFS{FS: segment.OS, noSync: true}
				cfg := config(t)
				cfg.FS, cfg.FileSize = fsys, many*UnitSize
				q := queue(t, cfg)
				const off = 3*many + many - 2
				fsys.set(failing(op, n, segment.ErrNoSpace))
				err := q.Put(off, unit(1), false)
				if err == nil {
					require.Equal(t, "create2", fmt.Sprint(op, n), "there is one file only")
					return
				}
				require.ErrorIs(t, err, segment.ErrNoSpace)
				require.Equal(t, bounds{0, 0}, boundsOf(q))
				fsys.set(nil)
				require.NoError(t, q.Put(off, unit(1), false), "the same call succeeds when there is space")
				require.Equal(t, bounds{off, off + 1}, boundsOf(q))
				require.Equal(t, []Unit{unit(1)}, units(t, q, off))
				again := find(t, open(t, cfg), "T", 0)
				require.NoError(t, again.CorrectMin(0))
				require.Equal(t, bounds{off, off + 1}, boundsOf(again))
			})
		}
	}
}

func TestBeginInterruptedByACrash(t *testing.T) {
	cfg := config(t)
	write(t, cfg, 200, file()) // made, and nothing written
	q := find(t, open(t, cfg), "T", 0)
	require.Equal(t, bounds{10, 10}, boundsOf(q))
	require.NoError(t, q.Put(14, unit(14), false))
	require.Equal(t, bounds{14, 15}, boundsOf(q), "no Blank can be read")
	require.Equal(t, []Unit{unit(14)}, units(t, q, q.Min()))
}

func TestFullDiskLeavesTheQueueAsItWas(t *testing.T) {
	fsys := &faultFS{FS: segment.OS, noSync: true}
	cfg := config(t)
	cfg.FS = fsys
	q := queue(t, cfg)
	put(t, q, 0, 10)
	for _, op := range []string{"create", "allocate"} {
		fsys.set(failing(op, 1, segment.ErrNoSpace))
		require.ErrorIs(t, q.Put(10, unit(10), false), segment.ErrNoSpace)
		require.ErrorIs(t, q.Put(23, unit(10), false), segment.ErrNoSpace)
		require.Equal(t, bounds{0, 10}, boundsOf(q))
		require.Equal(t, wanted(0, 10), units(t, q, 0))
	}
	fsys.set(failing("create", 2, segment.ErrNoSpace)) // the gap is filled half-way
	require.ErrorIs(t, q.Put(23, unit(23), false), segment.ErrNoSpace)
	require.Equal(t, bounds{0, 10}, boundsOf(q))
	fsys.set(nil)
	put(t, q, 10, 25)
	require.Equal(t, wanted(0, 25), units(t, q, 0))
}

func TestPutOfImpossibleNumbers(t *testing.T) {
	cfg := config(t)
	q := queue(t, cfg)
	for _, off := range []message.QueueOffset{-1, math.MinInt64, math.MaxInt64, math.MaxInt64 / UnitSize} {
		require.ErrorIs(t, q.Put(off, unit(0), false), segment.ErrBadOffset, off)
	}
	require.NoDirExists(t, cfg.Dir)
}

func TestPutBeforeTheFirstFileStartsTheQueueAgain(t *testing.T) {
	q := queue(t, config(t))
	require.NoError(t, q.Put(30, unit(30), false))
	require.NoError(t, q.Put(5, unit(5), false))
	require.Equal(t, bounds{5, 6}, boundsOf(q))
	put(t, q, 6, 12)
	require.Equal(t, wanted(5, 12), units(t, q, 5))
}

func TestReadLimits(t *testing.T) {
	q := queue(t, config(t))
	var dst [30]Unit
	n, err := q.Read(0, dst[:])
	require.NoError(t, err)
	require.Zero(t, n, "no file")
	put(t, q, 0, 25)
	for _, tc := range []struct {
		from message.QueueOffset
		room int
		want int
	}{
		{0, 30, 10}, {0, 4, 4}, {0, 0, 0}, {7, 30, 3}, {9, 30, 1}, {10, 30, 10}, {20, 30, 5}, {24, 30, 1},
		{25, 30, 0}, {26, 30, 0}, {-1, 30, 0}, {math.MaxInt64, 30, 0}, {math.MinInt64, 30, 0},
	} {
		n, err := q.Read(tc.from, dst[:tc.room])
		require.NoError(t, err)
		require.Equal(t, tc.want, n, tc)
		for i := range n {
			require.Equal(t, unit(int(tc.from)+i), dst[i])
		}
	}
	_, ok := q.At(25)
	require.False(t, ok)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = q.Read(0, dst[:]) }))
}

func TestTruncate(t *testing.T) {
	for _, tc := range []struct {
		about   string
		have    int
		to      message.QueueOffset
		dropped int64
		files   int
	}{
		{"nothing", 25, 25, 0, 3},
		{"behind", 25, 99, 0, 3},
		{"one", 25, 24, 1, 3},
		{"to a file border", 25, 20, 5, 2},
		{"file with exactly one unit", 21, 20, 1, 2},
		{"to the last unit of a file", 25, 19, 6, 2},
		{"over a whole file", 25, 7, 18, 1},
		{"to 0", 25, 0, 25, 0},
		{"of nothing", 0, 0, 0, 0},
	} {
		t.Run(tc.about, func(t *testing.T) {
			cfg := config(t)
			q := queue(t, cfg)
			put(t, q, 0, tc.have)
			require.NoError(t, q.Flush())
			dropped, err := q.Truncate(tc.to)
			require.NoError(t, err)
			require.Equal(t, tc.dropped, dropped)
			left := min(tc.have, int(tc.to))
			require.Equal(t, bounds{0, message.QueueOffset(left)}, boundsOf(q))
			require.Equal(t, wanted(0, left), units(t, q, 0))
			if tc.have == 0 {
				return
			}
			files := content(t, cfg.Dir)
			require.Len(t, files, tc.files)
			for name, b := range files {
				var base int
				_, err := fmt.Sscanf(filepath.Base(name), "%d", &base)
				require.NoError(t, err)
				from := base / UnitSize
				require.Equal(t, string(file(wanted(from, min(from+fileUnits, left))...)), b, "zero behind the cut")
			}
			again := queue(t, cfg)
			require.Equal(t, boundsOf(q), boundsOf(again))
			put(t, again, left, left+12)
			require.NoError(t, again.Flush())
			require.Equal(t, wanted(0, left+12), units(t, again, 0))
		})
	}
}

func TestTruncateBelowMin(t *testing.T) {
	cfg := config(t)
	q := queue(t, cfg)
	require.NoError(t, q.Put(55, unit(0), false))
	put(t, q, 56, 60)
	dropped, err := q.Truncate(57)
	require.NoError(t, err)
	require.Equal(t, int64(3), dropped)
	require.Equal(t, bounds{55, 57}, boundsOf(q))
	_, err = q.Truncate(50)
	require.NoError(t, err)
	require.Equal(t, bounds{50, 50}, boundsOf(q), "never Min > Max")
	require.Empty(t, content(t, cfg.Dir))
	require.NoError(t, q.Put(50, unit(50), false))
	require.Equal(t, bounds{50, 51}, boundsOf(q))
	require.Equal(t, []Unit{unit(50)}, units(t, q, q.Min()))
}

func TestTruncateWithAnEmptyNewestFile(t *testing.T) {
	cfg := config(t)
	write(t, cfg, 0, file(wanted(0, 10)...))
	write(t, cfg, 200, file())
	q := find(t, open(t, cfg), "T", 0)
	require.Equal(t, bounds{0, 10}, boundsOf(q), "an empty file adds nothing")
	dropped, err := q.Truncate(10)
	require.NoError(t, err)
	require.Zero(t, dropped)
	put(t, q, 10, 12)
	require.Equal(t, wanted(0, 12), units(t, q, 0))
	dropped, err = q.Truncate(9)
	require.NoError(t, err)
	require.Equal(t, int64(3), dropped)
	require.Equal(t, bounds{0, 9}, boundsOf(q))
}

func TestTruncateThatFailedGoesOn(t *testing.T) {
	for _, op := range []string{"remove", "write", "sync", "syncdir"} {
		fsys := &faultFS{FS: segment.OS}
		cfg := config(t)
		cfg.FS = fsys
		q := queue(t, cfg)
		put(t, q, 0, 25)
		require.NoError(t, q.Flush())
		fsys.set(failing(op, 1, errInjected))
		_, err := q.Truncate(7)
		require.ErrorIs(t, err, errInjected, op)
		fsys.set(nil)
		_, err = q.Truncate(7)
		require.NoError(t, err, op)
		require.Equal(t, wanted(0, 7), units(t, q, 0))
		require.Len(t, content(t, cfg.Dir), 1)
	}
}

func TestMaxIsBehindTheLastUnitThatIsNotZero(t *testing.T) {
	u := wanted(0, 10)
	for _, tc := range []struct {
		about string
		files map[int64][]byte
		want  bounds
	}{
		{"zeros behind", map[int64][]byte{0: file(u[:5]...)}, bounds{0, 5}},
		{"zeros inside", map[int64][]byte{0: file(u[0], u[1], Unit{}, Unit{}, u[4])}, bounds{0, 5}},
		{"zeros in front", map[int64][]byte{0: file(Unit{}, Unit{}, u[2])}, bounds{0, 3}},
		{"full", map[int64][]byte{0: file(u...)}, bounds{0, 10}},
		{"last file empty", map[int64][]byte{0: file(u...), 200: file()}, bounds{0, 10}},
		{"two last files empty", map[int64][]byte{0: file(u[:9]...), 200: file(), 400: file()}, bounds{0, 9}},
		{"middle file empty", map[int64][]byte{0: file(u[:9]...), 200: file(), 400: file(u[0])}, bounds{0, 21}},
		{"all empty", map[int64][]byte{600: file(), 800: file()}, bounds{30, 30}},
		{"only a tags code", map[int64][]byte{0: file(u[0], Unit{TagsCode: 1})}, bounds{0, 2}},
	} {
		cfg := config(t)
		for base, b := range tc.files {
			write(t, cfg, base, b)
		}
		before := content(t, cfg.Dir)
		require.Equal(t, tc.want, boundsOf(find(t, open(t, cfg), "T", 0)), tc.about)
		require.Equal(t, before, content(t, cfg.Dir))
	}
}

func TestZerosInsideAreFilledFromTheLog(t *testing.T) {
	cfg := config(t)
	u := wanted(0, 10)
	u[5] = Unit{}
	write(t, cfg, 0, file(u...))
	q := find(t, open(t, cfg), "T", 0)
	for n := range 10 { // as recovery does with what the log has
		require.NoError(t, q.Put(message.QueueOffset(n), unit(n), false))
	}
	require.Equal(t, wanted(0, 10), units(t, q, 0))
}

func TestCorrectMin(t *testing.T) {
	u := wanted(0, 10)
	for _, tc := range []struct {
		about  string
		units  []Unit
		logMin message.LogOffset
		want   message.QueueOffset
	}{
		{"all there", u, 0, 0},
		{"exactly", u, 1300, 3},
		{"inside a record", u, 1301, 4},
		{"the last one", u, 1900, 9},
		{"all expired", u, 1901, 10},
		{"blanks in front", []Unit{Blank, Blank, Blank, u[3], u[4]}, 0, 3},
		{"blanks in front and behind", []Unit{Blank, u[1], Blank, Blank}, 0, 1},
		{"blanks in the middle", []Unit{u[0], u[1], Blank, Blank, Blank, u[5]}, 1101, 5},
		{"Blank expired with the last", []Unit{u[0], u[1], Blank}, 1101, 3},
		{"zeros in the middle", []Unit{u[0], {}, {}, u[3]}, 1001, 3},
		{"first record of a log", []Unit{{LogOffset: 0, Size: 91}}, 0, 0},
		{"blanks only", []Unit{Blank, Blank}, 0, 2},
	} {
		cfg := config(t)
		write(t, cfg, 0, file(tc.units...))
		q := find(t, open(t, cfg), "T", 0)
		for range 2 {
			require.NoError(t, q.CorrectMin(tc.logMin), tc.about)
			require.Equal(t, bounds{tc.want, message.QueueOffset(len(tc.units))}, boundsOf(q), tc.about)
		}
	}
	q := queue(t, config(t))
	require.NoError(t, q.CorrectMin(5))
	require.Equal(t, bounds{0, 0}, boundsOf(q))
}

// TestCorrectMinWithADamagedUnit: one unit that points too low, or before the
// log, hides no messages before it.
func TestCorrectMinWithADamagedUnit(t *testing.T) {
	for at := range 30 {
		for _, low := range []message.LogOffset{0, 1, -1, math.MinInt64} {
			q := queue(t, config(t))
			put(t, q, 0, 30)
			bad := unit(at)
			bad.LogOffset = low
			require.NoError(t, q.Put(message.QueueOffset(at), bad, false))
			for gone := range 30 {
				require.NoError(t, q.CorrectMin(unit(gone).LogOffset))
				want := gone
				if at == gone && (gone > 0 || low >= 0) { // it passes for one that is gone
					want++
				}
				require.LessOrEqual(t, q.Min(), message.QueueOffset(want), "damaged %d to %d", at, low)
			}
		}
	}
}

func TestCorrectMinEqualsLinearSearch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 40 {
		cfg := config(t)
		q := queue(t, cfg)
		first := rnd.IntN(35)
		var all []Unit
		at := message.LogOffset(rnd.IntN(3) * 100)
		for n := range 1 + rnd.IntN(45) {
			u := Unit{at, int32(91 + rnd.IntN(50)), int64(n)}
			at += message.LogOffset(u.Size) + message.LogOffset(rnd.IntN(2)*rnd.IntN(400))
			if n > 0 && rnd.IntN(3) == 0 {
				u = []Unit{Blank, Blank, {}}[rnd.IntN(3)]
			}
			require.NoError(t, q.Put(message.QueueOffset(first+n), u, false))
			all = append(all, u)
		}
		for range 20 {
			logMin := message.LogOffset(rnd.Int64N(int64(at) + 200))
			want := q.Max()
			for n, u := range all {
				if u.IsReal() && u.LogOffset >= logMin {
					want = message.QueueOffset(first + n)
					break
				}
			}
			require.NoError(t, q.CorrectMin(logMin))
			require.Equal(t, want, q.Min(), "first %d, log from %d: %v", first, logMin, all)
		}
	}
}

func TestTenThousandExpiredUnits(t *testing.T) {
	cfg := config(t)
	cfg.FileSize = 3000 * UnitSize
	q := queue(t, cfg)
	for n := range 10_000 {
		require.NoError(t, q.Put(message.QueueOffset(n), Unit{message.LogOffset(100 * n), 100, 0}, false))
	}
	for logMin, want := range map[message.LogOffset]message.QueueOffset{0: 0, 2000: 20, 100 * 7777: 7777, 1_000_000: 10_000} {
		require.NoError(t, q.CorrectMin(logMin))
		require.Equal(t, want, q.Min())
	}
}

func TestFailedSyncOfAQueueIsFinal(t *testing.T) {
	fsys := &faultFS{FS: segment.OS}
	cfg := config(t)
	cfg.FS = fsys
	table := open(t, cfg)
	q, err := table.Make("T", 0)
	require.NoError(t, err)
	put(t, q, 0, 5)
	fsys.set(failing("sync", 1, errInjected))
	require.ErrorIs(t, q.Flush(), errInjected)
	fsys.set(nil)
	require.ErrorIs(t, q.Flush(), errInjected, "a second sync proves nothing")
	put(t, q, 5, 7)
	err = table.Flush()
	require.ErrorIs(t, err, errInjected)
	require.ErrorContains(t, err, "T/0")
	require.Equal(t, wanted(0, 7), units(t, q, 0), "reads and writes go on: the log is the truth")
}

func TestReadersWhileOneWriterAppends(t *testing.T) {
	cfg := config(t)
	q := queue(t, cfg)
	const total = 3000
	var readers sync.WaitGroup
	defer readers.Wait() // also when the test has failed
	for i := range 3 {
		readers.Go(func() {
			var buf [16]Unit
			next := message.QueueOffset(0)
			for next < total && !t.Failed() {
				n, err := q.Read(next, buf[:1+(i+int(next))%16])
				require.NoError(t, err)
				for j := range n {
					require.Equal(t, unit(int(next)+j), buf[j])
				}
				next += message.QueueOffset(n)
				require.LessOrEqual(t, next, q.Max())
				if n == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	readers.Go(func() {
		for q.Max() < total && !t.Failed() {
			require.NoError(t, q.Flush())
			runtime.Gosched()
		}
	})
	put(t, q, 0, total)
	readers.Wait()
	require.NoError(t, q.Flush())
	require.Equal(t, wanted(0, total), units(t, q, 0))
}

// TestQueueFileCutShortFromOutside provokes faults in the mapping.
func TestQueueFileCutShortFromOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("provokes faults in mapped memory, which an emulator does not pass on")
	}
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file can not be cut on Windows")
	}
	cfg := config(t)
	cfg.FileSize = int64(os.Getpagesize()) * UnitSize
	q := queue(t, cfg)
	total := os.Getpagesize() / UnitSize * 3
	put(t, q, 0, total)
	path := filepath.Join(cfg.Dir, "T", "0", segment.FileName(0))
	require.NoError(t, os.Truncate(path, int64(os.Getpagesize())))
	var buf [1]Unit
	_, err := q.Read(0, buf[:])
	require.NoError(t, err)
	_, err = q.Read(message.QueueOffset(total-1), buf[:])
	require.ErrorIs(t, err, segment.ErrFault)
	_, ok := q.At(message.QueueOffset(total - 1))
	require.False(t, ok)
	require.ErrorIs(t, q.Put(message.QueueOffset(total), unit(total), false), segment.ErrFault)
	require.ErrorIs(t, q.CorrectMin(math.MaxInt64-1), segment.ErrFault)
	require.Equal(t, bounds{0, message.QueueOffset(total)}, boundsOf(q))
	require.NoError(t, os.Truncate(path, cfg.FileSize))
	put(t, q, 0, total+1) // rebuilt
	require.Equal(t, wanted(0, total+1), units(t, q, 0))
}
