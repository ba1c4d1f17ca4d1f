package store

import (
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
	// Index is the log offset before which everything is in the index, on disk.
	// IndexFiles are those that have entries.
	Index      message.LogOffset `json:"index"`
	IndexFiles []indexPoint      `json:"indexFiles,omitempty"`

	SegmentSize int64 `json:"segmentSize"`

	Queues []queuePoint `json:"queues"`
}

// lastRecord identifies the record before LogOffset.
type lastRecord struct {
	LogOffset      message.LogOffset `json:"logOffset"`
	Size           int               `json:"size"`
	Hash           uint64            `json:"hash"` // xxhash64 of its bytes
	StoreTimestamp int64             `json:"storeTimestamp"`
}

// queuePoint says which units of a queue are before LogOffset: [First, Max).
type queuePoint struct {
	Topic   string              `json:"topic"`
	QueueID int32               `json:"queueId"`
	First   message.QueueOffset `json:"first"`
	Max     message.QueueOffset `json:"max"`
}

// indexPoint names an index file and the log offset of its last record then.
type indexPoint struct {
	Name string            `json:"name"`
	End  message.LogOffset `json:"end"`
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

// holds reports whether the log still has the point's last record, and the
// queues still have all units before the point.
func (p recoveryPoint) holds(log *commitlog.Log, queues *consumequeue.Table) bool {
	if p.Last == (lastRecord{}) || identify(log, p.Last.LogOffset) != p.Last {
		return false
	}
	if p.LogOffset < p.Last.LogOffset+message.LogOffset(p.Last.Size) {
		return false
	}
	for _, qp := range p.Queues {
		q := consumequeue.Find(queues, qp.Topic, qp.QueueID)
		if q == nil || q.Max() < qp.Max {
			return false
		}
		if u, ok := q.At(qp.Max - 1); !ok || u.LogOffset >= p.LogOffset || u == (consumequeue.Unit{}) {
			return false
		}
		if first := q.First(); first > qp.First { // the log may have lost these as well
			if u, ok := q.At(first); !ok || u.LogOffset >= log.MinOffset() {
				return false
			}
		}
	}
	return true
}

// queuePoints counts, for each queue, the units that point before off.
func queuePoints(queues *consumequeue.Table, off message.LogOffset) []queuePoint {
	var points []queuePoint
	for _, q := range queues.All() {
		n := q.Max()
		for n > 0 {
			u, ok := q.At(n - 1)
			if ok && u.LogOffset < off {
				break
			}
			if !ok {
				n = 0
				break
			}
			n--
		}
		if n > 0 {
			points = append(points, queuePoint{q.Topic, q.ID, q.First(), n})
		}
	}
	return points
}
