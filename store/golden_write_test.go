package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// form says in which form the recorded messages are put.
type form int

const (
	// asGiven puts what RocketMQ was given. A delayed message is parked by
	// PocketMQ's code, as a broker does.
	asGiven form = iota
	// asStored puts what RocketMQ's store made of it.
	asStored
)

// recording is a store that RocketMQ wrote.
type recording struct {
	name   string // case, or case/group
	config golden.Config
	puts   []golden.Put
	log    *golden.Log // what was written; nil where it was not kept
	end    int64       // of the log

	indexFiles []golden.IndexState // as RocketMQ saw them, nil where it had changed them since
}

// step is one put of a recording, and what must come of it.
type step struct {
	put    *golden.Put // nil for a message that RocketMQ's delay service put
	msg    message.MessageExtBrokerInner
	batch  bool
	time   int64 // of the clock
	status string
	id     string // of the difference, if status is not RocketMQ's
	aside  bool   // RocketMQ refused it: it goes into another store
	placement
}

// placement says where the records of a put are.
type placement struct {
	offsets     []int64
	queueOffset int64
	bytes       int
}

func (s *step) stored() bool { return s.status == "PUT_OK" }

// steps lists what is to be put, in order.
func (rec recording) steps(t *testing.T, f form) []*step {
	t.Helper()
	levels, err := message.ParseDelayLevels(message.DefaultDelayLevels)
	if err != nil {
		t.Fatal(err)
	}
	var all []*step
	var end int64
	for i := range rec.puts {
		p := &rec.puts[i]
		msg, err := p.Message()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case p.Batch():
		case f == asStored:
			msg.Topic, msg.QueueID = p.Stored.Topic, p.Stored.QueueID
			msg.SysFlag, msg.Properties = message.SysFlag(p.Stored.SysFlag), message.Properties(p.Stored.PropertiesString)
		case p.Delayed():
			if _, there := msg.Properties.Get(message.PropertyWait); there {
				t.Fatalf("put %d: no broker gives a store the text of WAIT", p.N)
			}
			if msg, err = levels.Park(msg); err != nil {
				t.Fatal(err)
			}
		}
		s := &step{put: p, msg: msg, batch: p.Batch(), time: p.Result.StoreTimestamp}
		s.status, s.id, s.aside = rec.verdict(p)
		all = append(all, s)
		end = max(end, p.Result.WroteOffset+int64(p.Result.WroteBytes))
	}
	return append(all, rec.deliveries(end)...)
}

// deliveries are the records beyond all puts: what the delay service put.
func (rec recording) deliveries(from int64) []*step {
	if rec.log == nil {
		return nil
	}
	var all []*step
	for _, f := range rec.log.Walk() {
		if f.Kind == message.KindRecord && f.Offset >= from && f.Offset < rec.end {
			m := f.View.Message()
			all = append(all, &step{msg: message.MessageExtBrokerInner{MessageExt: m}, time: m.StoreTimestamp, status: "PUT_OK"})
		}
	}
	return all
}

// verdict is the status that PocketMQ gives to a put, and the difference that
// is the reason where RocketMQ gave another.
func (rec recording) verdict(p *golden.Put) (status, id string, aside bool) {
	res := p.Result
	illegal := store.PutMessageIllegal.String()
	switch tooLong := len(p.PropertiesString) > message.MaxPropertiesLength; {
	case res.PutStatus == "PUT_OK" && *res.AppendStatus == "END_OF_FILE":
		return illegal, "F26", false
	case res.PutStatus == "PUT_OK" && res.WroteBytes == 0:
		return illegal, "G-EMPTY-BATCH", false
	case res.PutStatus == "PUT_OK" && len(p.Topic) > message.MaxTopicLength:
		return illegal, "F25", false
	case res.Exception != "" && tooLong:
		return store.PutPropertiesSizeExceeded.String(), "F39", false
	case (res.Exception != "" || res.PutStatus == illegal) && rec.limitsBody(p):
		return "PUT_OK", "F5", true
	}
	return res.PutStatus, "", false
}

