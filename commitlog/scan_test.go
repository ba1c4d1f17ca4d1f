package commitlog

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// tenRecords are five of 200 bytes in each of two files of 1024.
var tenRecords = []string{"0:0:A", "200:1:B", "400:2:C", "600:3:D", "800:4:E", "1024:5:F", "1224:6:G", "1424:7:H", "1624:8:I", "1824:9:J"}

// without returns the records but for those at the indexes.
func without(records []string, indexes ...int) []string {
	var left []string
	for i, r := range records {
		if !slices.Contains(indexes, i) {
			left = append(left, r)
		}
	}
	return left
}

func TestScanPassesOverDamageAndReportsItOnce(t *testing.T) {
	foreign := func(t *testing.T, cfg Config, off int64) { poke(t, cfg, off, peek(t, cfg, 200, 200)) }
	for _, tc := range []struct {
		about    string
		harm     func(*testing.T, Config)
		lost     []int
		from, to message.LogOffset
	}{
		{"magic", func(t *testing.T, cfg Config) { flip(t, cfg, 600+4) }, []int{3}, 600, 800},
		{"size larger", func(t *testing.T, cfg Config) { poke(t, cfg, 600+3, []byte{201}) }, []int{3}, 600, 800},
		{"size smaller", func(t *testing.T, cfg Config) { flip(t, cfg, 600+3) }, []int{3}, 600, 800},
		{"size negative", func(t *testing.T, cfg Config) { poke(t, cfg, 600, []byte{0xFF}) }, []int{3}, 600, 800},
		{"size huge", func(t *testing.T, cfg Config) { poke(t, cfg, 600, []byte{0x7F, 0xFF, 0xFF, 0xFF}) }, []int{3}, 600, 800},
		{"zeros", func(t *testing.T, cfg Config) { poke(t, cfg, 600, make([]byte, 200)) }, []int{3}, 600, 800},
		{"record of another place", func(t *testing.T, cfg Config) { foreign(t, cfg, 600) }, []int{3}, 600, 800},
		{"body length", func(t *testing.T, cfg Config) { flip(t, cfg, 600+87) }, []int{3}, 600, 800},
		{"first of all", func(t *testing.T, cfg Config) { flip(t, cfg, 4) }, []int{0}, 0, 200},
		{"first of a file", func(t *testing.T, cfg Config) { flip(t, cfg, 1024+4) }, []int{5}, 1024, 1224},
		{"last of a file", func(t *testing.T, cfg Config) { flip(t, cfg, 800+4) }, []int{4}, 800, 1024},
		{"last of all", func(t *testing.T, cfg Config) { flip(t, cfg, 1824+4) }, []int{9}, 1824, 2024},
		{"blank", func(t *testing.T, cfg Config) { flip(t, cfg, 1000+4) }, nil, 1000, 1024},
		{"neighbours", func(t *testing.T, cfg Config) { flip(t, cfg, 600+4); foreign(t, cfg, 800); flip(t, cfg, 1024) }, []int{3, 4, 5}, 600, 1224},
		{"a whole file", func(t *testing.T, cfg Config) { poke(t, cfg, 1024, make([]byte, 1024)) }, []int{5, 6, 7, 8, 9}, 1024, 2024},
	} {
		t.Run(tc.about, func(t *testing.T) {
			cfg := config(t, false)
			var reported []Damage
			cfg.Damaged = func(d Damage) { reported = append(reported, d) }
			l := start(t, cfg)
			c := NewCounter(0)
			for i := range tenRecords {
				add(t, l, c, 200, byte('A'+i))
			}
			require.Equal(t, tenRecords, scanned(t, l))
			tc.harm(t, cfg)
			for range 3 {
				require.Equal(t, without(tenRecords, tc.lost...), scanned(t, l))
			}
			require.Len(t, reported, 1)
			require.Equal(t, reported, l.Damaged())
			d := reported[0]
			require.Equal(t, [2]message.LogOffset{tc.from, tc.to}, [2]message.LogOffset{d.From, d.To})
			require.Equal(t, pathOf(cfg, int64(tc.from)), d.File)
			require.ErrorIs(t, d, message.ErrCorrupt)
			require.ErrorIs(t, d.Err, message.ErrCorrupt)
			require.ErrorContains(t, d, d.File)
			// what comes behind is found as before
			add(t, l, c, 200, 'K')
			require.Equal(t, append(without(tenRecords, tc.lost...), "2048:10:K"), scanned(t, l))
		})
	}
}

