package indexfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/pocketmq/pocketmq/message"
)

// Put adds the keys of a record: its unique key and the words of KEYS, under the
// topic that it is stored with. Records come in the order of the log. One before
// the last indexed is passed over; the last one again is completed where it was
// taken half. A rolled-back record has no keys here.
//
// A store time below 0, which only damage makes, counts as 0: a file whose header
// has one is not opened again.
//
// The entries are in the page cache on return: see Flush. An error matching
// segment.ErrNoSpace means a full disk. After any error the same call may be
// tried again.
//
// Source: RocketMQ store/index/IndexService.java, buildIndex.
func (x *Index) Put(r *message.DispatchRequest) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.put(r)
}

// TryPut is Put where no file has to be made and nobody else is at work on the
// index; else it does nothing and returns false.
func (x *Index) TryPut(r *message.DispatchRequest) (done bool, err error) {
	if !x.mu.TryLock() {
		return false, nil
	}
	defer x.mu.Unlock()
	most := int32(2 + bytes.Count(r.Keys, space)) // the unique key, and one more than there are spaces
	if x.writes == nil || x.writes.entries-x.writes.count.Load() <= most {
		return false, nil
	}
	return true, x.put(r)
}

// put does the work of Put. The caller holds mu.
func (x *Index) put(r *message.DispatchRequest) error {
	if x.closed.Load() {
		return fmt.Errorf("index: %w", message.ErrClosed)
	}
	off, end, last := r.LogOffset(), x.lastOffset(), x.last()
	if last == nil || off > end { // RocketMQ makes a file even for a record without keys
		if _, err := x.writable(); err != nil {
			return err
		}
	}
	if off >= end && r.SysFlag().Transaction() != message.TransactionRollback {
		if err := x.putKeys(r, last != nil && off == end); err != nil {
			return err
		}
	}
	if after := int64(off) + int64(r.Size()); after > x.next.Load() {
		x.next.Store(after)
	}
	return nil
}

func (x *Index) putKeys(r *message.DispatchRequest, again bool) error {
	ks := keysOf(r.Marks)
	if ks.none() {
		return nil
	}
	topic := topicHash(r.Topic())
	done := 0
	if again {
		var err error
		if done, err = x.indexed(r, topic); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	for key := ks.next(); key != nil; key = ks.next() {
		if done > 0 {
			done--
			continue
		}
		f, err := x.writable()
		if err != nil {
			return err
		}
		if err := f.insert(keyHash(topic, key), r.LogOffset(), max(0, r.StoreTimestamp())); err != nil {
			return err
		}
	}
	return nil
}

// indexed counts the keys of r that are there already: the last entries of the
// index point at it, and their hashes are those of its first keys. If they are
// those of other keys, the log was once cut and written anew, and none counts.
func (x *Index) indexed(r *message.DispatchRequest, topic int32) (int, error) {
	hashes, err := x.tail(r.LogOffset())
	if err != nil {
		return 0, err
	}
	ks := keysOf(r.Marks)
	for i, hash := range hashes {
		key := ks.next()
		if key == nil {
			return i, nil // RocketMQ may add the last record's keys twice
		}
		if keyHash(topic, key) != hash {
			return 0, nil
		}
	}
	return len(hashes), nil
}

// tail returns the hashes of the last entries that point at off, in their order.
func (x *Index) tail(off message.LogOffset) (hashes []int32, err error) {
	for _, f := range slices.Backward(x.snapshot()) {
		if int64(off) > f.endOffset.Load() {
			break
		}
		more, err := f.tail(off, &hashes)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	slices.Reverse(hashes)
	return hashes, nil
}

// tail adds the hashes of the file's last entries that point at off, the last
// one first. more says that all do, so that the file before may have others.
func (f *file) tail(off message.LogOffset, hashes *[]int32) (more bool, err error) {
	if err := f.pin(); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.unpin()) }()
	var buf [entrySize]byte
	for n := f.count.Load() - 1; n > 0; n-- {
		if err := f.read(n, buf[:]); err != nil {
			return false, err
		}
		e := entryAt(buf[:])
		if e.offset != off {
			return false, nil
		}
		*hashes = append(*hashes, e.hash)
	}
	return true, nil
}
