package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// SalvageConfig says who hears what while Salvage works. The functions are
// called by the goroutine that called it; one that is nil hears nothing.
type SalvageConfig struct {
	// Begin is called first, with where the log begins and the size of its files in
	// bytes, 0 without any.
	Begin func(start message.LogOffset, segmentSize int64) error
	// Kept is called for each record that can be read, in log order. The record
	// is valid during the call.
	Kept func(KeptRecord) error
	// Lost is called for each range of the log that can not.
	Lost func(Lost) error
	// Progress is told now and then how many bytes of the log have been read, of
	// how many at most.
	Progress func(done, total int64)
}

// KeptRecord is a record that can be read.
type KeptRecord struct {
	message.View

	// Number is the queue offset of its message. It differs from the record's own
	// where the header was damaged, and the consume queue knows better.
	Number message.QueueOffset
}

// Lost is a range of the log, [From, To), that can not be kept.
type Lost struct {
	From, To message.LogOffset
	File     string // that holds From; the directory where a file is missing
	Offset   int64  // of From in the file
	Why      error

	// Of a record whose header can be read: what it says about itself.
	Record  bool
	Topic   string
	QueueID int32
	Number  message.QueueOffset
}

// Salvaged is what Salvage found. It is a value.
type Salvaged struct {
	LogStart, LogEnd message.LogOffset // from the first file to the end of the last record kept
	SegmentSize      int64             // of files of the log; 0 without any
	QueueFileSize    int64             // of files of consume queues; 0 without any

	Records int64 // kept
	Bytes   int64 // of them
	Lost    int64 // ranges
	// LostBytes are those of the ranges; what no record was known to be in, such
	// as space behind the end of the log, is not among them.
	LostBytes int64

	Queues []SalvagedQueue // by topic and id
}

// SalvagedQueue is what is left of one queue.
type SalvagedQueue struct {
	Topic   string
	QueueID int32
	Dir     string // of its consume queue; "" where there was none
	Kept    int64  // messages
	// Missing are the numbers of messages that were there and are not kept, as far
	// as the consume queue, or gaps between those kept, tell.
	Missing []OffsetRange
}

// OffsetRange is the queue offsets [From, To).
type OffsetRange struct{ From, To message.QueueOffset }

// Salvage goes through the log of the store in dir and tells apart what can be
// kept of it and what can not. It goes on behind whatever is damaged, and changes
// nothing. A record is kept if
//
//   - it lies at its own place, and its checksums are right;
//   - its number is the next of its queue; or one that its consume queue confirms,
//     or that damage in front of it explains. Where the consume queue has the
//     record under the next number instead, it is kept with that one;
//   - a filler of at least message.MinRecordSize bytes finds place between it and
//     the record kept before it, if something between them is lost.
//
// The error says why it could not go on: ctx's, ErrNoStore, or that of a file.
func Salvage(ctx context.Context, dir string, cfg SalvageConfig) (Salvaged, error) {
	s := salvage{ctx: ctx, cfg: cfg, numbers: map[queueKey]*numbering{}}
	defer s.walk.close()
	if err := s.run(dir); err != nil {
		return s.found, fmt.Errorf("salvage: %w", err)
	}
	return s.found, nil
}

type salvage struct {
	ctx     context.Context
	cfg     SalvageConfig
	found   Salvaged
	log     *logReader
	walk    walk
	numbers map[queueKey]*numbering
	damages int
	end     int64 // of the last record kept
}