// limitsBody reports whether only the record of a put is above maxMessageSize,
// and not its body.
func (rec recording) limitsBody(p *golden.Put) bool {
	m, err := p.Message()
	if err != nil || len(m.Body) > rec.config.MaxMessageSize {
		return false
	}
	size := m.RecordSize()
	if p.Batch() {
		size = len(m.Body) + len(p.Elements)*message.MinRecordSize
	}
	return size > rec.config.MaxMessageSize
}

// clock is set to the time of each put.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func (c *clock) set(ms int64) {
	if ms > 0 { // a refused put has no time
		c.ms.Store(ms)
	}
}

// openAs opens a directory with the sizes of a recording.
func openAs(t *testing.T, dir string, config golden.Config, c *clock) *store.DefaultMessageStore {
	t.Helper()
	flush := store.FlushAsync
	if config.FlushDiskType == "SYNC_FLUSH" {
		flush = store.FlushSync
	}
	maxBody := config.MaxMessageSize
	if int64(maxBody) > config.MappedFileSizeCommitLog {
		maxBody = 0 // as much as a file holds
	}
	s, err := store.Open(t.Context(), dir, store.Config{
		Flush: flush, FlushTimeout: 10 * time.Minute, // for a busy machine
		SegmentSize: config.MappedFileSizeCommitLog, ConsumeQueueFileSize: config.MappedFileSizeConsumeQueue,
		MaxBodySize: maxBody, IndexSlots: int32(config.MaxHashSlotNum), IndexEntries: int32(config.MaxIndexNum), Now: c.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// testWrite puts what RocketMQ was given and wants the same results and bytes.
func (r *goldenRun) testWrite(t *testing.T, c *golden.Case, f form) {
	dir := t.TempDir()
	if err := c.Unpack(golden.StoreArchive, dir); err != nil {
		t.Fatal(err)
	}
	r.write(t, r.caseRecording(t, c, dir), f)
}

// caseRecording is the case's own store, unpacked in dir.
func (r *goldenRun) caseRecording(t *testing.T, c *golden.Case, dir string) recording {
	t.Helper()
	state := c.Live
	if state == nil {
		state = c.Reopened.AfterStart
	}
	return newRecording(t, readSet{name: c.Case, config: c.Config, puts: c.Puts, state: state, live: c.Live != nil}, dir)
}

func newRecording(t *testing.T, s readSet, dir string) recording {
	t.Helper()
	log, err := golden.ReadLog(dir, s.config.MappedFileSizeCommitLog)
	if err != nil {
		t.Fatal(err)
	}
	rec := recording{name: s.name, config: s.config, puts: s.puts, log: log, end: s.state.MaxPhyOffset}
	if s.live {
		rec.indexFiles = s.state.IndexFiles
	}
	return rec
}

// write puts a recording into a new store, and returns its directory.
func (r *goldenRun) write(t *testing.T, rec recording, f form) (dir string) {
	t.Helper()
	steps := rec.steps(t, f)
	im := newImage(rec.config)
	if err := im.build(steps); err != nil {
		t.Fatal(err)
	}
	var now clock
	dir = t.TempDir()
	s := openAs(t, dir, rec.config, &now)
	for _, st := range steps {
		now.set(st.time)
		switch {
		case rec.outside(st):
			if f == asGiven {
				r.outside.add(rec.name+"/flags puts", 1)
			}
		case st.aside:
			r.putAside(t, rec, st)
		default:
			r.done.add("puts", 1)
			r.differsBy(t, st)
			res, err := put(t.Context(), s, st)
			if problem := st.check(res, err, rec.shifted()); problem != "" {
				t.Errorf("%s: %s", st.title(), problem)
			}
		}
	}
	shutdown(t, s)
	files, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, "written", logAndQueues(files), im.files)
	sameIndex(t, "written", indexOf(files), im.index.files)
	return dir
}

// outside reports whether RocketMQ refused the put because of something that
// was done to it by hand.
func (rec recording) outside(s *step) bool {
	return rec.name == "statuses" && s.put != nil &&
		slices.Contains([]string{"SERVICE_NOT_AVAILABLE", "OS_PAGECACHE_BUSY"}, s.put.Result.PutStatus)
}

// shifted reports whether the records lie elsewhere than RocketMQ's, because
// some that it wrote are refused.
func (rec recording) shifted() bool {
	return rec.name == "topic_utf8_overlong" || rec.name == "statuses/bigger_than_file"
}

func (r *goldenRun) differsBy(t *testing.T, s *step) {
	t.Helper()
	if s.id != "" {
		r.differs(t, s.id)
	}
}

// putAside puts what RocketMQ refused and PocketMQ takes into a store of its
// own, so that the log of the recording stays the same.
func (r *goldenRun) putAside(t *testing.T, rec recording, st *step) {
	t.Helper()
	r.done.add("puts", 1)
	r.differsBy(t, st)
	var now clock
	now.set(1)
	s := openAs(t, t.TempDir(), rec.config, &now)
	res, err := put(t.Context(), s, st)
	if err != nil || res.Status != store.PutOK || res.Bytes <= rec.config.MaxMessageSize {
		t.Errorf("%s: %s with %d bytes, %v", st.title(), res.Status, res.Bytes, err)
	}
	shutdown(t, s)
}

func put(ctx context.Context, s *store.DefaultMessageStore, st *step) (store.PutMessageResult, error) {
	if st.batch {
		return s.PutMessages(ctx, &message.MessageExtBatch{MessageExtBrokerInner: st.msg})
	}
	return s.PutMessage(ctx, &st.msg)
}

func shutdown(t *testing.T, s *store.DefaultMessageStore) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}

func (s *step) title() string {
	if s.put == nil {
		return fmt.Sprintf("message delivered at %d", s.msg.LogOffset)
	}
	return fmt.Sprintf("put %d (difference %q)", s.put.N, s.id)
}

// check compares the result with what the format demands and, where the
// recording lies at the same place, with RocketMQ's.
func (s *step) check(res store.PutMessageResult, err error, shifted bool) string {
	if res.Status.String() != s.status {
		return fmt.Sprintf("status %s (%v), want %s", res.Status, err, s.status)
	}
	if !s.stored() {
		if err == nil || res.MessageID() != "" || !errors.Is(err, message.ErrLimit) && !errors.Is(err, message.ErrIllegal) {
			return fmt.Sprintf("refused with %+v, error %v", res, err)
		}
		return ""
	}
	var offsets []int64
	for _, off := range res.Offsets {
		offsets = append(offsets, int64(off))
	}
	if !s.batch {
		offsets = []int64{int64(res.LogOffset)}
	}
	got := placement{offsets, int64(res.QueueOffset), res.Bytes}
	switch {
	case err != nil:
		return err.Error()
	case !slices.Equal(got.offsets, s.offsets) || got.queueOffset != s.queueOffset || got.bytes != s.bytes ||
		int64(res.LogOffset) != s.offsets[0] || res.Count != len(s.offsets) || res.StoreTimestamp != s.time:
		return fmt.Sprintf("placed at %+v, want %+v at %d", res, s.placement, s.time)
	case s.put != nil && !shifted:
		return s.checkRocket(res)
	}
	return ""
}

func (s *step) checkRocket(res store.PutMessageResult) string {
	want := s.put.Result
	if int64(res.LogOffset) != want.WroteOffset || int64(res.QueueOffset) != want.LogicsOffset || res.Count != want.MsgNum ||
		res.StoreTimestamp != want.StoreTimestamp || res.MessageID() != *want.MsgID {
		return fmt.Sprintf("%+v, id %s, but RocketMQ says %+v, id %s", res, res.MessageID(), want, *want.MsgID)
	}
	if res.Bytes != want.WroteBytes && !s.parkedWithWait() {
		return fmt.Sprintf("%d bytes, RocketMQ wrote %d", res.Bytes, want.WroteBytes)
	}
	return ""
}

// parkedWithWait reports whether RocketMQ stored WAIT with a delayed message,
// which PocketMQ does not get to see.
func (s *step) parkedWithWait() bool {
	if s.put == nil || !s.put.Delayed() {
		return false
	}
	_, given := s.msg.Properties.Get(message.PropertyWait)
	_, stored := message.Properties(s.put.Stored.PropertiesString).Get(message.PropertyWait)
	return stored && !given
}

// groupParts lists the tests of a group.
func (r *goldenRun) groupParts(c *golden.Case, g *golden.Group) []goldenPart {
	name := c.Case + "/" + g.Group
	for _, o := range outOfScope {
		if o.name == name {
			return []goldenPart{{g.Group + "/outside", func(*testing.T) {
				r.outside.add(name+" puts", len(g.Puts))
				if len(g.Reads) > 0 {
					r.outside.add(name+" reads", len(g.Reads))
				}
			}}}
		}
	}
	switch g.Group {
	case "after_shutdown":
		return []goldenPart{{g.Group, func(t *testing.T) { r.testAfterShutdown(t, g) }}}
	case "create_mapped_file_failed":
		return []goldenPart{{g.Group, func(t *testing.T) { r.testNoNextFile(t, g) }}}
	case "flush_disk_timeout":
		return []goldenPart{{g.Group, func(t *testing.T) { r.testFlushTimeout(t, g) }}}
	}
	if name == removing {
		return []goldenPart{{g.Group, func(t *testing.T) { r.testRemoving(t, g) }}}
	}
	return []goldenPart{
		{g.Group + "/open", func(t *testing.T) { r.testOpenGroup(t, c, g) }},
		{g.Group + "/write", func(t *testing.T) { r.testWriteGroup(t, c, g, asGiven) }},
	}
}

func (r *goldenRun) testWriteGroup(t *testing.T, c *golden.Case, g *golden.Group, f form) {
	for _, s := range readSets(c) {
		if s.name == c.Case+"/"+g.Group {
			dir := t.TempDir()
			if err := c.Unpack(s.archive, dir); err != nil {
				t.Fatal(err)
			}
			r.write(t, newRecording(t, s, dir), f)
			return
		}
	}
	t.Fatalf("group %s was not kept", g.Group)
}

// testAfterShutdown puts and gets after a shutdown.
func (r *goldenRun) testAfterShutdown(t *testing.T, g *golden.Group) {
	var now clock
	s := openAs(t, t.TempDir(), g.Config, &now)
	for i, st := range (recording{puts: g.Puts}).steps(t, asGiven) {
		r.done.add("puts", 1)
		if i == 1 {
			shutdown(t, s)
		}
		now.set(st.time)
		res, err := put(t.Context(), s, st)
		if res.Status.String() != st.status || (err == nil) != st.stored() || err != nil && !errors.Is(err, message.ErrClosed) {
			t.Errorf("%s: %s, %v", st.title(), res.Status, err)
		}
	}
	if string(g.GetMessageAfterShutdown) != "null" {
		t.Errorf("RocketMQ answers %s", g.GetMessageAfterShutdown)
	}
	res, err := s.GetMessage(t.Context(), store.GetQuery{Group: "golden_group", Topic: "Ok", MaxCount: 1})
	if res != nil || !errors.Is(err, message.ErrClosed) {
		t.Errorf("get after shutdown: %v, %v", res, err)
	}
}

// testNoNextFile puts until a directory is in the way of the next file.
func (r *goldenRun) testNoNextFile(t *testing.T, g *golden.Group) {
	var now clock
	dir := t.TempDir()
	s := openAs(t, dir, g.Config, &now)
	inTheWay := filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 2*g.Config.MappedFileSizeCommitLog))
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	steps := recording{puts: g.Puts}.steps(t, asGiven)
	last := steps[len(steps)-1]
	last.status, last.id = "PUT_OK", "G-NO-NEXT-FILE" // a small one, which still fits
	for _, st := range steps[:len(steps)-1] {
		last.time = max(last.time, st.time)
	}
	more := *steps[0] // put when the way is free: the blank comes then
	more.time = last.time
	im := newImage(g.Config)
	if err := im.build(append(slices.Clone(steps), &more)); err != nil {
		t.Fatal(err)
	}
	for _, st := range steps {
		r.done.add("puts", 1)
		r.differsBy(t, st)
		now.set(st.time)
		res, err := put(t.Context(), s, st)
		switch {
		case res.Status.String() != st.status || (err == nil) != st.stored():
			t.Errorf("%s: %s, %v, want %s", st.title(), res.Status, err, st.status)
		case st.stored() && (int64(res.LogOffset) != st.offsets[0] || int64(res.QueueOffset) != st.queueOffset):
			t.Errorf("%s: placed at %+v, want %+v", st.title(), res, st.placement)
		}
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if res, err := put(t.Context(), s, &more); err != nil || int64(res.LogOffset) != more.offsets[0] {
		t.Errorf("with the way free: placed at %+v, %v, want %+v", res, err, more.placement)
	}
	shutdown(t, s)
	files, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, "written", logAndQueues(files), im.files)
	sameIndex(t, "written", indexOf(files), im.index.files)
}

