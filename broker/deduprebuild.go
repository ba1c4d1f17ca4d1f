package broker

import (
	"context"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// dedupScan is how much of the log is read at most when the window is made again,
// but for the rest of the file with which that begins.
const dedupScan = 1 << 30

// knownRecord is a record of the log that may be sent again.
type knownRecord struct {
	hash   uint64
	offset message.LogOffset
}

// rebuild fills the window from the end of the log: one file after the other,
// backwards, until it is full or what is left is too old.
func (d *dedup) rebuild(ctx context.Context) error {
	end := d.store.MaxOffset()
	stop := max(d.store.MinOffset(), end-dedupScan)
	if d.duration > 0 {
		stop = max(stop, d.store.OffsetByTime(d.now().Add(-d.duration).UnixMilli()))
	}
	most := len(d.recent.hashes)
	var files [][]knownRecord // the newest first
	for count := 0; end > stop && count < most; {
		start := d.store.FileStart(end - 1)
		records, err := d.scan(ctx, start, end, most)
		if err != nil {
			return fmt.Errorf("log from %d on, for messages that may be sent again: %w", start, err)
		}
		files = append(files, records)
		count += len(records)
		end = start
	}
	for i := len(files) - 1; i >= 0; i-- {
		for _, r := range files[i] {
			d.recent.add(r.hash, r.offset)
		}
	}
	return nil
}

// scan returns the last records, up to so many, of a part of the log that clients
// have sent.
func (d *dedup) scan(ctx context.Context, from, to message.LogOffset, most int) ([]knownRecord, error) {
	var records []knownRecord
	for v, err := range d.store.Records(ctx, from) {
		if err != nil {
			return nil, err
		}
		if v.LogOffset() >= to {
			break
		}
		if k, ok := keyOfRecord(string(v.Topic()), v.SysFlag(), message.Properties(v.Properties())); ok {
			records = append(records, knownRecord{k.hash, v.LogOffset()})
		}
		if len(records) >= 2*most {
			records = append(records[:0], records[len(records)-most:]...)
		}
	}
	return records[max(0, len(records)-most):], nil
}
