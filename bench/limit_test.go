package bench

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/edsrzf/mmap-go"
)

const limitFileSize = 64 << 20 // of store.DefaultSegmentSize

// BenchmarkLimitCopy checksums and copies the bodies that BenchmarkPut puts,
// into mapped files of the same size whose pages are there already.
func BenchmarkLimitCopy(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			m := newMessage(size, 0)
			dir := b.TempDir()
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var mapped mmap.MMap
			var sum uint32
			at := limitFileSize
			for i := 0; i < b.N; i++ {
				if at+size > limitFileSize {
					b.StopTimer()
					unmap(b, mapped)
					mapped, at = prepared(b, filepath.Join(dir, fmt.Sprint(i))), 0
					b.StartTimer()
				}
				sum ^= crc32.ChecksumIEEE(m.Body)
				at += copy(mapped[at:], m.Body)
			}
			b.StopTimer()
			unmap(b, mapped)
			_ = sum
		})
	}
}

// prepared maps a new file, every page of it present and writable.
func prepared(b *testing.B, path string) mmap.MMap {
	f, err := os.Create(path)
	check(b, err)
	defer f.Close()
	check(b, f.Truncate(limitFileSize))
	m, err := mmap.Map(f, mmap.RDWR, 0)
	check(b, err)
	for i := 0; i < len(m); i += 4096 {
		m[i] = 0
	}
	return m
}

func unmap(b *testing.B, m mmap.MMap) {
	if m != nil {
		check(b, m.Unmap())
	}
}
