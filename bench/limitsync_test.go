package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// BenchmarkLimitSync is what any log pays that syncs before it answers: a bare
// append and fdatasync for one writer, a bare group commit for many. Rows without
// a size write 1 KiB.
func BenchmarkLimitSync(b *testing.B) {
	for _, size := range sizes {
		for _, n := range writers {
			name := fmt.Sprintf("size=%d/writers=%d", size, n)
			if size == 1<<10 {
				name = fmt.Sprintf("writers=%d", n)
			}
			b.Run(name, func(b *testing.B) { benchmarkLimitSync(b, size, n) })
		}
	}
}

func benchmarkLimitSync(b *testing.B, size, writers int) {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	check(b, err)
	defer f.Close()
	g := &groupCommit{file: f}
	body := newMessage(size, 0).Body
	took := make(latencies, b.N)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	each(b, writers, took.timing(func(int) error { return g.append(body) }))
	b.StopTimer()
	took.report(b, "")
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
