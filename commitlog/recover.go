package commitlog

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// RecoverConfig says where to look for the end of the log.
type RecoverConfig struct {
	// From is the start of a record, or of a file; what lies before is taken as
	// it is.
	From message.LogOffset
	// LastTime is the store timestamp (ms) of the record before From, if known.
	LastTime int64
	// Trusted is the end of what is known to have been on disk. An unreadable
	// spot before it is damage: it is kept, reported and passed over.
	Trusted message.LogOffset
	// Clean says that the log was closed properly. Then an unreadable spot is
	// the end of the log only if nothing sound follows; otherwise one at or
	// behind Trusted always is, because a crash leaves such tails.
	Clean bool
	// Visit, if not nil, is called for each sound record, as in Scan.
	Visit func(*message.DispatchRequest) error
	// Progress, if not nil, is told at least once for each MiB up to where the log
	// was read, and how many records were seen. Its error ends Recover.
	Progress func(pos message.LogOffset, records int64) error
}

// Recovered is what Recover found.
type Recovered struct {
	End      message.LogOffset
	LastTime int64 // store timestamp of the last record, ms, as far as it can be believed
	Records  int64 // seen
	Bytes    int64 // examined
	// Why says what is at End instead of a record: zeros, a torn one, a checksum
	// that is wrong. It matches message.ErrCorrupt, and is nil where the last file
	// is full.
	Why error
}

// Recover reads the log from cfg.From, compares checksums, and finds its end.
// It changes nothing: see Repair. ctx is looked at once for each MiB.
//
// RocketMQ cuts the log at the first bad spot, wherever it is. Here a bad spot
// among messages that were acknowledged loses no others.
//
// Source: RocketMQ store/CommitLog.java, recoverNormally and recoverAbnormally.
func (l *Log) Recover(ctx context.Context, cfg RecoverConfig) (Recovered, error) {
	r := recovery{log: l, cfg: cfg, pos: int64(cfg.From)}
	r.time.last = cfg.LastTime
	for !r.done {
		if err := r.report(ctx); err != nil {
			return Recovered{}, err
		}
		f := l.files.Acquire(r.pos)
		if f == nil {
			break
		}
		if err := r.file(ctx, f); err != nil {
			return Recovered{}, fmt.Errorf("commit log: recovery at offset %d: %w", r.pos, err)
		}
	}
	r.found.End, r.found.LastTime = message.LogOffset(r.pos), r.time.last
	r.found.Bytes = r.pos - int64(cfg.From)
	return r.found, nil
}

type recovery struct {
	log     *Log
	cfg     RecoverConfig
	pos     int64
	told    int64 // pos at the last report
	done    bool  // pos is the end
	found   Recovered
	time    storeTime
	request message.DispatchRequest
}

// reportEvery is after how many bytes ctx is looked at, and progress told.
const reportEvery = 1 << 20

// report tells how far it is, and whether to stop.
func (r *recovery) report(ctx context.Context) error {
	r.told = r.pos
	if err := ctx.Err(); err != nil || r.cfg.Progress == nil {
		return err
	}
	return r.cfg.Progress(message.LogOffset(r.pos), r.found.Records)
}

// file goes on from r.pos to the end of f, or of the log, and unpins f, whatever
// Visit does.
func (r *recovery) file(ctx context.Context, f *segment.File) (err error) {
	defer f.Unpin()
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	end := f.Base() + f.Size()
	b := f.Bytes()
	resident := r.pos
	for r.pos < end && !r.done {
		if r.pos-r.told >= reportEvery {
			if err := r.report(ctx); err != nil {
				return err
			}
		}
		resident = r.log.warm(f, r.pos, resident, end, new(segment.Clock))
		v, kind, damage := message.ReadRecord(b[r.pos-f.Base():])
		if kind == message.KindRecord && int64(v.LogOffset()) == r.pos {
			if damage = v.Check(); damage == nil && r.pos >= int64(r.cfg.Trusted) && torn(b, r.pos-f.Base(), v) {
				damage = fmt.Errorf("%w: a part of topic or properties was never written", message.ErrCorrupt)
			}
			if damage == nil {
				if err := r.record(v); err != nil {
					return err
				}
				continue
			}
			kind = message.KindDamaged
		}
		if kind == message.KindBlank && r.hasFile(end) {
			r.pos = end
			continue
		}
		r.unreadable(f, kind, damageOf(kind, v, damage))
	}
	return nil
}

// sectorSize is what a disk writes as a whole.
const sectorSize = 512

// torn reports whether a sector with a part of the topic or the properties of
// the record v, which begins at start of b, is all zero up to its end. The
// record's checksum covers the body alone, and what was never written is zero,
// so a crash can leave a record that looks sound and has lost those. A record
// with another behind it is seldom taken for torn, whatever its properties end
// in: the other's first bytes lie in the same sector. One that was written here
// never is: see legible.
func torn(b []byte, start int64, v message.View) bool {
	end := start + int64(v.Size())
	props := int64(len(v.Properties()))
	named := end - props - 2 // the end of the topic
	from := named - int64(len(v.Topic()))
	if props > 0 {
		named = end
	}
	return lostSector(b, max(from-from%sectorSize, start+1), named)
}

