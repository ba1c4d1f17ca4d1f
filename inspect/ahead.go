package inspect

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/message"
)

// ahead reads the log before a walk comes there, and does on another processor
// what needs nothing but the record itself. It knows sound records only: where
// something else lies it ends, and the walk looks for itself.
//
// The log is cut into stretches of bytes, which are read in parallel. Where the
// first record of one begins is known when the stretch before it has been gone
// through, from size to size, which is quick: then its records are checked, while
// they are still close to the processor. The walk takes the stretches in order, and
// instead of waiting for one it does the next itself. The stretches go round, so the
// memory needed is that of a few of them. Their bytes are gone by then, but for a walk
// that wants Views: two buffers that are always the same stay in the caches.
type ahead struct {
	files []File
	want  want

	running bool
	current *stretch
	next    int   // of current's records
	endedAt int64 // where it found nothing it knows

	own buffer // of the walk's goroutine

	all   [stretches]*stretch
	free  chan *stretch
	stop  chan struct{}
	ended sync.WaitGroup

	mu    sync.Mutex
	order []*stretch     // claimed and not taken by the walk
	pos   int64          // of the next stretch
	size  int            // of the next stretch
	begin chan beginning // of the next stretch
}

// Sizes of stretches: the first after a start is short, because there may be a
// start behind each of many damaged records. Slack is read behind a stretch, so
// that its last record is there when it is not larger.
const (
	stretchMin   = 64 << 10
	stretchMax   = 256 << 10
	stretchSlack = 4 << 10
	stretches    = 8
)

// want is what a walk looks at of records.
type want struct {
	views bool // itself, and not only facts
	keys  bool // hashes of keys
}

// stretch is a piece of the log.
type stretch struct {
	file     File
	pos, end int64
	begin    <-chan beginning
	follow   chan<- beginning

	*buffer        // that holds its bytes from pos on
	views   buffer // for Views

	start   int   // of the first record that begins here, in buf
	ends    []int // of these records, in buf
	checked []checked
	hashes  []int32 // of keys, those of all records
	topics  []byte  // that records have
	done    chan struct{}
}

// buffer is part of a log file.
type buffer struct {
	buf  []byte
	open *os.File
	path string // of the open one
}

// beginning says where the first record at or behind a place begins.
type beginning struct {
	pos   int64
	known bool // false: there is something else than records
}

// checked is a record as the workers have seen it. The walk need not look into
// the record, which lies in another processor's cache.
type checked struct {
	view  message.View // where wanted
	pos   int64
	size  int64
	sound bool // whole, at its own place, with a body that matches
	facts
}

// facts are what the walk wants to know of a record.
type facts struct {
	stored      int64 // StoreTimestamp
	queueOffset int64
	topic       []byte
	queueID     int32
	flag        message.SysFlag
	tags        int64   // tags code
	hashes      []int32 // of its keys

	// sameQueue: the record follows one of the same topic and queue, which was the
	// walk's last item.
	sameQueue bool
}

// of takes what is in the header of a record.
func (f *facts) of(v message.View, m *message.Marks) {
	f.stored, f.queueOffset, f.queueID, f.flag = v.StoreTimestamp(), int64(v.QueueOffset()), v.QueueID(), v.SysFlag()
	f.tags = delays.TagsCodeOf(v, m)
}

// factsOf are those of a record.
func factsOf(v message.View) facts {
	m := v.Marks()
	f := facts{topic: v.Topic()}
	f.of(v, &m)
	f.hashes = indexfile.AppendKeyHashes(nil, indexfile.TopicHash(f.topic), v, &m)
	return f
}

