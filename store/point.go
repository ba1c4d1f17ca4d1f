package store

import (
	"maps"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// recoveryPoint says that everything before LogOffset is on disk, in the log
// and in the consume queues, so that Open need not look at it. It is derived
// data: without it, or when the log shows that somebody else changed it, Open
// reads the whole log.
type recoveryPoint struct {
	// Generation is that of the directory when the point was written; with
	// another one it is of no use.
	Generation uint64            `json:"generation"`
	LogOffset  message.LogOffset `json:"logOffset"`
	Last       lastRecord        `json:"last"`
	// LastTime is a store timestamp (ms) that no later record goes below. It is
	// not read from the record, where it may be damaged.
	LastTime int64 `json:"lastTime"`
	// Index is the log offset before which everything is in the index, on disk.
	// IndexFiles are those that have entries.
	Index      message.LogOffset `json:"index"`
	IndexFiles []indexPoint      `json:"indexFiles,omitempty"`

	SegmentSize int64 `json:"segmentSize"`

	Queues ledgerMark `json:"queues"` // how many messages before LogOffset each queue has had
}

// lastRecord identifies the record before LogOffset.
type lastRecord struct {
	LogOffset      message.LogOffset `json:"logOffset"`
	Size           int               `json:"size"`
	Hash           uint64            `json:"hash"` // xxhash64 of its bytes
	StoreTimestamp int64             `json:"storeTimestamp"`
}

// indexPoint names an index file and the log offset of its last record then.
type indexPoint struct {
	Name string            `json:"name"`
	End  message.LogOffset `json:"end"`
}

func (p *recoveryPoint) read(o *fields) {
	last, queues := o.object("last"), o.object("queues")
	*p = recoveryPoint{
		Generation: o.uint("generation"),
		LogOffset:  o.offset("logOffset"),
		Last: lastRecord{
			LogOffset: last.offset("logOffset"), Size: int(last.int32("size")),
			Hash: last.uint("hash"), StoreTimestamp: last.int("storeTimestamp"),
		},
		LastTime:    o.int("lastTime"),
		Index:       o.offset("index"),
		SegmentSize: o.int("segmentSize"),
		Queues:      ledgerMark{File: queues.text("file"), Bytes: queues.int("bytes"), Sum: queues.uint("sum")},
	}
	o.objects("indexFiles", func(f *fields) {
		p.IndexFiles = append(p.IndexFiles, indexPoint{Name: f.text("name"), End: f.offset("end")})
	})
}

const pointFile = "recovery.json"

// identify reads the record at off, zero when there is no sound one.
func identify(log *commitlog.Log, off message.LogOffset) lastRecord {
	f := log.Acquire(off)
	if f == nil {
		return lastRecord{}
	}
	defer f.Unpin()
	id := lastRecord{}
	_ = log.View(f, off, func(v message.View) {
		id = lastRecord{off, v.Size(), xxhash.Sum64(v.Raw()), v.StoreTimestamp()}
	})
	return id
}

// holdsLog reports whether the log still has the point's last record.
func (s *DefaultMessageStore) holdsLog(p recoveryPoint) bool {
	return p.Last != (lastRecord{}) && p.LogOffset >= p.Last.LogOffset+message.LogOffset(p.Last.Size) && identify(s.log, p.Last.LogOffset) == p.Last
}

// takeQueues reports whether the queues still have files for all units before the
// point. If so, each queue knows how many messages it had. No queue is opened:
// whether a file still has what it should is looked at when it is first used.
func (s *DefaultMessageStore) takeQueues(p recoveryPoint) bool {
	l, entries, err := readLedger(s.cfg.fs, s.dir, p.Queues)
	if err != nil {
		return false
	}
	last := make(map[*consumequeue.Queue]ledgerEntry, s.queues.Len())
	for _, e := range entries {
		q := s.queues.Lookup(e.topic, e.id)
		if q == nil {
			return false
		}
		last[q] = e
	}
	for q, e := range last {
		if !s.hasFiles(q, e) {
			return false
		}
		l.live += e.size()
	}
	for q, e := range last {
		q.Known = e.max
	}
	s.ledger, s.vouched = l, p.LogOffset
	return true
}

// hasFiles reports whether the queue has files for the units that it should
// have, but for those in front whose messages the log has lost as well.
func (s *DefaultMessageStore) hasFiles(q *consumequeue.Queue, e ledgerEntry) bool {
	first := q.First()
	if !q.Covers(max(first, e.first), e.max) {
		return false
	}
	if first <= e.first {
		return true
	}
	if q.Load() != nil {
		return false
	}
	u, ok := q.At(first)
	return ok && u.LogOffset < s.log.MinOffset()
}

// savePoint writes a recovery point. units are how many messages before it the
// queues have that changed since the last point. The caller has synced what they
// vouch for, but the index.
func (s *DefaultMessageStore) savePoint(p recoveryPoint, units map[*consumequeue.Queue]message.QueueOffset) error {
	if !s.flushIndex() {
		p.Index, p.IndexFiles = s.point.Index, s.point.IndexFiles
	}
	if err := s.saveCheckpoint(p.Last.StoreTimestamp); err != nil { // an index file may be full and on disk now
		return err
	}
	next, err := s.extendLedger(units)
	if err != nil {
		return err
	}
	p.Queues = next.mark()
	if err := writeOwn(s.cfg.fs, s.dir, pointFile, p, s.cfg.FileMode); err != nil {
		return err
	}
	s.point, s.pointDue, s.ledger = p, false, next
	s.pointEnd.Store(int64(p.LogOffset))
	for q, n := range units {
		q.Known = n
	}
	return nil
}

// extendLedger writes what the next point needs of the ledger.
func (s *DefaultMessageStore) extendLedger(units map[*consumequeue.Queue]message.QueueOffset) (ledger, error) {
	var entries []ledgerEntry
	size, added := int64(0), int64(0)
	for q, n := range units {
		if n == q.Known {
			continue
		}
		e := ledgerEntry{q.Topic, q.ID, q.First(), n}
		entries = append(entries, e)
		size += e.size()
		if q.Known < 0 {
			added += e.size()
		}
	}
	if !s.ledger.outgrown(size) {
		return s.ledger.add(s.cfg.fs, s.dir, entries, added)
	}
	all := maps.Clone(units)
	for _, q := range s.queues.All() {
		if _, ok := all[q]; !ok && q.Known >= 0 {
			all[q] = q.Known
		}
	}
	entries = entries[:0]
	for q, n := range all {
		entries = append(entries, ledgerEntry{q.Topic, q.ID, q.First(), n})
	}
	return s.ledger.rewrite(s.cfg.fs, s.dir, entries, s.cfg.FileMode)
}

// unitsBefore counts, for each queue, the messages before the log offset off.
func unitsBefore(queues []*consumequeue.Queue, off message.LogOffset) (map[*consumequeue.Queue]message.QueueOffset, error) {
	units := make(map[*consumequeue.Queue]message.QueueOffset, len(queues))
	for _, q := range queues {
		n, err := q.Before(off)
		if err != nil {
			return nil, err
		}
		units[q] = n
	}
	return units, nil
}
