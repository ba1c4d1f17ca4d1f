package consumequeue

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

func TestTableFindsWhatItMade(t *testing.T) {
	cfg := config(t)
	table := open(t, cfg)
	require.Empty(t, all(t, table))
	require.Nil(t, find(t, table, "A", 0))
	for _, name := range []string{"B/1", "A/10", "A/2", "%RETRY%g/0"} {
		var topic string
		var id int32
		_, err := fmt.Sscanf(name[len(filepath.Dir(name))+1:], "%d", &id)
		require.NoError(t, err)
		topic = filepath.Dir(name)
		q, err := table.Make(topic, id)
		require.NoError(t, err)
		same, err := table.Make(topic, id)
		require.NoError(t, err)
		require.Same(t, q, same)
		require.Same(t, q, find(t, table, topic, id))
		require.Same(t, q, find(t, table, []byte(topic), id))
		require.Nil(t, find(t, table, topic, id+1))
	}
	require.NoDirExists(t, cfg.Dir, "a queue without units has no directory")
	var names []string
	for _, q := range all(t, table) {
		names = append(names, fmt.Sprint(q.Topic, "/", q.ID))
		put(t, q, 0, 12)
	}
	require.Equal(t, []string{"%RETRY%g/0", "A/2", "A/10", "B/1"}, names)
	require.NoError(t, table.Flush())
	require.NoError(t, table.Close())
	require.NoError(t, table.Close())
	require.Len(t, content(t, cfg.Dir), 8)

	cfg.FileSize = 0 // taken from what is there
	again := open(t, cfg)
	require.Equal(t, int64(200), again.FileSize())
	require.Len(t, all(t, again), 4)
	for _, q := range all(t, again) {
		require.Equal(t, wanted(0, 12), units(t, q, 0))
	}
}

func TestTableWithoutSizes(t *testing.T) {
	cfg := config(t)
	cfg.FileSize, cfg.Default = 0, 95
	table := open(t, cfg)
	require.Equal(t, int64(100), table.FileSize(), "whole units")
	q, err := table.Make("T", 1)
	require.NoError(t, err)
	put(t, q, 0, 6)
	cfg.FileSize = 141
	require.Equal(t, int64(160), open(t, Config{FS: cfg.FS, Dir: t.TempDir(), FileSize: 141}).FileSize())
	_, err = OpenTable(cfg)
	require.ErrorIs(t, err, segment.ErrFileSize)
}

func TestTableSkipsWhatIsNoQueue(t *testing.T) {
	cfg := config(t)
	put(t, queue(t, cfg), 0, 3)
	for _, dir := range []string{"T/abc", "T/-1", "T/+0", "T/00", "T/99999999999", "U", "V/3"} {
		require.NoError(t, os.MkdirAll(filepath.Join(cfg.Dir, filepath.FromSlash(dir)), 0o700))
	}
	cfg.FileSize = 0
	table := open(t, cfg)
	require.Len(t, all(t, table), 2)
	q := find(t, table, "V", 3)
	require.Equal(t, bounds{0, 0}, boundsOf(q), "a directory without files")
	put(t, q, 0, 2)
}

func TestWhatIsNoQueueFileIsRefused(t *testing.T) {
	for _, tc := range []struct {
		about string
		harm  func(t *testing.T, cfg Config)
		want  error
	}{
		{"a foreign name", func(t *testing.T, cfg Config) {
			require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "T", "0", "readme"), []byte("x"), 0o600))
		}, segment.ErrForeignFile},
		{"a file for a topic", func(t *testing.T, cfg Config) {
			require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "stray"), []byte("x"), 0o600))
		}, segment.ErrForeignFile},
		{"a file for a queue", func(t *testing.T, cfg Config) {
			require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "T", "5"), []byte("x"), 0o600))
		}, segment.ErrForeignFile},
		{"a directory", func(t *testing.T, cfg Config) {
			require.NoError(t, os.Mkdir(filepath.Join(cfg.Dir, "T", "0", segment.FileName(400)), 0o700))
		}, segment.ErrForeignFile},
	} {
		t.Run(tc.about, func(t *testing.T) {
			cfg := config(t)
			write(t, cfg, 0, file(wanted(0, 10)...))
			write(t, cfg, 200, file(wanted(10, 13)...))
			tc.harm(t, cfg)
			before := content(t, cfg.Dir)
			live := mmap.Live()
			_, err := OpenTable(cfg)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, before, content(t, cfg.Dir))
			require.Equal(t, live, mmap.Live())
		})
	}
}

