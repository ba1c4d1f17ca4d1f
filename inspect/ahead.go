package inspect

import (
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/message"
)

// ahead reads the log before a walk comes there, and does on other processors
// what needs nothing but the record itself. It knows sound records only: where
// something else lies it ends, and the walk looks for itself.
//
// A reader goroutine fills stretches with whole records, workers check them, and
// the walk takes them in order. The buffers go round, so the memory needed is
// that of a few stretches.
type ahead struct {
	files []File
	keys  bool // whether key hashes are wanted

	current *stretch
	next    int // of current's records
	ordered chan *stretch
	free    chan *stretch
	stop    chan struct{}
	ended   sync.WaitGroup

	endedAt int64 // where it found nothing it knows
}

// Sizes of stretches: the first after a start is short, because there may be a
// start behind each of many damaged records.
const (
	stretchMin = 64 << 10
	stretchMax = 256 << 10
	stretches  = 6
)

// stretch is a piece of the log that begins with a record and holds whole ones.
type stretch struct {
	pos     int64
	buf     []byte
	ends    []int // of the records in buf
	checked []checked
	hashes  []int32 // of keys, those of all records
	done    chan struct{}
}

// checked is a record as the workers have seen it.
type checked struct {
	view   message.View
	sound  bool // whole, at its own place, with a body that matches
	tags   int64
	hashes []int32 // of its keys
}

// at returns the record at pos, false if it is not sound, or no record. What it
// returned before is not valid any more.
func (a *ahead) at(pos int64) (*checked, bool) {
	if a.ordered == nil {
		if pos == a.endedAt {
			return nil, false
		}
		a.start(pos)
	}
	for a.current == nil || a.next == len(a.current.checked) {
		if !a.advance() {
			return a.giveUp(pos)
		}
	}
	if a.next == 0 && pos < a.current.pos { // before the blank that ends a file
		return nil, false
	}
	c := &a.current.checked[a.next]
	if !c.sound || int64(c.view.LogOffset()) != pos {
		return a.giveUp(pos)
	}
	a.next++
	return c, true
}

// giveUp ends what runs: the walk goes on for itself at pos.
func (a *ahead) giveUp(pos int64) (*checked, bool) {
	a.close()
	a.endedAt = pos
	return nil, false
}

// advance takes the next stretch.
func (a *ahead) advance() bool {
	if a.current != nil {
		a.free <- a.current
		a.current = nil
	}
	s, ok := <-a.ordered
	if !ok {
		return false
	}
	<-s.done
	a.current, a.next = s, 0
	return true
}

func (a *ahead) start(pos int64) {
	a.ordered, a.free, a.stop = make(chan *stretch, stretches), make(chan *stretch, stretches), make(chan struct{})
	for range stretches {
		a.free <- &stretch{}
	}
	work := make(chan *stretch, stretches)
	a.ended.Go(func() {
		defer close(a.ordered)
		defer close(work)
		r := reader{ahead: a, pos: pos, size: stretchMin}
		defer r.close()
		r.run(work)
	})
	for range min(2, runtime.GOMAXPROCS(0)) {
		a.ended.Go(func() {
			for s := range work {
				s.check(a.keys)
				close(s.done)
			}
		})
	}
}

// close ends the goroutines. It is idempotent.
func (a *ahead) close() {
	if a.ordered == nil {
		return
	}
	close(a.stop)
	for range a.ordered { // the reader may wait for room
		continue
	}
	a.ended.Wait()
	a.ordered, a.current, a.next = nil, nil, 0
}

// reader fills stretches.
type reader struct {
	*ahead

	pos  int64
	size int // of the next stretch
	open *os.File
	path string
}

func (r *reader) close() {
	if r.open != nil {
		_ = r.open.Close()
	}
}

