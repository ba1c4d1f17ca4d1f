package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// FullError says which limit leaves no room for a message. It matches
// message.ErrDiskFull. Nothing was stored, and a later put may succeed.
type FullError struct {
	What  string // what has the limit
	Have  int64
	Limit int64
	Unit  string
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s: %v: %d %s, limit is %d", e.What, message.ErrDiskFull, e.Have, e.Unit, e.Limit)
}

// Is makes errors.Is(err, message.ErrDiskFull) true.
func (e *FullError) Is(target error) bool {
	return target == message.ErrDiskFull || target == segment.ErrNoSpace
}

// space is the size of a disk and what is free for this user, in bytes.
type space struct{ total, free int64 }

// usedPercent is rounded up, as RocketMQ does.
func (s space) usedPercent() int {
	if s.total <= 0 {
		return 0
	}
	percent := s.total/100 + min(s.total%100, 1)
	return int((s.total - s.free + percent - 1) / percent)
}

// excess is how many bytes are in use beyond ratio percent; 0 for no limit.
func (s space) excess(ratio int) int64 {
	if ratio == 0 || s.usedPercent() <= ratio {
		return 0
	}
	return max(1, s.total-s.free-s.total/100*int64(ratio))
}

// disk watches how full the disk of the store is.
type disk struct {
	dir     string
	measure func(path string) (total, free int64, err error)
	warning int // percent; 0 for none
	clear   int // percent: what was full is so no more at or below it
	log     *slog.Logger

	full atomic.Bool // above the warning level; read for each put

	mu     sync.Mutex
	last   space
	failed bool // the last time it could not be measured
}

func newDisk(c Config, dir string) *disk {
	r := c.Retention
	d := &disk{dir: dir, measure: c.space, warning: r.DiskWarningLevelRatio, clear: r.DiskWarningLevelRatio, log: c.Logger}
	if r.DiskCleanForciblyRatio > 0 {
		d.clear = min(d.clear, r.DiskCleanForciblyRatio)
	}
	return d
}

// look measures. A disk that can not be measured is as it was.
func (d *disk) look() space {
	d.mu.Lock()
	defer d.mu.Unlock()
	total, free, err := d.measure(d.dir)
	if err != nil {
		if !d.failed && !errors.Is(err, errors.ErrUnsupported) {
			d.log.Warn("use of the disk can not be measured", "dir", d.dir, "err", err)
		}
		d.failed = true
		return d.last
	}
	d.failed = false
	d.last = space{total, free}
	used := d.last.usedPercent()
	switch was := d.full.Load(); {
	case d.warning == 0:
	case !was && used > d.warning:
		d.full.Store(true)
		d.log.Warn("disk nearly full: messages are not taken as usual", "dir", d.dir, "used", used, "limit", d.warning)
	case was && used <= d.clear:
		d.full.Store(false)
		d.log.Info("disk has room again", "dir", d.dir, "used", used)
	}
	return d.last
}

// check measures and returns an error if the disk counts as full.
func (d *disk) check() error {
	now := d.look()
	if !d.full.Load() {
		return nil
	}
	return &FullError{What: "disk of " + d.dir, Have: int64(now.usedPercent()), Limit: int64(d.warning), Unit: "percent in use"}
}
