package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"time"

	"github.com/pocketmq/pocketmq"
)

// digest sums up the messages of a queue in their order.
type digest struct {
	messages, bytes int64
	hash            hash.Hash
	buf             []byte
}

// add adds a message: its tag and its body, each after its length.
func (d *digest) add(m *pocketmq.Message) {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	d.messages++
	d.bytes += int64(len(m.Body))
	d.buf = binary.AppendUvarint(d.buf[:0], uint64(len(m.Tags())))
	d.buf = append(d.buf, m.Tags()...)
	d.buf = binary.AppendUvarint(d.buf, uint64(len(m.Body)))
	d.buf = append(d.buf, m.Body...)
	d.hash.Write(d.buf)
}

func (d *digest) sum() []byte {
	if d.hash == nil {
		return nil
	}
	return d.hash.Sum(nil)
}

// verdict is what to say of a queue that came back as it was sent.
func (d *digest) verdict() string {
	if d.messages == 0 {
		return "no messages"
	}
	return fmt.Sprintf("%d messages, SHA-256 of tags and bodies in order %x: equal", d.messages, d.sum())
}

// digests are those of all queues.
type digests [queues]digest

func (d *digests) count() (n int64) {
	for q := range d {
		n += d[q].messages
	}
	return n
}

// nextBatch is how many messages to send next: what a queue has on average. So
// no queue gets far ahead of the others, and batches soon are as large as they
// may be.
func (d *digests) nextBatch() int { return int(min(max(1, d.count()/queues), batchSize)) }

// rate is how much there was, and how fast.
func (d *digests) rate(took time.Duration) string {
	var size int64
	for q := range d {
		size += d[q].bytes
	}
	seconds := took.Seconds()
	return fmt.Sprintf("%d messages, %.1f MB in %.1f s: %.0f messages/s, %.1f MB/s",
		d.count(), float64(size)/1e6, seconds, float64(d.count())/seconds, float64(size)/1e6/seconds)
}

// compare says in which queue something else came back than was sent.
func compare(sent, received *digests) error {
	for q := range sent {
		s, r := &sent[q], &received[q]
		if s.messages != r.messages || !bytes.Equal(s.sum(), r.sum()) {
			return fmt.Errorf("queue %d: sent %d messages with checksum %x, got %d with %x", q, s.messages, s.sum(), r.messages, r.sum())
		}
	}
	return nil
}