func (s *salvage) run(dir string) error {
	if err := Check(dir); err != nil {
		return err
	}
	all, err := queues(dir)
	if err != nil {
		return err
	}
	if s.log, _, err = openLog(dir, logChunk); err != nil {
		return err
	}
	s.walk = newWalk(s.log, want{views: true})
	if s.walk.trusted, err = dispatched(s.log, all); err != nil {
		return err
	}
	for _, q := range all {
		key := queueKey{q.topic, q.id}
		s.numbers[key] = &numbering{key: key, queue: q}
	}
	s.end = s.walk.pos
	s.found.LogStart = message.LogOffset(s.walk.pos)
	s.found.SegmentSize = segmentSize(dir, s.log.files)
	s.found.QueueFileSize = queueFileSize(all)
	if s.cfg.Begin != nil {
		if err := s.cfg.Begin(s.found.LogStart, s.found.SegmentSize); err != nil {
			return err
		}
	}
	if err := s.records(); err != nil {
		return err
	}
	s.found.LogEnd = message.LogOffset(s.end)
	return s.queues()
}

// records goes through the log.
func (s *salvage) records() error {
	total := s.log.end() - s.walk.pos
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			if s.cfg.Progress != nil {
				s.cfg.Progress(s.walk.pos-int64(s.found.LogStart), total)
			}
		}
		it, ok, err := s.walk.next()
		if err != nil || !ok {
			return err
		}
		switch {
		case it.kind == message.KindBlank:
		case it.damage != nil:
			err = s.lose(it, it.damage)
		case it.kind == message.KindRecord:
			err = s.record(it)
		}
		if err != nil {
			return err
		}
	}
}

// record keeps a sound record, if it has a place and a number.
func (s *salvage) record(it *item) error {
	if why := s.misplaced(it); why != nil {
		return s.lose(it, why)
	}
	number := it.view.QueueOffset()
	if IsFiller(it.view) {
		s.damages++ // what it holds the place of was lost before
	} else if it.view.SysFlag().Queued() {
		n, off, why := s.number(it)
		if why != nil {
			return s.lose(it, why)
		}
		n.see(off)
		n.begun, n.next, n.damages = true, off+1, s.gaps()
		number = message.QueueOffset(off)
	}
	s.found.Records++
	s.found.Bytes += int64(it.view.Size())
	s.end = it.to
	if s.cfg.Kept == nil {
		return nil
	}
	return s.cfg.Kept(KeptRecord{it.view, number})
}

// misplaced says why the record can not lie where it is.
func (s *salvage) misplaced(it *item) error {
	size := s.found.SegmentSize
	base := it.pos / size * size
	if it.to > base+size-message.BlankSize {
		return damaged("it leaves no room for the %d bytes that end a file of %d", message.BlankSize, size)
	}
	if gap := it.pos - max(s.end, base); gap > 0 && gap < message.MinRecordSize {
		return damaged("what is lost before it takes %d bytes, too few for a record that could hold the place", gap)
	}
	return nil
}

// number finds out which number the record has in its queue.
func (s *salvage) number(it *item) (*numbering, int64, error) {
	key := queueKey{string(it.view.Topic()), it.view.QueueID()}
	n := s.numbers[key]
	if n == nil {
		if !key.possible() {
			return nil, 0, damaged("there can be no queue %q/%d", key.topic, key.id)
		}
		n = &numbering{key: key}
		s.numbers[key] = n
	}
	off := int64(it.view.QueueOffset())
	explained := n.damages != s.gaps() || !n.begun && s.found.LogStart > 0
	switch {
	case off < 0 || off > it.pos/message.MinRecordSize: // so many records fit before it
	case off == n.next, off > n.next && n.leadsTo(off, it):
		return n, off, nil
	case off == 0 && n.leadsTo(0, it): // the topic was removed and made anew
		n.seen = nil
		return n, off, nil
	case off > n.next && explained && !n.leadsTo(n.next, it) && !n.another(off):
		return n, off, nil
	}
	if n.leadsTo(n.next, it) {
		return n, n.next, nil
	}
	return nil, 0, damaged("message %d of queue %s/%d can not come where message %d is next", off, key.topic, key.id, n.next)
}

// gaps counts the places at which messages may be missing.
func (s *salvage) gaps() int { return s.damages + s.walk.jumps }

// another reports whether the queue has another record as message off.
func (n *numbering) another(off int64) bool {
	u, ok, err := n.unit(off)
	return err == nil && ok && !u.IsBlank() && u != (consumequeue.Unit{})
}