func TestQueueWithHolesIsEmptiedOnDemandOnly(t *testing.T) {
	for _, tc := range []struct {
		about string
		harm  func(t *testing.T, cfg Config)
	}{
		{"a file is missing", func(t *testing.T, cfg Config) {
			require.NoError(t, os.Remove(filepath.Join(cfg.Dir, "T", "0", segment.FileName(200))))
		}},
		{"a file in the middle is empty", func(t *testing.T, cfg Config) { write(t, cfg, 200, nil) }},
		{"the first file is empty", func(t *testing.T, cfg Config) { write(t, cfg, 0, nil) }},
	} {
		t.Run(tc.about, func(t *testing.T) {
			cfg := config(t)
			table := open(t, cfg)
			for _, topic := range []string{"S", "T", "U"} {
				q, err := table.Make(topic, 0)
				require.NoError(t, err)
				put(t, q, 0, 25)
			}
			require.NoError(t, table.Close())
			tc.harm(t, cfg)
			before := content(t, cfg.Dir)
			table = open(t, cfg)
			require.Equal(t, before, content(t, cfg.Dir), "Open changes nothing")
			require.Nil(t, find(t, table, "T", 0))
			dirs, err := table.ResetDamaged(0)
			require.NoError(t, err)
			require.Equal(t, []string{filepath.Join(cfg.Dir, "T", "0")}, dirs)
			dirs, err = table.ResetDamaged(0)
			require.NoError(t, err)
			require.Empty(t, dirs)
			q, err := table.Make("T", 0)
			require.NoError(t, err)
			require.Equal(t, bounds{0, 0}, boundsOf(q))
			put(t, q, 0, 25)
			require.Equal(t, wanted(0, 25), units(t, q, 0))
			require.Equal(t, wanted(0, 25), units(t, find(t, table, "U", 0), 0))
		})
	}
}

func TestEmptyLastFileIsRemoved(t *testing.T) {
	cfg := config(t)
	write(t, cfg, 0, file(wanted(0, 10)...))
	path := write(t, cfg, 200, nil) // a crash between making it and giving it its length
	q := find(t, open(t, cfg), "T", 0)
	require.NoFileExists(t, path)
	require.Equal(t, bounds{0, 10}, boundsOf(q))
	put(t, q, 10, 12)
	require.Equal(t, wanted(0, 12), units(t, q, 0))
}

func TestOpenThatFailsSaysWhy(t *testing.T) {
	cfg := config(t)
	table := open(t, cfg)
	for id := range int32(3) {
		q, err := table.Make("T", id)
		require.NoError(t, err)
		put(t, q, 0, 15)
	}
	require.NoError(t, table.Close())
	for n := 1; ; n++ {
		fsys := &faultFS{FS: segment.OS}
		fsys.set(failing("readdir", n, errInjected))
		cfg.FS = fsys
		table, err := OpenTable(cfg)
		if err == nil {
			require.Equal(t, 6, n, "the table, the topic, and each queue")
			require.NoError(t, table.Close())
			return
		}
		require.ErrorIs(t, err, errInjected)
	}
}

// TestNothingIsOpenBeforeItsFirstUse, and a queue whose file can not be opened
// then is found as soon as it can.
func TestNothingIsOpenBeforeItsFirstUse(t *testing.T) {
	cfg := config(t)
	table := open(t, cfg)
	for id := range int32(3) {
		q, err := table.Make("T", id)
		require.NoError(t, err)
		put(t, q, 0, 15)
	}
	require.NoError(t, table.Close())
	live := mmap.Live()
	fsys := &faultFS{FS: segment.OS}
	var loaded []int32
	cfg.FS, cfg.Loaded = fsys, func(q *Queue) error {
		loaded = append(loaded, q.ID)
		return nil
	}
	table = open(t, cfg)
	require.Equal(t, live, mmap.Live())
	require.True(t, table.Lookup("T", 1).Covers(0, 20))
	require.False(t, table.Lookup("T", 1).Covers(0, 21))
	require.Nil(t, table.Lookup("T", 3))
	fsys.set(failing("open", 1, errInjected))
	_, err := Find(table, "T", 1)
	require.ErrorIs(t, err, errInjected)
	require.Empty(t, loaded)
	fsys.set(nil)
	require.Equal(t, wanted(0, 15), units(t, find(t, table, "T", 1), 0))
	require.Equal(t, wanted(0, 15), units(t, find(t, table, "T", 1), 0))
	require.Equal(t, []int32{1}, loaded, "once, and no other")
	require.Equal(t, live+2, mmap.Live(), "its two files")
	require.NoError(t, table.Close())
	_, err = Find(table, "T", 2)
	require.ErrorIs(t, err, segment.ErrClosed, "it would seem empty")
}

