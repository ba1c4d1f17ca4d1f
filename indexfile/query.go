package indexfile

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// Query says what is looked for, and how candidates are looked at.
type Query struct {
	Topic, Key string
	MaxNum     int   // the newest that many, at most Config.MaxResults
	Begin, End int64 // store times (ms), both included

	// Take reads the record at an offset and says whether it is one of those: because
	// it really has topic and key and was stored in time. It is called without any
	// lock, at most once per entry, and may be called often for a key that many records
	// share. A record that has the key more than once may come again.
	Take func(message.LogOffset) bool
	// Touch, if not nil, is told of a candidate before Take is, as soon as it is known:
	// what it loads is on its way while the search goes on. It is called under a guard
	// of the index file.
	Touch func(message.LogOffset)

	Now *segment.Clock // of who asks; nil means one of its own
}

// Query shows q.Take the log offsets of records that may have that key and a store
// time in [Begin, End], newest first, until it has taken MaxNum of them.
//
// Store times are taken to ascend with the log, to a second: a record stored
// while the clock was set back may be missed when Begin and End are given.
//
// If a file can not be read the others are searched all the same; the error then
// matches segment.ErrFault if the file was damaged from outside.
//
// Nothing is allocated once the newest files are open, which they stay.
func (x *Index) Query(q Query) error {
	var now segment.Clock
	s := search{begin: q.Begin, end: q.End, left: min(q.MaxNum, x.cfg.MaxResults), wanted: q.Take, approach: q.Touch, clock: q.Now}
	if s.clock == nil {
		s.clock = &now
	}
	if q.Key == "" || q.Begin > q.End { // there is no empty key
		s.left = 0
	}
	return x.run(&s, q.Topic, q.Key)
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
	s := search{begin: begin, end: end, left: min(maxNum, x.cfg.MaxResults), raw: true, clock: new(segment.Clock)}
	s.wanted = func(off message.LogOffset) bool {
		raw.LogOffsets = append(raw.LogOffsets, off)
		return true
	}
	err := x.run(&s, topic, key)
	slices.Sort(raw.LogOffsets)
	return raw, err
}

// search is one query.
type search struct {
	hash       int32
	begin, end int64 // ms
	raw        bool  // it is RocketMQ's
	left       int   // how many are still wanted
	wanted     func(message.LogOffset) bool
	approach   func(message.LogOffset) // may be nil

	last    message.LogOffset // the last candidate
	waiting [candidates]message.LogOffset
	waits   int // how many of them
	clock   *segment.Clock
}

// candidates is how many are found before the first is offered. A record is mostly
// further away than the rest of a chain: by then what was touched has come.
const candidates = 8

// keptFiles is how many of the newest files stay mapped once a query has looked into
// them. Others are opened by each query that does.
const keptFiles = 64

func (x *Index) run(s *search, topic, key string) error {
	if x.closed.Load() {
		return fmt.Errorf("index: %w", message.ErrClosed)
	}
	s.hash, s.last = KeyHash(topic, key), -1
	list := x.snapshot()
	firstKept := max(0, len(list)-keptFiles)
	var errs []error
	for i, touched := len(list)-1, len(list); i >= 0 && s.left > 0; i-- {
		f := list[i]
		if i < touched && i > firstKept {
			touched = max(firstKept, i+1-together)
			s.touch(list[touched : i+1])
		}
		h := f.header()
		if s.overlaps(h) {
			if err := s.file(f, i >= firstKept); err != nil && !errors.Is(err, errRemoved) {
				errs = append(errs, fmt.Errorf("query index %s: %w", f.path, err))
			}
		}
		if h.BeginTimestamp < s.begin {
			break
		}
	}
	if x.closed.Load() { // meanwhile: whoever kept a file after that has to let it go
		for _, f := range list {
			errs = append(errs, f.letGo())
		}
	}
	return errors.Join(errs...)
}

// overlaps reports whether the file may have a record of the time.
func (s *search) overlaps(h Header) bool {
	if h.Count <= 1 {
		return !s.raw // the first entry may be on its way
	}
	last := h.EndTimestamp
	if !s.raw {
		last = max(last, h.BeginTimestamp) // that of the last record may be damaged
	}
	return s.begin <= last && s.end >= h.BeginTimestamp
}

// file searches one file.
func (s *search) file(f *file, keep bool) (err error) {
	if keep {
		err = f.pinKept()
	} else {
		err = f.pin()
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.unpin()) }()
	err = s.follow(f)
	s.offer()
	return err
}

// follow goes along the chain of the slot, whose entries descend, so that a damaged one
// ends.
func (s *search) follow(f *file) (err error) {
	defer f.catch(debug.SetPanicOnFault(true), &err)
	at, err := f.newest(s.hash, s.clock)
	if err != nil {
		return err
	}
	begin := f.beginTime.Load()
	for at > 0 && s.left > 0 {
		e, err := f.entry(at, s.clock)
		if err != nil {
			return err
		}
		if e.diff < 0 { // damage
			return nil
		}
		t := begin + 1000*int64(e.diff)
		if e.hash == s.hash && e.offset >= 0 && s.inTime(at, t) {
			s.found(e.offset)
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
	if s.raw {
		return s.begin <= t && t <= s.end
	}
	return at == 1 || s.begin <= t+999 && t <= s.end
}

// before reports whether everything older than t is too old.
func (s *search) before(t int64) bool {
	if s.raw {
		return t < s.begin
	}
	return t+999 < s.begin
}

// found notes a candidate. Right after itself it is a record that has the key twice,
// or two of the same hash.
func (s *search) found(off message.LogOffset) {
	if !s.raw && off == s.last {
		return
	}
	s.last = off
	if s.approach != nil {
		s.approach(off)
	}
	s.waiting[s.waits] = off
	s.waits++
	if s.waits == min(s.left, candidates) { // no more than are wanted
		s.offer()
	}
}

// offer lets those that wait be taken.
func (s *search) offer() {
	for _, off := range s.waiting[:s.waits] {
		if s.wanted(off) {
			s.left--
		}
	}
	s.waits = 0
}