// run reads until it meets something that is neither record nor blank.
func (r *reader) run(work chan<- *stretch) {
	for {
		var s *stretch
		select {
		case s = <-r.free:
		case <-r.stop:
			return
		}
		more, err := r.fill(s)
		if len(s.ends) > 0 && err == nil {
			s.done = make(chan struct{})
			work <- s
			r.ordered <- s
			s = nil
		}
		if !more || err != nil {
			return
		}
		if s != nil {
			r.free <- s
		}
		r.size = min(2*r.size, stretchMax)
	}
}

// fill reads the records at r.pos, as many as there is room for, and reports
// whether the log may go on behind them.
func (r *reader) fill(s *stretch) (more bool, err error) {
	s.pos, s.ends, s.buf = r.pos, s.ends[:0], s.buf[:0]
	f, ok := (&space{files: r.files}).find(r.pos)
	if !ok {
		return false, nil
	}
	if r.path != f.Path {
		r.close()
		if r.open, err = os.Open(f.Path); err != nil {
			r.open, r.path = nil, ""
			return false, err
		}
		r.path = f.Path
	}
	want := r.size
	for {
		if err := s.read(r.open, r.pos-f.Base, int(min(int64(want), f.End()-r.pos))); err != nil {
			return false, err
		}
		kind, size := s.hop(f.End() - r.pos)
		if len(s.ends) > 0 {
			r.pos += int64(s.ends[len(s.ends)-1])
		}
		switch {
		case kind == message.KindBlank:
			r.pos = f.End()
			return true, nil
		case kind == message.KindDamaged:
			return false, nil
		case len(s.ends) > 0:
			return true, nil
		case len(s.buf) < size && len(s.buf) < want: // the file has become shorter
			return false, nil
		}
		want = size
	}
}

func (s *stretch) read(f *os.File, at int64, n int) error {
	if cap(s.buf) < n {
		s.buf = make([]byte, n)
	}
	n, err := f.ReadAt(s.buf[:n], at)
	s.buf = s.buf[:n]
	if err == io.EOF {
		err = nil
	}
	return err
}

// hop goes from record to record in s.buf, whose file has so many bytes left. It
// returns KindRecord where the next one does not lie in buf as a whole, with its
// size; KindBlank before a blank; KindDamaged before anything else.
func (s *stretch) hop(left int64) (message.Kind, int) {
	at := 0
	for {
		if int64(at)+message.BlankSize > left {
			return message.KindDamaged, 0
		}
		if at+message.BlankSize > len(s.buf) {
			return message.KindRecord, message.BlankSize
		}
		size := int64(int32(binary.BigEndian.Uint32(s.buf[at:])))
		switch binary.BigEndian.Uint32(s.buf[at+4:]) {
		case message.BlankMagic:
			return message.KindBlank, 0
		case message.RecordMagic:
		default:
			return message.KindDamaged, 0
		}
		if size < message.MinRecordSize || size > left-int64(at) {
			return message.KindDamaged, 0
		}
		if int64(at)+size > int64(len(s.buf)) {
			return message.KindRecord, int(size)
		}
		at += int(size)
		s.ends = append(s.ends, at)
	}
}

// check looks at the records, up to the first that is not sound.
func (s *stretch) check(keys bool) {
	s.checked, s.hashes = s.checked[:0], s.hashes[:0]
	at := 0
	for _, end := range s.ends {
		v, kind, _ := message.ReadRecord(s.buf[at:end])
		c := checked{view: v}
		c.sound = kind == message.KindRecord && int64(v.LogOffset()) == s.pos+int64(at) && v.Check() == nil
		if !c.sound {
			s.checked = append(s.checked, checked{})
			return
		}
		c.tags = delays.TagsCode(v)
		if keys {
			n := len(s.hashes)
			s.hashes = indexfile.AppendKeyHashes(s.hashes, v)
			c.hashes = s.hashes[n:len(s.hashes):len(s.hashes)]
		}
		s.checked = append(s.checked, c)
		at = end
	}
}
