package commitlog

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// FuzzRecover takes any bytes for the files of a log. Recover must not panic,
// not allocate by what lengths in them claim, and name an end that Repair makes
// final.
func FuzzRecover(f *testing.F) {
	const fileSize, maxFiles = 1024, 3
	record := func(off, size int, fill byte) []byte {
		m := msg(size, fill)
		m.LogOffset, m.BodyCRC, m.StoreTimestamp = message.LogOffset(off), message.BodyCRC(m.Body), 1000
		b := make([]byte, size)
		m.PutRecord(b)
		return b
	}
	whole := append(record(0, 500, 'A'), record(500, 300, 'B')...)
	blank := make([]byte, 8)
	message.PutBlank(blank, 224)
	two := append(append(append([]byte(nil), whole...), blank...), make([]byte, 216)...)
	two = append(two, record(1024, 400, 'C')...)
	f.Add([]byte(nil), int64(0), false)
	f.Add(whole, int64(0), false)
	f.Add(whole, int64(800), true)
	f.Add(two, int64(0), false)
	f.Add(two, int64(1424), true)
	f.Add(two[:fileSize], int64(1024), false)
	f.Add(two[:fileSize], int64(2000), true)
	f.Add(append(bytes.Clone(whole), record(0, 224, 'X')...), int64(1024), false)
	for _, size := range []uint32{0, 7, 8, 91, 0x7FFFFFFF, 0xFFFFFFFF} {
		f.Add(append(bytes.Clone(whole), header(size, message.RecordMagic)...), int64(801), size%2 == 0)
		f.Add(header(size, message.BlankMagic), int64(3), size%2 == 0)
	}
	holed := bytes.Clone(two)
	clear(holed[100:700])
	f.Add(holed, int64(1424), false)

	f.Fuzz(func(t *testing.T, data []byte, trusted int64, clean bool) {
		data = data[:min(len(data), maxFiles*fileSize)]
		dir := t.TempDir()
		for base := 0; base < len(data); base += fileSize {
			file := make([]byte, fileSize)
			copy(file, data[base:])
			require.NoError(t, os.WriteFile(filepath.Join(dir, segment.FileName(int64(base))), file, 0o600))
		}
		cfg := Config{FS: &faultFS{FS: segment.OS, noSync: true}, Dir: dir, FileSize: fileSize, Now: (&clock{}).now}
		rc := RecoverConfig{Trusted: message.LogOffset(max(0, trusted)), Clean: clean}
		run := func() (Recovered, []Damage, map[string]string) {
			l, err := Open(cfg)
			require.NoError(t, err)
			defer l.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found, err := l.Recover(context.Background(), rc)
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
			require.LessOrEqual(t, found.End, message.LogOffset((len(data)+fileSize-1)/fileSize*fileSize))
			last := message.LogOffset(0)
			for _, d := range l.Damaged() {
				require.GreaterOrEqual(t, d.From, last)
				require.Greater(t, d.To, d.From)
				require.LessOrEqual(t, d.To, found.End)
				last = d.To
			}
			_, err = l.Repair(0, found.End, nil)
			require.NoError(t, err)
			found.Why = nil // what was cut is zeros the next time
			return found, l.Damaged(), content(t, dir)
		}
		found, damage, bytes := run()
		again, damageAgain, bytesAgain := run()
		require.Equal(t, found, again)
		require.Equal(t, len(damage), len(damageAgain))
		require.Equal(t, bytes, bytesAgain)
	})
}