// at returns the record at pos, false if it is not sound, or no record. What it
// returned before is not valid any more.
func (a *ahead) at(pos int64) (*checked, bool) {
	if !a.running {
		if pos == a.endedAt {
			return nil, false
		}
		a.start(pos)
	}
	for a.next == len(a.current.checked) {
		if !a.advance() {
			return a.giveUp(pos)
		}
	}
	c := &a.current.checked[a.next]
	if !c.sound || c.pos != pos {
		if a.next == 0 && pos < c.pos { // before the blank that ends a file
			return nil, false
		}
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

func (a *ahead) start(pos int64) {
	a.running = true
	a.free, a.stop = make(chan *stretch, stretches), make(chan struct{})
	for i := range a.all {
		if a.all[i] == nil {
			a.all[i] = &stretch{}
		}
		if i > 0 {
			a.free <- a.all[i]
		}
	}
	a.current, a.next = a.all[0], 0
	a.current.checked = nil
	first := make(chan beginning, 1)
	first <- beginning{pos, true}
	a.order, a.pos, a.size, a.begin = nil, pos, stretchMin, first
	if runtime.GOMAXPROCS(0) > 1 {
		a.ended.Go(a.work)
	}
}

// close ends the goroutine. It is idempotent.
func (a *ahead) close() {
	if !a.running {
		return
	}
	close(a.stop)
	a.ended.Wait()
	a.own.close()
	for _, s := range a.all {
		s.views.close()
	}
	a.running, a.current, a.next, a.order = false, nil, 0, nil
}

// work does stretches until there are no more.
func (a *ahead) work() {
	var own buffer
	defer own.close()
	for {
		select {
		case s := <-a.free:
			if !a.claim(s) {
				a.free <- s
				return
			}
			s.fill(&own, a.want)
		case <-a.stop:
			return
		}
	}
}

// advance takes the next stretch. Until it is done it does later ones itself. The
// one that the walk is done with it keeps in hand, so that it never waits for one
// while none is claimed.
func (a *ahead) advance() bool {
	mine, more := a.current, true
	for {
		s := a.oldest()
		if more && mine != nil && (s == nil || !s.isDone()) {
			if more = a.claim(mine); more {
				mine.fill(&a.own, a.want)
				mine = nil
			}
			continue
		}
		if s == nil {
			return false
		}
		if mine != nil {
			a.free <- mine
		}
		free := a.free
		if !more || s.isDone() {
			free = nil
		}
		select {
		case <-s.done:
			a.take(s)
			return true
		case mine = <-free: // in place of what was given back
		}
	}
}

func (s *stretch) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// oldest is the first of the stretches that are claimed, nil if there is none.
func (a *ahead) oldest() *stretch {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.order) == 0 {
		return nil
	}
	return a.order[0]
}

// take makes s, the oldest one, the walk's.
func (a *ahead) take(s *stretch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.order = a.order[1:]
	a.current, a.next = s, 0
}

// claim makes s the next stretch of the log, which the caller must fill. It returns
// false when there is no more.
func (a *ahead) claim(s *stretch) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, ok := (&space{files: a.files}).find(a.pos)
	if !ok {
		return false
	}
	follow := make(chan beginning, 1)
	s.file, s.pos, s.end = f, a.pos, min(a.pos+int64(a.size), f.End())
	s.begin, s.follow, s.done = a.begin, follow, make(chan struct{})
	s.ends, s.checked, s.hashes, s.topics = s.ends[:0], s.checked[:0], s.hashes[:0], s.topics[:0]
	a.order = append(a.order, s)
	a.pos, a.begin = s.end, follow
	a.size = min(2*a.size, stretchMax)
	return true
}

// fill reads and checks the records that begin in the stretch, and says where the
// next one begins. The buffer is that of the goroutine.
func (s *stretch) fill(b *buffer, want want) {
	defer close(s.done)
	if want.views {
		b = &s.views
	}
	s.buffer, b.buf = b, b.buf[:0]
	s.follow <- s.read()
	s.check(want)
}

