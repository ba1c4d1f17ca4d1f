package bench

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/edsrzf/mmap-go"
)

const limitFileSize = 64 << 20 // of store.DefaultSegmentSize

// BenchmarkLimitCopy checksums and copies the bodies that BenchmarkPut puts,
// into mapped files of the same size whose pages are there already.
func BenchmarkLimitCopy(b *testing.B) {
	for _, size := range []int{128, 1024, 4096} {
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

// BenchmarkLimitSync is what any log pays that syncs before it answers: a bare
// append and fdatasync for one writer, a bare group commit for many.
func BenchmarkLimitSync(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			f, err := os.Create(filepath.Join(b.TempDir(), "log"))
			check(b, err)
			defer f.Close()
			g := &groupCommit{file: f}
			body := newMessage(1024, 0).Body
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			b.ResetTimer()
			each(b, writers, func() error { return g.append(body) })
		})
	}
}

// groupCommit appends to a file under a mutex; whoever finds no sync under way
// syncs for all who wait.
type groupCommit struct {
	file *os.File

	mu      sync.Mutex
	end     int64
	synced  int64
	syncing bool
	done    *sync.Cond
}

func (g *groupCommit) append(p []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done == nil {
		g.done = sync.NewCond(&g.mu)
	}
	if _, err := g.file.WriteAt(p, g.end); err != nil {
		return err
	}
	g.end += int64(len(p))
	mine := g.end
	for g.synced < mine {
		if g.syncing {
			g.done.Wait()
			continue
		}
		g.syncing = true
		upTo := g.end
		g.mu.Unlock()
		err := datasync(g.file)
		g.mu.Lock()
		g.syncing = false
		if err != nil {
			return err
		}
		g.synced = upTo
		g.done.Broadcast()
	}
	return nil
}
