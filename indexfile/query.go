package indexfile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pocketmq/pocketmq/message"
)

// Query returns the log offsets of records with that key and a store time in
// [begin, end] (ms), ascending: the newest maxNum, at most Config.MaxResults.
//
// match, which must be given, reads the record at an offset and says whether it
// really has topic and key, and when it was stored; false if it can not be read.
// It is called without any lock, at most once per entry. The search goes on until enough records
// match, so it may be called often for a key that many records share.
//
// Store times are taken to ascend with the log, to a second: a record stored
// while the clock was set back may be missed when begin and end are given.
//
// If a file can not be read the others are searched all the same, and what they
// gave comes with the error, which matches segment.ErrFault if the file was
// damaged from outside.
func (x *Index) Query(topic, key string, maxNum int, begin, end int64,
	match func(message.LogOffset) (storeTime int64, ok bool)) ([]message.LogOffset, error) {
	s := search{begin: begin, end: end, maxNum: min(maxNum, x.cfg.MaxResults), match: match}
	if key == "" || begin > end { // there is no empty key
		s.maxNum = 0
	}
	return x.run(&s, topic, key)
}

// Raw is RocketMQ's answer to a query.
type Raw struct {
	LogOffsets      []message.LogOffset // ascending
	UpdateTimestamp int64               // store time of the last record in the index
	UpdateLogOffset message.LogOffset   // its log offset
}

// QueryRaw answers as RocketMQ does: whatever record has a key of the same hash,
// once for each time it has it, with its store time taken down to the second.
//
// Source: RocketMQ store/index/IndexService.java, queryOffset.
func (x *Index) QueryRaw(topic, key string, maxNum int, begin, end int64) (Raw, error) {
	var raw Raw
	if last := x.last(); last != nil {
		h := last.header()
		raw.UpdateTimestamp, raw.UpdateLogOffset = h.EndTimestamp, h.EndLogOffset
	}
	s := search{begin: begin, end: end, maxNum: min(maxNum, x.cfg.MaxResults)}
	var err error
	raw.LogOffsets, err = x.run(&s, topic, key)
	return raw, err
}

// search is one query. Without match it is RocketMQ's.
type search struct {
	hash       int32
	begin, end int64 // ms
	maxNum     int
	match      func(message.LogOffset) (int64, bool)

	found []message.LogOffset // newest first
	last  message.LogOffset   // the last candidate
	buf   [entrySize]byte
}

func (x *Index) run(s *search, topic, key string) ([]message.LogOffset, error) {
	if x.closed.Load() {
		return nil, fmt.Errorf("index: %w", message.ErrClosed)
	}
	s.hash, s.last = KeyHash(topic, key), -1
	var errs []error
	for _, f := range slices.Backward(x.snapshot()) {
		if len(s.found) >= s.maxNum {
			break
		}
		h := f.header()
		if s.overlaps(h) {
			if err := s.file(f); err != nil && !errors.Is(err, errRemoved) {
				errs = append(errs, fmt.Errorf("query index %s: %w", f.path, err))
			}
		}
		if h.BeginTimestamp < s.begin {
			break
		}
	}
	slices.Sort(s.found)
	return s.found, errors.Join(errs...)
}

// overlaps reports whether the file may have a record of the time.
func (s *search) overlaps(h Header) bool {
	if h.Count <= 1 {
		return s.match != nil // the first entry may be on its way
	}
	last := h.EndTimestamp
	if s.match != nil {
		last = max(last, h.BeginTimestamp) // that of the last record may be damaged
	}
	return s.begin <= last && s.end >= h.BeginTimestamp
}

// file searches one file. It follows the chain of the slot, whose entries descend,
// so that a damaged one ends.
func (s *search) file(f *file) (err error) {
	if err := f.pin(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.unpin()) }()
	at, err := f.newest(s.hash, s.buf[:])
	if err != nil {
		return err
	}
	begin := f.beginTime.Load()
	for at > 0 && len(s.found) < s.maxNum {
		if err := f.read(at, s.buf[:]); err != nil {
			return err
		}
		e := entryAt(s.buf[:])
		if e.diff < 0 { // damage
			return nil
		}
		t := begin + 1000*int64(e.diff)
		if e.hash == s.hash && e.offset >= 0 && s.inTime(at, t) {
			s.take(e.offset)
		}
		if e.prev <= 0 || e.prev >= at || s.before(t) {
			return nil
		}
		at = e.prev
	}
	return nil
}

// inTime reports whether a record may be of the time; it was stored within the
// second that begins at t. Only RocketMQ is content with t itself. Of a file's
// first entry that RocketMQ wrote t can not be trusted.
func (s *search) inTime(at int32, t int64) bool {
	if s.match == nil {
		return s.begin <= t && t <= s.end
	}
	return at == 1 || s.begin <= t+999 && t <= s.end
}

// before reports whether everything older than t is too old.
func (s *search) before(t int64) bool {
	if s.match == nil {
		return t < s.begin
	}
	return t+999 < s.begin
}

// take adds a candidate that really is one.
func (s *search) take(off message.LogOffset) {
	if s.match == nil {
		s.found = append(s.found, off)
		return
	}
	if off == s.last { // the record has the key twice, or two of the same hash
		return
	}
	s.last = off
	if t, ok := s.match(off); ok && s.begin <= t && t <= s.end && !slices.Contains(s.found, off) {
		s.found = append(s.found, off)
	}
}
