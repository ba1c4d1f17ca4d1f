package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/edsrzf/mmap-go"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkLimitReadSequential copies the records that BenchmarkGetCopy gets, one
// after the other, out of the same files.
func BenchmarkLimitReadSequential(b *testing.B) {
	limitRead(b, func(i int) int { return i % getStored })
}

// BenchmarkLimitReadRandom copies the records that BenchmarkGetRandom gets.
func BenchmarkLimitReadRandom(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	limitRead(b, func(int) int { return random.IntN(getStored) })
}

func limitRead(b *testing.B, which func(i int) int) {
	filled := getStore(b)
	var records [][]byte
	b.Run(fmt.Sprintf("size=%d", getSize), func(b *testing.B) {
		if records == nil {
			records = mappedRecords(b, filled)
		}
		var record []byte
		b.SetBytes(getSize)
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			record = append(record[:0], records[which(i)]...)
		}
	})
}

// mappedRecords maps the log of a store once more, and returns every record in it.
// All of them were read.
func mappedRecords(b *testing.B, filled *shared) [][]byte {
	s := filled.get(b)
	paths, err := filepath.Glob(filepath.Join(s.Dir(), "commitlog", "*"))
	check(b, err)
	slices.Sort(paths)
	var files []mmap.MMap
	for _, path := range paths {
		m := mapRead(b, path)
		filled.parent.Cleanup(func() { unmap(filled.parent, m) })
		files = append(files, m)
	}
	size := message.LogOffset(store.DefaultSegmentSize)
	var records [][]byte
	for v, err := range s.Records(b.Context(), 0) {
		check(b, err)
		at := v.LogOffset()
		record := files[at/size][at%size:][:v.Size():v.Size()]
		if string(record) != string(v.Raw()) {
			b.Fatalf("another record at %d", at)
		}
		records = append(records, record)
	}
	if len(records) != getStored {
		b.Fatalf("%d records, %d were put", len(records), getStored)
	}
	return records
}

func mapRead(b *testing.B, path string) mmap.MMap {
	f, err := os.Open(path)
	check(b, err)
	defer f.Close()
	m, err := mmap.Map(f, mmap.RDONLY, 0)
	check(b, err)
	return m
}
