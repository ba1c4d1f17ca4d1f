package commitlog

import (
	"fmt"
	"runtime/debug"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// Scan calls visit for every sound record in [from, to), in log order; both are
// ends of records. It implements dispatcher.Source. An unreadable range is
// reported to Config.Damaged once, and passed over. The checksum of bodies is
// not compared. The request and its memory are valid during the call of visit.
//
// Scan stops at the first error of visit and returns it with the position of
// the record that it was given. It fails with an error matching
// message.ErrOffsetNotFound when from is not in the log.
func (l *Log) Scan(from, to message.LogOffset, visit func(*message.DispatchRequest) error) (message.LogOffset, error) {
	s := scan{log: l, pos: int64(from), to: int64(to), visit: visit}
	for s.pos < s.to {
		f := l.files.Acquire(s.pos)
		if f == nil {
			return message.LogOffset(s.pos), fmt.Errorf("commit log: offset %d: %w", s.pos, message.ErrOffsetNotFound)
		}
		if err := s.file(f); err != nil {
			return message.LogOffset(s.pos), err
		}
	}
	return message.LogOffset(s.pos), nil
}

type scan struct {
	log     *Log
	pos, to int64
	times   [2]int64 // store timestamps of the last two sound records, of which one may be damaged
	visit   func(*message.DispatchRequest) error
	request message.DispatchRequest
}

// file goes on from s.pos to the end of f, or to s.to, and unpins f, whatever
// visit does.
func (s *scan) file(f *segment.File) (err error) {
	defer f.Unpin()
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	end := min(f.Base()+f.Size(), s.to)
	b := f.Bytes()[:end-f.Base()]
	resident := s.pos
	for s.pos < end {
		resident = s.log.warm(f, s.pos, resident, end, new(segment.Clock))
		v, kind, damage := message.ReadRecord(b[s.pos-f.Base():])
		switch {
		case kind == message.KindRecord && int64(v.LogOffset()) == s.pos:
			s.request.Read(v, s.log.cfg.DelayLevels)
			if err := s.visit(&s.request); err != nil {
				return err
			}
			s.times = [2]int64{s.times[1], v.StoreTimestamp()}
			s.pos += int64(v.Size())
		case kind == message.KindBlank:
			s.pos = f.Base() + f.Size()
		default:
			s.pass(f, damageOf(kind, v, damage))
		}
	}
	return nil
}

// pass moves over what is unreadable at s.pos: to the next sound record, else
// to the end of the scan, which is the end of a record.
func (s *scan) pass(f *segment.File, why error) {
	if end, ok := s.log.knownDamage(s.pos); ok {
		s.pos = end
		return
	}
	next, ok := s.log.nextRecord(s.pos, s.to, min(s.times[0], s.times[1]))
	if !ok {
		next = s.to
	}
	s.log.addDamage(Damage{From: message.LogOffset(s.pos), To: message.LogOffset(next), File: f.Path(), Err: why})
	s.pos = next
}

// damageOf says why what lies at a position is no record of this log.
func damageOf(kind message.Kind, v message.View, err error) error {
	switch kind {
	case message.KindRecord:
		return fmt.Errorf("%w: a record that was written for offset %d", message.ErrCorrupt, v.LogOffset())
	case message.KindBlank:
		return fmt.Errorf("%w: the file behind this one is missing", message.ErrCorrupt)
	case message.KindNothing:
		return fmt.Errorf("%w: zeros where a record should be", message.ErrCorrupt)
	}
	return err
}

func searchFile(f *segment.File, from, to, notBefore int64) (pos int64, ok bool, err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	pos, ok = search(f.Bytes()[:to], f.Base(), from, notBefore)
	return pos, ok, nil
}