// lostSector reports whether a sector of b that begins in [from, to) is all
// zero: it may never have reached the disk.
func lostSector(b []byte, from, to int64) bool {
	for at := (from + sectorSize - 1) / sectorSize * sectorSize; at < to; at += sectorSize {
		if allZero(b[at:min(at+sectorSize, int64(len(b)))]) {
			return true
		}
	}
	return false
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func (r *recovery) hasFile(base int64) bool {
	f := r.log.files.Last()
	return f != nil && f.Base() >= base
}

func (r *recovery) record(v message.View) error {
	if r.cfg.Visit != nil {
		r.request.Read(v, r.log.cfg.DelayLevels)
		if err := r.cfg.Visit(&r.request); err != nil {
			return err
		}
	}
	r.found.Records++
	r.time.see(v.StoreTimestamp(), r.log.cfg.Now)
	r.pos += int64(v.Size())
	return nil
}

// unreadable decides what a spot without a sound record is: damage, or the end.
func (r *recovery) unreadable(f *segment.File, kind message.Kind, why error) {
	trusted := int64(r.cfg.Trusted)
	next, damage := r.afterWhole(f)
	r.found.Why = why // if it is the end
	switch {
	case damage:
	case !r.cfg.Clean && r.pos >= trusted, kind == message.KindNothing && r.pos == trusted, kind == message.KindBlank && r.pos >= trusted:
		r.done = true
		return
	case kind == message.KindBlank: // of the last file; what lies behind it in the file is undefined
		r.done = true
		if trusted <= f.End() { // the file behind it was not begun
			r.pos = f.End()
			return
		}
		next, damage = f.End(), true
	default:
		next, damage = r.log.nextRecord(r.pos, math.MaxInt64, r.time.last)
	}
	if !damage && r.pos >= trusted {
		r.done = true
		return
	}
	if !damage { // acknowledged messages were here, and nothing follows
		next = min(trusted, r.log.files.Last().End())
		r.done = true
	}
	r.log.addDamage(Damage{From: message.LogOffset(r.pos), To: message.LogOffset(next), File: f.Path(), Err: why})
	r.found.Why = nil
	r.pos = next
}

// afterWhole returns where the record at r.pos ends, if it was written as a
// whole and what follows is sound. After a crash a record with a sector of zeros
// counts as one that was not: a later one may have reached the disk before it.
func (r *recovery) afterWhole(f *segment.File) (int64, bool) {
	b := f.Bytes()[r.pos-f.Base():]
	size, ok := message.DamagedRecordSize(b, message.LogOffset(r.pos))
	start := r.pos - f.Base()
	if !ok || !r.cfg.Clean && r.pos >= int64(r.cfg.Trusted) && lostSector(f.Bytes(), start+1, start+int64(size)) {
		return 0, false
	}
	next := r.pos + int64(size)
	v, kind, _ := message.ReadRecord(b[size:])
	return next, kind == message.KindBlank ||
		kind == message.KindRecord && int64(v.LogOffset()) == next && v.Check() == nil
}

// Cut is what Repair removed.
type Cut struct {
	Bytes   int64    // set to zero: they were not zero
	Removed []string // files behind the end, by path
}

// Repair makes the disk agree with what Recover found. What lies in
// [doubtful, end) is written again in place and synced, because pages may be in
// the page cache without being on disk and without being marked for writing.
// Everything from end on is set to zero, so that nothing behind a cut can come
// back, and files behind it are removed. doubtful = end rewrites nothing.
// step, if not nil, is called at least once for each MiB, with how far that is;
// its error ends Repair, which changed nothing that matters then.
func (l *Log) Repair(doubtful, end message.LogOffset, step func(pos message.LogOffset) error) (Cut, error) {
	for pos := int64(doubtful); pos < int64(end); {
		f := l.files.Acquire(pos)
		if f == nil {
			return Cut{}, fmt.Errorf("commit log: repair: the file for offset %d is gone", pos)
		}
		to := min(f.Base()+f.Size(), int64(end))
		err := rewrite(f, pos-f.Base(), to-f.Base(), step)
		f.Unpin()
		if err != nil {
			return Cut{}, fmt.Errorf("commit log: repair: %w", err)
		}
		pos = to
	}
	zeroed, removed, err := l.files.CutAfter(int64(end), true)
	if err != nil {
		return Cut{}, fmt.Errorf("commit log: cut at %d: %w", end, err)
	}
	return Cut{zeroed, removed}, nil
}

// rewrite writes [from, to) of f again and syncs it.
func rewrite(f *segment.File, from, to int64, step func(message.LogOffset) error) error {
	buf := make([]byte, min(to-from, reportEvery))
	for from < to {
		if step != nil {
			if err := step(message.LogOffset(f.Base() + from)); err != nil {
				return err
			}
		}
		n, err := copyOut(f, from, buf[:min(int64(len(buf)), to-from)])
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(buf[:n], from); err != nil {
			return err
		}
		from += int64(n)
	}
	return f.Sync()
}

func copyOut(f *segment.File, at int64, dst []byte) (n int, err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	return copy(dst, f.Bytes()[at:]), nil
}