func TestScanReportsEachDamage(t *testing.T) {
	cfg := config(t, false)
	reports := 0
	cfg.Damaged = func(Damage) { reports++ }
	l := start(t, cfg)
	c := NewCounter(0)
	for i := range tenRecords {
		add(t, l, c, 200, byte('A'+i))
	}
	for _, off := range []int64{200, 600, 1424} {
		flip(t, cfg, off+4)
	}
	// in pieces, as the dispatcher does
	var got []string
	pos := message.LogOffset(0)
	for _, to := range []message.LogOffset{200, 400, 1000, 1224, 2024} {
		end, err := l.Scan(pos, to, func(r *message.DispatchRequest) error {
			got = append(got, describe(r))
			return nil
		})
		require.NoError(t, err)
		require.GreaterOrEqual(t, end, to)
		pos = end
	}
	require.Equal(t, without(tenRecords, 1, 3, 7), got)
	require.Equal(t, 3, reports)
}

func TestScanStopsAtTheFirstErrorOfVisit(t *testing.T) {
	cfg := config(t, false)
	l := start(t, cfg)
	c := NewCounter(0)
	for i := range tenRecords {
		add(t, l, c, 200, byte('A'+i))
	}
	var got []string
	visit := func(r *message.DispatchRequest) error {
		if r.LogOffset() == 1224 && len(got) < 7 {
			got = append(got, "-")
			return errInjected
		}
		got = append(got, describe(r))
		return nil
	}
	pos, err := l.Scan(0, l.Visible(), visit)
	require.Equal(t, errInjected, err)
	require.Equal(t, message.LogOffset(1224), pos)
	pos, err = l.Scan(pos, l.Visible(), visit)
	require.NoError(t, err)
	require.Equal(t, l.Visible(), pos)
	require.Equal(t, slices.Insert(slices.Clone(tenRecords), 6, "-"), got)
}

func TestScanOutsideTheLog(t *testing.T) {
	l := start(t, config(t, false))
	pos, err := l.Scan(0, 0, nil)
	require.NoError(t, err)
	require.Zero(t, pos)
	pos, err = l.Scan(0, 1, nil)
	require.ErrorIs(t, err, message.ErrOffsetNotFound)
	require.Zero(t, pos)
	p := add(t, l, NewCounter(0), 200, 'A')
	_, err = l.Scan(5000, 5001, nil)
	require.ErrorIs(t, err, message.ErrOffsetNotFound)
	pos, err = l.Scan(p.End(), p.End(), nil)
	require.NoError(t, err)
	require.Equal(t, p.End(), pos)
}

// TestPanicInVisitLeavesNoPin is what the end of the test checks: a pin would
// keep the mapping.
func TestPanicInVisitLeavesNoPin(t *testing.T) {
	cfg := config(t, false)
	build(t, cfg, 200)
	l := load(t, cfg)
	boom := func(*message.DispatchRequest) error { panic("boom") }
	require.PanicsWithValue(t, "boom", func() { _, _ = l.Recover(t.Context(), RecoverConfig{Visit: boom}) })
	l.Start(200, 0)
	require.PanicsWithValue(t, "boom", func() { _, _ = l.Scan(0, 200, boom) })
	require.NoError(t, l.Close())
}

func TestScanGivesTagsCode(t *testing.T) {
	cfg := config(t, false)
	var err error
	cfg.DelayLevels, err = message.ParseDelayLevels("1s 5s")
	require.NoError(t, err)
	l := start(t, cfg)
	m := msg(120, 'A')
	m.Properties, err = message.NewProperties("TAGS", "TagA")
	require.NoError(t, err)
	_, err = l.Append(t.Context(), m, NewCounter(0))
	require.NoError(t, err)
	m.Topic = message.ScheduleTopic
	m.Properties, err = m.Properties.With(message.PropertyDelayLevel, "2")
	require.NoError(t, err)
	_, err = l.Append(t.Context(), m, NewCounter(0))
	require.NoError(t, err)
	var codes []int64
	_, err = l.Scan(0, l.Visible(), func(r *message.DispatchRequest) error {
		codes = append(codes, r.TagsCode)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []int64{2598919, cfg.Now().UnixMilli() + 5000}, codes)
}
