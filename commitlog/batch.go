package commitlog

import (
	"cmp"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// Batch is the records of a batch, encoded but for their place and time. It can
// be used again by Encode; it serves one goroutine at a time.
type Batch struct {
	records []byte
	starts  []int // of each record in records
	crc     bool  // the records have message.PropertyCRC32
}

// Encode makes the records for b: topic, queue, hosts, times and sysFlag of the
// batch; flag, body and properties of each element, with the batch's properties
// added. Each record's body must not be longer than maxBody, and all records
// together must not exceed maxSize bytes. host stands in for a zero StoreHost,
// and with crc each record gets message.PropertyCRC32. On an error b is empty.
// Nothing is allocated once b has been used for batches of that size.
//
// Source: RocketMQ store/CommitLog.java, MessageExtEncoder.encode(MessageExtBatch).
func (b *Batch) Encode(m *message.MessageExtBatch, host message.Host, maxBody, maxSize int, crc bool) error {
	b.records, b.starts, b.crc = b.records[:0], b.starts[:0], crc
	trailer := message.Trailer{Properties: m.Properties.WithoutCRC32(crc), CRC: crc}
	r := m.MessageExt
	if r.StoreHost == (message.Host{}) {
		r.StoreHost = host
	}
	for e, err := range message.BatchElements(m.Body) {
		if err == nil {
			r.Flag, r.Body = e.Flag, e.Body
			r.BodyCRC = message.BodyCRC(e.Body)
			r.PreparedTransactionOffset = 0
			r.Properties, err = legible(e.Properties.WithoutCRC32(crc))
			err = cmp.Or(err, r.Check(maxBody), r.CheckTrailer(trailer))
		}
		size := r.RecordSizeWith(trailer)
		if err == nil && len(b.records)+size > maxSize {
			err = &message.LimitError{Field: "batch (as records)", Limit: int64(maxSize), Value: int64(len(b.records) + size)}
		}
		if err != nil {
			n := len(b.starts)
			b.records, b.starts = b.records[:0], b.starts[:0]
			return fmt.Errorf("batch element %d: %w", n, err)
		}
		b.starts = append(b.starts, len(b.records))
		b.records = grow(b.records, size)
		r.PutRecordWith(b.records[len(b.records)-size:], trailer)
	}
	return nil
}

// Len is the number of records.
func (b *Batch) Len() int { return len(b.starts) }

// LogOffsets are the places of the records when the first is at first.
func (b *Batch) LogOffsets(first message.LogOffset) []message.LogOffset {
	offs := make([]message.LogOffset, len(b.starts))
	for i, s := range b.starts {
		offs[i] = first + message.LogOffset(s)
	}
	return offs
}

// record is one of the records.
func (b *Batch) record(i int) []byte {
	end := len(b.records)
	if i+1 < len(b.starts) {
		end = b.starts[i+1]
	}
	return b.records[b.starts[i]:end]
}

// place writes number, place and time into each record.
func (b *Batch) place(queueOffset message.QueueOffset, logOffset message.LogOffset, now int64) {
	for i, s := range b.starts {
		record := b.record(i)
		message.PlaceRecord(record, queueOffset+message.QueueOffset(i), logOffset+message.LogOffset(s), now)
		if b.crc {
			message.PutCRC32(record)
		}
	}
}

// grow lengthens b by n bytes of any content.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) < n {
		b = append(make([]byte, 0, 2*cap(b)+n), b...)
	}
	return b[:len(b)+n]
}
