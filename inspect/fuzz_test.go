package inspect_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/internal/golden"
)

// fuzzed are places for a fuzzed file in a store.
var fuzzed = []string{
	"commitlog/%020d", "consumequeue/CrashTopicA/0/%020d", "consumequeue_ext/CrashTopicA/0/%020d", "index/%017d",
	"checkpoint", "config/topics.json", "config/consumerOffset.json.bak", "pocketmq/store.json", "lock", "elsewhere/%020d", "elsewhere/copy",
	"pocketmq/recovery.json", "pocketmq/queues.0", "pocketmq/reserve", "pocketmq/timers",
}

// FuzzStore puts a file of any content, with any offset for a name, into a store,
// alone or among sound files, and looks at it in every way.
func FuzzStore(f *testing.F) {
	c, err := golden.Load("crash_tail_torn")
	require.NoError(f, err)
	sound := f.TempDir()
	require.NoError(f, c.Unpack(golden.StoreArchive, sound))
	files, err := golden.Files(sound)
	require.NoError(f, err)
	for path, data := range files { // as it is, but for its length
		data = data[:min(len(data), 2000)]
		switch filepath.Base(filepath.Dir(path)) {
		case "commitlog":
			f.Add(byte(0), uint64(0), data)
			f.Add(byte(9), uint64(0), data)
		case "index":
			f.Add(byte(3), uint64(1), files[path])
		case "0":
			f.Add(byte(1), uint64(1000), data)
			f.Add(byte(2), uint64(0), data)
		default:
			for place := 4; place < len(fuzzed); place++ {
				f.Add(byte(place), uint64(0), data)
			}
		}
	}
	f.Add(byte(9*15+7), uint64(1), []byte(`{"format":1,"generation":3,"storeHost":"127.0.0.1:10911","index":{"slots":10,"entries":20}}`))
	f.Add(byte(9*15+11), uint64(1), []byte(`{"logOffset":300,"last":{"logOffset":100,"size":150,"hash":1,"storeTimestamp":5},"segmentSize":1,`+
		`"queues":{"file":"queues.0","bytes":30,"sum":7}}`))
	f.Add(byte(9*15+12), uint64(1), append(ledgerEntry("CrashTopicA", 0, 0, 3), ledgerEntry("b", 1, 0, 1<<40)...))
	f.Add(byte(9*15+14), uint64(1), timersFile(7, 3, 6))
	f.Fuzz(func(t *testing.T, place byte, base uint64, data []byte) {
		name := fuzzed[int(place)%len(fuzzed)]
		if base%2 == 0 && filepath.Base(name) == "%020d" {
			base = base % (1 << 20) / 1000 * 1000
		}
		if n := fmt.Sprintf(name, base); len(n) > len(name) {
			name = n
		}
		dir := t.TempDir()
		if place >= 128 {
			require.NoError(t, os.CopyFS(dir, os.DirFS(sound)))
		}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "commitlog"), 0o700))
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		_ = os.Remove(path)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		if base%2 == 1 {
			vouchFor(t, path, data)
		}
		look(t, dir)
	})
}

// vouchFor gives a file of pocketmq/ the checksum that belongs to it.
func vouchFor(t *testing.T, path string, data []byte) {
	t.Helper()
	switch name := filepath.Base(path); name {
	case "store.json", "recovery.json":
		require.NoError(t, os.WriteFile(path, sealed(data), 0o600))
	case "timers":
		if len(data) >= 8 {
			binary.BigEndian.PutUint64(data, xxhash.Sum64(data[8:]))
			require.NoError(t, os.WriteFile(path, data, 0o600))
		}
	case "queues.0":
		point := fmt.Appendf(nil, `{"queues":{"file":"queues.0","bytes":%d,"sum":%d}}`, len(data), xxhash.Sum64(data))
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "recovery.json"), sealed(point), 0o600))
	}
}

// look uses everything that the package has.
func look(t *testing.T, dir string) {
	t.Helper()
	var errs int64
	sum, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) {
		require.NotEmpty(t, f.Kind)
		require.NotEmpty(t, f.Run)
		require.NotContains(t, f.Text, "\n")
		if f.Severity == inspect.Error {
			errs++
		}
	})
	require.NoError(t, err)
	require.Equal(t, errs, sum.Errors)
	require.NoError(t, inspect.Dump(t.Context(), dir, inspect.DumpConfig{}, func(e inspect.Entry) error {
		require.NotEmpty(t, e.String())
		_, err := e.MarshalJSON()
		return err
	}))
	_, err = inspect.Info(dir)
	require.NoError(t, err)
	_, err = inspect.Salvage(t.Context(), dir, inspect.SalvageConfig{})
	require.NoError(t, err)
	r, err := inspect.NewReader(dir, "CrashTopicA", 0)
	require.NoError(t, err)
	defer r.Close()
	for range 100 {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			break
		}
	}
}
