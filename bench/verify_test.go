package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkVerify goes through a store of 256 MiB in messages of 1 KiB, with an
// index, in the page cache. BenchmarkLimitRead reads the same log and does nothing
// else.
func BenchmarkVerify(b *testing.B) {
	dir, size := verifyStore(b)
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		sum, err := inspect.Verify(b.Context(), dir, func(f inspect.Finding) { b.Error(f) })
		check(b, err)
		if sum.Records != verifyRecords {
			b.Fatalf("%d records, not %d", sum.Records, verifyRecords)
		}
	}
}

// BenchmarkLimitRead reads the log of BenchmarkVerify's store as cat does.
func BenchmarkLimitRead(b *testing.B) {
	dir, size := verifyStore(b)
	files, err := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	check(b, err)
	buf := make([]byte, 128<<10)
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for _, path := range files {
			check(b, readAll(path, buf))
		}
	}
}

const verifyRecords = 256 << 10

// verifyStore makes the store, and returns the length of its log.
func verifyStore(b *testing.B) (dir string, size int64) {
	dir = b.TempDir()
	s, err := store.Open(b.Context(), dir, store.Config{Flush: store.FlushAsync})
	check(b, err)
	m := newMessage(1024, 0)
	for i := range verifyRecords {
		m.Properties = message.Properties(fmt.Sprintf("UNIQ_KEY\x01%032d\x02TAGS\x01TagA", i))
		_, err := s.PutMessage(b.Context(), m)
		check(b, err)
	}
	size = int64(s.MaxOffset())
	check(b, s.Close())
	return dir, size
}

func readAll(path string, buf []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Read(buf); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