// lose tells of a range that is not kept.
func (s *salvage) lose(it *item, why error) error {
	s.damages++
	s.found.Lost++
	s.found.LostBytes += it.to - it.pos
	if s.cfg.Lost == nil {
		return nil
	}
	path, at := s.walk.file(it.pos)
	l := Lost{From: message.LogOffset(it.pos), To: message.LogOffset(it.to), File: path, Offset: at, Why: why}
	if it.kind == message.KindRecord && it.view.SysFlag().Queued() {
		l.Record, l.Topic, l.QueueID, l.Number = true, string(it.view.Topic()), it.view.QueueID(), it.view.QueueOffset()
	}
	return s.cfg.Lost(l)
}

// queues sums up what is left of each.
func (s *salvage) queues() error {
	v := verifier{numbers: s.numbers}
	for _, n := range v.numberings() {
		q := SalvagedQueue{Topic: n.key.topic, QueueID: n.key.id}
		for _, r := range n.seen {
			q.Kept += r.to - r.from
		}
		from, to, err := s.extent(n)
		if err != nil {
			return err
		}
		if n.queue != nil {
			q.Dir = n.queue.dir
		}
		err = n.unseen(from, to, func(from, to int64) error {
			q.Missing = append(q.Missing, OffsetRange{message.QueueOffset(from), message.QueueOffset(to)})
			return nil
		})
		if err != nil {
			return err
		}
		s.found.Queues = append(s.found.Queues, q)
	}
	return nil
}

// extent is the numbers that the log should have of a queue.
func (s *salvage) extent(n *numbering) (from, to int64, err error) {
	start := int64(s.found.LogStart)
	to = n.next
	if len(n.seen) > 0 && start > 0 {
		from = n.seen[0].from
	}
	q := n.queue
	if q == nil {
		return from, to, nil
	}
	if start > 0 {
		first, err := q.min(start)
		if err != nil {
			return 0, 0, err
		}
		if len(n.seen) == 0 {
			from = first
		}
		from = min(from, first)
	}
	for at := q.withFile(max(to, from)); at < q.max; at = q.withFile(at + 1) {
		u, ok, err := q.unit(at)
		if err != nil {
			return 0, 0, err
		}
		if pos := int64(u.LogOffset); ok && u.Size > 0 && !u.IsBlank() && pos >= start && pos < s.log.end() {
			to = at + 1
		}
	}
	return from, to, nil
}

// segmentSize is the size that the files of the log should have: what most have.
// One file may have been cut: our recovery point knows its size, else it gets
// room for whole pages.
func segmentSize(dir string, files []File) int64 {
	size := commonSize(files)
	if len(files) != 1 || size == 0 {
		return size
	}
	if b, err := os.ReadFile(filepath.Join(dir, ownDir, recoveryFile)); err == nil {
		var point struct {
			SegmentSize int64 `json:"segmentSize"`
		}
		if text, err := ownText(b); err == nil && json.Unmarshal(text, &point) == nil && point.SegmentSize >= size {
			return point.SegmentSize
		}
	}
	base := files[0].Base
	if base == 0 {
		const page = 4096
		return (size + page - 1) / page * page
	}
	const tries = 1 << 20
	for n := base / size; n > max(0, base/size-tries); n-- { // so many files were before it
		if base%n == 0 {
			return base / n
		}
	}
	return size
}

// commonSize is the size that most files have, of several the largest.
func commonSize(files []File) (size int64) {
	count := map[int64]int{}
	for _, f := range files {
		count[f.Size]++
	}
	for s, n := range count {
		if n > count[size] && s > 0 || n == count[size] && s > size {
			size = s
		}
	}
	return size
}

func queueFileSize(all []*queue) int64 {
	var files []File
	for _, q := range all {
		for _, f := range q.units.files {
			if f.Size%unitSize == 0 {
				files = append(files, f)
			}
		}
	}
	return commonSize(files)
}
