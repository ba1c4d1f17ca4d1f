package commitlog

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// recovered is what Recover says, with the records that it visited.
type recovered struct {
	End     message.LogOffset
	Records []string
	Damage  [][2]message.LogOffset
}

func recoverLog(t *testing.T, l *Log, cfg RecoverConfig) recovered {
	t.Helper()
	var got recovered
	cfg.Visit = func(r *message.DispatchRequest) error {
		got.Records = append(got.Records, describe(r))
		return nil
	}
	found, err := l.Recover(context.Background(), cfg)
	require.NoError(t, err)
	require.Equal(t, int64(len(got.Records)), found.Records)
	require.Equal(t, int64(found.End-cfg.From), found.Bytes)
	got.End = found.End
	for _, d := range l.Damaged() {
		got.Damage = append(got.Damage, [2]message.LogOffset{d.From, d.To})
		require.ErrorIs(t, d.Err, message.ErrCorrupt)
	}
	return got
}

type ranges = [][2]message.LogOffset

func TestRecover(t *testing.T) {
	type harm = func(*testing.T, Config)
	flipAt := func(offs ...int64) harm {
		return func(t *testing.T, cfg Config) {
			for _, off := range offs {
				flip(t, cfg, off)
			}
		}
	}
	garbage := func(size, magic uint32) harm {
		return func(t *testing.T, cfg Config) { poke(t, cfg, 2024, header(size, magic)) }
	}
	emptyFile := func(base int64) harm {
		return func(t *testing.T, cfg Config) {
			require.NoError(t, os.WriteFile(pathOf(cfg, base), make([]byte, cfg.FileSize), 0o600))
		}
	}
	foreign := func(t *testing.T, cfg Config) { poke(t, cfg, 1824, peek(t, cfg, 200, 200)) }
	remove := func(off int64) harm {
		return func(t *testing.T, cfg Config) { require.NoError(t, os.Remove(pathOf(cfg, off))) }
	}
	none := func(*testing.T, Config) {}
	const body = 150 // inside the body of a record
	all := tenRecords
	eleven := append(slices.Clone(all), "2048:10:K")
	clean := RecoverConfig{Clean: true}
	crash := RecoverConfig{}
	at := func(off message.LogOffset) RecoverConfig { return RecoverConfig{Trusted: off} }
	cleanAt := func(off message.LogOffset) RecoverConfig { return RecoverConfig{Trusted: off, Clean: true} }
	from := func(off message.LogOffset, cfg RecoverConfig) RecoverConfig { cfg.From = off; return cfg }

	for _, tc := range []struct {
		about   string
		records int
		harm    harm
		cfg     RecoverConfig
		want    recovered
		cut     bool    // something that was not zero is made zero
		removed []int64 // files behind the end
	}{
		{"empty log", 0, none, crash, recovered{0, nil, nil}, false, nil},
		{"whole, crash", 10, none, crash, recovered{2024, all, nil}, false, nil},
		{"whole, clean", 10, none, clean, recovered{2024, all, nil}, false, nil},
		{"whole, all trusted", 10, none, at(2024), recovered{2024, all, nil}, false, nil},
		{"from a file", 10, none, from(1024, crash), recovered{2024, all[5:], nil}, false, nil},
		{"from a record", 10, none, from(1424, crash), recovered{2024, all[7:], nil}, false, nil},
		{"from the end", 10, none, from(2024, crash), recovered{2024, nil, nil}, false, nil},

		{"torn body, crash", 10, flipAt(1824 + body), crash, recovered{1824, all[:9], nil}, true, nil},
		{"torn body, crash, trusted before it", 10, flipAt(1824 + body), at(1824), recovered{1824, all[:9], nil}, true, nil},
		{"torn body, clean", 10, flipAt(1824 + body), clean, recovered{1824, all[:9], nil}, true, nil},
		{"damaged last body, trusted", 10, flipAt(1824 + body), at(2024), recovered{2024, all[:9], ranges{{1824, 2024}}}, false, nil},
		{"damaged last magic, trusted", 10, flipAt(1824 + 4), cleanAt(2024), recovered{2024, all[:9], ranges{{1824, 2024}}}, false, nil},

		{"size 0x7FFFFFFF, crash", 10, garbage(0x7FFFFFFF, message.RecordMagic), crash, recovered{2024, all, nil}, true, nil},
		{"size 0x7FFFFFFF, clean", 10, garbage(0x7FFFFFFF, message.RecordMagic), clean, recovered{2024, all, nil}, true, nil},
		{"size 0x7FFFFFFF, trusted", 10, garbage(0x7FFFFFFF, message.RecordMagic), at(2024), recovered{2024, all, nil}, true, nil},
		{"size 0xFFFFFFFF", 10, garbage(0xFFFFFFFF, message.RecordMagic), crash, recovered{2024, all, nil}, true, nil},
		{"size 7", 10, garbage(7, message.RecordMagic), crash, recovered{2024, all, nil}, true, nil},
		{"size 8", 10, garbage(8, message.RecordMagic), crash, recovered{2024, all, nil}, true, nil},
		{"size 0", 10, garbage(0, message.RecordMagic), crash, recovered{2024, all, nil}, true, nil},
		{"size alone", 10, garbage(200, 0), crash, recovered{2024, all, nil}, true, nil},
		{"unknown magic", 10, garbage(200, 0x12345678), crash, recovered{2024, all, nil}, true, nil},

		{"empty next file, crash", 10, emptyFile(2048), crash, recovered{2024, all, nil}, false, []int64{2048}},
		{"empty next file, clean", 10, emptyFile(2048), clean, recovered{2024, all, nil}, false, []int64{2048}},
		{"empty next file behind a blank", 11, func(t *testing.T, cfg Config) { remove(2048)(t, cfg); emptyFile(2048)(t, cfg) }, crash, recovered{2048, all, nil}, false, nil},
		{"empty next file behind a blank, trusted", 11, func(t *testing.T, cfg Config) { remove(2048)(t, cfg); emptyFile(2048)(t, cfg) }, at(2048), recovered{2048, all, nil}, false, nil},
		{"blank without a next file", 11, remove(2048), crash, recovered{2024, all, nil}, true, nil},
		{"blank without a next file, clean", 11, remove(2048), clean, recovered{2024, all, nil}, true, nil},
		{"blank without a next file, trusted before it", 11, remove(2048), at(2024), recovered{2024, all, nil}, true, nil},
		{"blank without a next file, trusted with it", 11, remove(2048), at(2048), recovered{2048, all, nil}, false, nil},
		{"last file missing", 11, remove(2048), at(2248), recovered{2048, all, ranges{{2024, 2048}}}, false, nil},
		{"first record of a file, crash", 11, flipAt(2048 + 4), crash, recovered{2048, all, nil}, true, nil},
		{"blank missing, crash", 10, flipAt(1000 + 4), crash, recovered{1000, all[:5], nil}, true, []int64{1024}},
		{"blank missing, trusted", 10, flipAt(1000 + 4), at(2024), recovered{2024, all, ranges{{1000, 1024}}}, false, nil},
		{"blank missing, clean", 10, flipAt(1000 + 4), clean, recovered{2024, all, ranges{{1000, 1024}}}, false, nil},

		{"record copied from elsewhere, crash", 9, foreign, crash, recovered{1824, all[:9], nil}, true, nil},
		{"record copied from elsewhere, clean", 9, foreign, clean, recovered{1824, all[:9], nil}, true, nil},
		{"record copied from elsewhere, trusted", 9, foreign, at(1824), recovered{1824, all[:9], nil}, true, nil},

		{"magic, trusted", 10, flipAt(600 + 4), at(2024), recovered{2024, without(all, 3), ranges{{600, 800}}}, false, nil},
		{"magic, trusted behind it", 10, flipAt(600 + 4), at(800), recovered{2024, without(all, 3), ranges{{600, 800}}}, false, nil},
		{"magic, clean", 10, flipAt(600 + 4), clean, recovered{2024, without(all, 3), ranges{{600, 800}}}, false, nil},
		{"magic, crash", 10, flipAt(600 + 4), crash, recovered{600, all[:3], nil}, true, []int64{1024}},
		{"magic, trusted before it", 10, flipAt(600 + 4), at(600), recovered{600, all[:3], nil}, true, []int64{1024}},
		{"body, trusted", 10, flipAt(600 + body), at(2024), recovered{2024, without(all, 3), ranges{{600, 800}}}, false, nil},
		{"body, clean", 10, flipAt(600 + body), clean, recovered{2024, without(all, 3), ranges{{600, 800}}}, false, nil},
		{"bit of a size, clean", 10, flipAt(600 + 3), clean, recovered{2024, without(all, 3), ranges{{600, 800}}}, false, nil},
		{"before and behind trusted", 10, flipAt(600+4, 1624+4), at(1024), recovered{1624, without(all, 3, 8, 9), ranges{{600, 800}}}, true, nil},
		{"two, clean", 10, flipAt(600+4, 1624+4), clean, recovered{2024, without(all, 3, 8), ranges{{600, 800}, {1624, 1824}}}, false, nil},
		{"topic length, crash", 10, flipAt(600 + 196), crash, recovered{2024, without(all, 3), ranges{{600, 800}}}, false, nil},
		{"topic length, last of a file, crash", 10, flipAt(800 + 196), crash, recovered{2024, without(all, 4), ranges{{800, 1000}}}, false, nil},
		{"topic length, last of all, crash", 10, flipAt(1824 + 196), crash, recovered{1824, all[:9], nil}, true, nil},
		{"topic length, clean", 10, flipAt(600 + 196), clean, recovered{2024, without(all, 3), ranges{{600, 800}}}, false, nil},
		{"whole, eleven", 11, none, crash, recovered{2248, eleven, nil}, false, nil},
	} {
		t.Run(tc.about, func(t *testing.T) {
			cfg := config(t, false)
			build(t, cfg, repeat(tc.records, 200)...)
			tc.harm(t, cfg)
			var before map[string]string
			if tc.records > 0 {
				before = content(t, cfg.Dir)
			}
			l := load(t, cfg)
			require.Equal(t, tc.want, recoverLog(t, l, tc.cfg))
			if tc.records == 0 {
				return
			}
			require.Equal(t, before, content(t, cfg.Dir), "Recover changes nothing")

			cut, err := l.Repair(tc.cfg.From, tc.want.End, nil)
			require.NoError(t, err)
			require.Equal(t, tc.cut, cut.Bytes > 0, cut)
			var removed []string
			for _, base := range tc.removed {
				removed = append(removed, pathOf(cfg, base))
			}
			require.Equal(t, removed, cut.Removed)
			repaired := content(t, cfg.Dir)
			for name, was := range before {
				now, kept := repaired[name]
				if !kept {
					continue
				}
				base := baseOf(t, name)
				end := min(max(0, int64(tc.want.End)-base), cfg.FileSize)
				require.Equal(t, was[:end], now[:end], "what lies before the end stays as it is")
				require.Equal(t, string(make([]byte, cfg.FileSize-end)), now[end:], "what lies behind it is zero")
			}
			cut, err = l.Repair(tc.cfg.From, tc.want.End, nil)
			require.NoError(t, err)
			require.Equal(t, Cut{}, cut)
			require.NoError(t, l.Close())

			again := load(t, cfg)
			require.Equal(t, tc.want, recoverLog(t, again, tc.cfg), "the second time it is the same")
			require.Equal(t, repaired, content(t, cfg.Dir))
			again.Start(tc.want.End, 0)
			p := add(t, again, NewCounter(99), 200, 'Z')
			require.NoError(t, again.Flush())
			require.GreaterOrEqual(t, p.LogOffset, tc.want.End)
			require.Less(t, p.LogOffset-tc.want.End, message.LogOffset(208), "the file's rest is too short, or it is right there")
			require.NoError(t, again.Close())
			last := recoverLog(t, load(t, cfg), RecoverConfig{From: tc.cfg.From, Trusted: p.End()})
			require.Equal(t, p.End(), last.End)
			require.Equal(t, append(slices.Clone(tc.want.Records), describePlaced(p)), last.Records)
		})
	}
}

// describePlaced is describe for the record that the test appends last.
func describePlaced(p Placement) string {
	return fmt.Sprintf("%d:99:Z", p.LogOffset)
}

func baseOf(t *testing.T, name string) int64 {
	t.Helper()
	base := int64(0)
	for _, c := range name {
		base = base*10 + int64(c-'0')
	}
	require.Equal(t, name, segment.FileName(base))
	return base
}