// TestChangedQueues: Flush and Changed look at those that changed since.
func TestChangedQueues(t *testing.T) {
	fsys := &faultFS{FS: segment.OS}
	cfg := config(t)
	cfg.FS = fsys
	table := open(t, cfg)
	for id := range int32(4) {
		q, err := table.Make("T", id)
		require.NoError(t, err)
		put(t, q, 0, 3)
	}
	require.Len(t, table.Changed(), 4)
	require.Empty(t, table.Changed())
	require.NoError(t, table.Flush())
	put(t, find(t, table, "T", 2), 3, 5)
	syncs := 0
	fsys.set(func(op string) error {
		if op == "sync" {
			syncs++
		}
		return nil
	})
	require.NoError(t, table.Flush())
	require.NoError(t, table.Flush())
	require.Equal(t, 1, syncs)
	changed := table.Changed()
	require.Equal(t, []*Queue{find(t, table, "T", 2)}, changed)
	table.Keep(changed)
	require.Equal(t, changed, table.Changed())
}

func TestFindWhileQueuesAreMade(t *testing.T) {
	table := open(t, config(t))
	const topics = 50
	var readers sync.WaitGroup
	defer readers.Wait() // also when the test has failed
	for range 2 {
		readers.Go(func() {
			for find(t, table, fmt.Sprint("T", topics-1), 0) == nil && !t.Failed() {
				for _, q := range all(t, table) {
					n, err := q.Read(0, make([]Unit, 2))
					require.NoError(t, err)
					require.LessOrEqual(t, n, 1)
				}
				require.NoError(t, table.Flush())
				runtime.Gosched()
			}
		})
	}
	for i := range topics {
		q, err := table.Make(fmt.Sprint("T", i), 0)
		require.NoError(t, err)
		put(t, q, 0, 1)
	}
	readers.Wait()
	require.Len(t, all(t, table), topics)
}

// FuzzConsumeQueueOpen takes any bytes for the files of a queue.
func FuzzConsumeQueueOpen(f *testing.F) {
	f.Add([]byte(nil), int64(0), uint8(0))
	f.Add(file(wanted(0, 10)...), int64(1300), uint8(3))
	f.Add(append(file(Blank, Blank, unit(2)), file()...), int64(0), uint8(30))
	f.Add(append(file(), file(unit(1), Unit{}, unit(3))...), int64(1200), uint8(11))
	f.Add([]byte{0xFF}, int64(-1), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, logMin int64, cut uint8) {
		cfg := Config{FS: &faultFS{FS: segment.OS, noSync: true}, Dir: t.TempDir(), FileSize: fileUnits * UnitSize}
		data = data[:min(len(data), 3*fileUnits*UnitSize)]
		for base := 0; base < len(data); base += fileUnits * UnitSize {
			b := file()
			copy(b, data[base:])
			write(t, cfg, int64(base), b)
		}
		table, err := OpenTable(cfg)
		require.NoError(t, err)
		defer table.Close()
		q, err := table.Make("T", 0)
		require.NoError(t, err)
		all := units(t, q, 0)
		require.Len(t, all, int(q.Max()))
		if len(all) > 0 {
			require.NotEqual(t, Unit{}, all[len(all)-1])
		}
		require.NoError(t, q.CorrectMin(message.LogOffset(logMin)))
		require.LessOrEqual(t, q.Min(), q.Max())
		_, err = q.Truncate(message.QueueOffset(cut))
		require.NoError(t, err)
		left := min(len(all), int(cut))
		require.LessOrEqual(t, q.Min(), q.Max())
		require.Equal(t, all[:left], units(t, q, 0))
		next := q.Max()
		require.NoError(t, q.Put(next, unit(1), false))
		again, err := OpenTable(cfg)
		require.NoError(t, err)
		defer again.Close()
		require.Equal(t, append(all[:left:left], unit(1)), units(t, find(t, again, "T", 0), 0))
	})
}