// testFlushTimeout puts with a time limit that no sync keeps. RocketMQ's was 0,
// which most of its syncs did not keep; here they are made to wait.
func (r *goldenRun) testFlushTimeout(t *testing.T, g *golden.Group) {
	var now clock
	steps := recording{puts: g.Puts}.steps(t, asGiven)
	now.set(steps[0].time)
	cfg, dir, release := store.HeldSyncs(t, store.Config{
		Flush: store.FlushSync, FlushTimeout: 1, SegmentSize: g.Config.MappedFileSizeCommitLog,
		ConsumeQueueFileSize: g.Config.MappedFileSizeConsumeQueue, Now: now.now,
	})
	s, err := store.Open(t.Context(), dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	defer release()
	statuses := make([]string, len(steps))
	for i, st := range steps {
		statuses[i], st.status = st.status, "PUT_OK" // stored, whatever the answer
	}
	if err := newImage(g.Config).build(steps); err != nil {
		t.Fatal(err)
	}
	for i, st := range steps {
		r.done.add("puts", 1)
		now.set(st.time)
		res, err := put(t.Context(), s, st)
		late := statuses[i] == "FLUSH_DISK_TIMEOUT"
		if res.Status.String() != statuses[i] || late != errors.Is(err, message.ErrFlushTimeout) || !late && err != nil {
			t.Errorf("%s: %s, %v, want %s", st.title(), res.Status, err, statuses[i])
		}
		if problem := st.checkRocket(res); problem != "" {
			t.Errorf("%s: %s", st.title(), problem)
		}
	}
	release()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, st := range steps {
		m, err := s.LookMessageByOffset(t.Context(), message.LogOffset(st.offsets[0]))
		if err != nil || string(m.Body) != string(st.msg.Body) || int64(m.QueueOffset) != st.queueOffset {
			t.Errorf("%s: stored is %+v, %v", st.title(), m, err)
		}
	}
	shutdown(t, s)
}

// removing is the group whose questions RocketMQ answered when it had deleted
// files of the log and not yet looked at the consume queues. Its store was not
// kept: it is written from the puts, and the same files of the log are deleted.
const removing = "getstatuses/removing"

func (r *goldenRun) testRemoving(t *testing.T, g *golden.Group) {
	dir := r.write(t, recording{name: removing, config: g.Config, puts: g.Puts}, asGiven)
	for start := int64(0); start < g.AfterClean.MinPhyOffset; start += g.Config.MappedFileSizeCommitLog {
		if err := os.Remove(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", start))); err != nil {
			t.Fatal(err)
		}
	}
	set := readSet{name: removing, config: g.Config, puts: g.Puts, reads: g.Reads, state: g.AfterClean}
	m := set.model(t, dir)
	var now clock
	s := openAs(t, dir, g.Config, &now)
	r.checkReads(t, set, m, storeAnswers{t.Context(), s})
	checkQueues(t, s.Queues(), m)
	shutdown(t, s)
	for i, read := range g.Reads { // from the first message on, only the minimum is another
		rocket, err := read.Answer()
		if err != nil {
			t.Fatal(err)
		}
		res, ok := rocket.(*golden.GetResult)
		lowest, _ := m.queueBounds(read.Topic, read.QueueID)
		if !ok || read.Offset < lowest {
			continue
		}
		res.MinOffset = lowest
		if got, _ := m.get(read); !sameAnswer(got, res) {
			t.Errorf("read %d, %s: the model says\n%s, not\n%s", i, showRead(read), show(got), show(res))
		}
	}
}