// read finds the records that begin in the stretch. Where it can not read it knows
// no more.
func (s *stretch) read() (next beginning) {
	var begin beginning
	select {
	case begin = <-s.begin:
		if !begin.known || begin.pos >= s.end { // nothing begins here
			return begin
		}
	default:
	}
	err := s.load(s.end + stretchSlack)
	if !begin.known {
		begin = <-s.begin
	}
	switch {
	case !begin.known || begin.pos >= s.end:
		return begin
	case err != nil:
		return beginning{}
	}
	return s.hop(begin.pos)
}

// load makes buf reach to the log offset end, as far as the file does.
func (s *stretch) load(end int64) error {
	if err := s.use(s.file.Path); err != nil {
		return err
	}
	have, want := len(s.buf), int(min(end, s.file.End())-s.pos)
	s.buf = slices.Grow(s.buf, want-have)[:want]
	n, err := s.open.ReadAt(s.buf[have:], s.pos+int64(have)-s.file.Base)
	s.buf = s.buf[:have+n]
	if err == io.EOF {
		err = nil
	}
	return err
}

// use makes the file the open one.
func (b *buffer) use(path string) error {
	if b.path == path {
		return nil
	}
	b.close()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	b.open, b.path = f, path
	return nil
}

func (b *buffer) close() {
	if b.open != nil {
		_ = b.open.Close()
	}
	b.open, b.path = nil, ""
}

// hop goes from record to record, from the one at pos to the first that begins
// behind the stretch.
func (s *stretch) hop(pos int64) beginning {
	s.start = int(pos - s.pos)
	for pos < s.end {
		at, left := int(pos-s.pos), s.file.End()-pos
		if at+message.BlankSize > len(s.buf) {
			return beginning{}
		}
		size := int64(int32(binary.BigEndian.Uint32(s.buf[at:])))
		switch binary.BigEndian.Uint32(s.buf[at+4:]) {
		case message.BlankMagic:
			return beginning{s.file.End(), true}
		case message.RecordMagic:
		default:
			return beginning{}
		}
		if size < message.MinRecordSize || size > left {
			return beginning{}
		}
		pos += size
		if pos-s.pos > int64(len(s.buf)) && (s.load(pos) != nil || pos-s.pos > int64(len(s.buf))) {
			return beginning{}
		}
		s.ends = append(s.ends, int(pos-s.pos))
	}
	return beginning{pos, true}
}

// check looks at the records, up to the first that is not sound.
func (s *stretch) check(want want) {
	s.checked = slices.Grow(s.checked, len(s.ends))[:len(s.ends)]
	var m message.Marks
	before := &checked{}
	topic := int32(0) // TopicHash of the record before
	at := s.start
	for i, end := range s.ends {
		v, kind, _ := message.ReadRecord(s.buf[at:end])
		c := &s.checked[i]
		c.pos, c.size = s.pos+int64(at), int64(end-at)
		c.sound = kind == message.KindRecord && int64(v.LogOffset()) == c.pos && v.Check() == nil
		if !c.sound {
			s.checked = s.checked[:i+1]
			return
		}
		m.Read(v)
		c.of(v, &m)
		sameTopic := i > 0 && bytes.Equal(v.Topic(), before.topic)
		if sameTopic {
			c.topic = before.topic
		} else {
			c.topic = s.keep(v.Topic())
			topic = indexfile.TopicHash(c.topic)
		}
		c.sameQueue = sameTopic && c.queueID == before.queueID
		if want.keys {
			n := len(s.hashes)
			s.hashes = indexfile.AppendKeyHashes(s.hashes, topic, v, &m)
			c.hashes = s.hashes[n:len(s.hashes):len(s.hashes)]
		}
		if want.views {
			c.view = v
		}
		before, at = c, end
	}
}

// keep copies a topic.
func (s *stretch) keep(topic []byte) []byte {
	n := len(s.topics)
	s.topics = append(s.topics, topic...)
	return s.topics[n:len(s.topics):len(s.topics)]
}
