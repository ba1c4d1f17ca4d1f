package segment

import (
	"sync"
)

// Cache bounds how many files are mapped at a time, over all lists that share it: each costs a descriptor and address
// space. When it is full, opening one more file closes another that has no pin and was not used lately, first those
// that need no sync. A pinned file is never closed: while all are pinned, the limit is exceeded rather than anybody
// made to wait.
//
// A file that was written to since its last Sync is synced before it is closed. An error of that sync is the answer
// of the next Sync of the file: nobody else may take its pages for written. With a Volume a Derived file is closed
// without: there may be very many, and one sync of all of the filesystem is then for them all.
type Cache struct {
	maxFiles int
	maxBytes int64

	mu    sync.Mutex
	ring  []*File // those that are mapped, or about to be
	hand  int     // where the search for a file to close goes on
	bytes int64   // mapped by them

	together together
}

// NewCache returns a Cache for maxFiles mapped files, which together map at most maxBytes. A nil Cache has no limit.
func NewCache(maxFiles int, maxBytes int64) *Cache {
	return &Cache{maxFiles: maxFiles, maxBytes: maxBytes}
}

// Len returns how many files are mapped.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ring)
}

// admit counts f, whose mu the caller holds, and makes room for it.
func (c *Cache) admit(f *File) {
	if c == nil {
		return
	}
	c.mu.Lock()
	f.slot = len(c.ring)
	c.ring = append(c.ring, f)
	c.bytes += f.list.size
	c.mu.Unlock()
	for victim := c.victim(); victim != nil; victim = c.victim() {
		victim.closeIdle()
	}
}

// forget takes f, whose mu the caller holds, out of the count.
func (c *Cache) forget(f *File) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(f)
}

// remove is called with mu held. It does nothing for a file that is not counted.
func (c *Cache) remove(f *File) {
	if f.slot >= len(c.ring) || c.ring[f.slot] != f {
		return
	}
	last := c.ring[len(c.ring)-1]
	c.ring[f.slot], last.slot = last, f.slot
	c.ring[len(c.ring)-1] = nil
	c.ring = c.ring[:len(c.ring)-1]
	c.bytes -= f.list.size
}

// victim returns a file to be closed, which no longer counts, is not mapped as far as others can see, and whose mu is
// held. It returns nil if there is room, or no file that can be closed.
func (c *Cache) victim() *File {
	c.mu.Lock()
	defer c.mu.Unlock()
	rounds := 3 // the first may only find that all were used, the last takes those that need a sync
	for left := rounds * len(c.ring); left > 0 && (len(c.ring) > c.maxFiles || c.bytes > c.maxBytes); left-- {
		c.hand = (c.hand + 1) % len(c.ring)
		f := c.ring[c.hand]
		if f.state.CompareAndSwap(mapped|used, mapped) || left > len(c.ring) && f.mustSync() || !f.mu.TryLock() {
			continue
		}
		if f.state.CompareAndSwap(mapped, none) {
			c.remove(f)
			return f
		}
		f.mu.Unlock()
	}
	return nil
}

// closeIdle closes a file that victim returned.
func (f *File) closeIdle() {
	defer f.mu.Unlock()
	f.leave()
	if f.dirty.Swap(false) && f.failed == nil {
		f.failed = f.handle.Sync()
	}
	if err := f.close(); f.failed == nil {
		f.failed = err
	}
	f.clean = f.failed == nil
}

// mustSync reports whether a file must be synced before it is closed.
func (f *File) mustSync() bool { return f.dirty.Load() && !f.mayLeave.Load() }

// syncClosed is Sync without opening the file, if the Cache has closed it. It returns false if it must be opened.
func (f *File) syncClosed() (done bool, err error) {
	if f.IsMapped() {
		return false, nil
	}
	f.mu.Lock()
	clean := f.clean
	f.mu.Unlock()
	if !clean || !f.waits() {
		return clean, nil
	}
	return true, f.failure(f.list.cache.together.sync(f.left.Load()))
}
