package store_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
)

// image is a commit log with its consume queues, built by the rules of the
// format. It is what a store must have in its directory.
type image struct {
	segment int64
	cqFile  int64
	end     int64
	files   map[string][]byte // by path in the directory
	next    map[queueKey]int64
	levels  message.DelayLevels
	index   *indexImage
}

func newImage(config golden.Config) *image {
	levels, err := message.ParseDelayLevels(message.DefaultDelayLevels)
	if err != nil {
		panic(err)
	}
	return &image{
		segment: config.MappedFileSizeCommitLog, cqFile: config.MappedFileSizeConsumeQueue,
		files: make(map[string][]byte), next: make(map[queueKey]int64), levels: levels,
		index: newIndexImage(config),
	}
}

// file returns what follows a position in the file that holds it.
func (im *image) file(dir string, pos, size int64) []byte {
	name := path.Join(dir, fmt.Sprintf("%020d", pos-pos%size))
	if im.files[name] == nil {
		im.files[name] = make([]byte, size)
	}
	return im.files[name][pos%size:]
}

// build places all steps that are stored.
func (im *image) build(steps []*step) error {
	for _, s := range steps {
		if !s.stored() || s.aside {
			continue
		}
		records, err := recordsOf(s)
		if err != nil {
			return err
		}
		im.place(s, records)
	}
	return nil
}

// recordsOf gives the records that a put makes, without what the store assigns.
func recordsOf(s *step) ([]message.MessageExt, error) {
	if !s.batch {
		return []message.MessageExt{s.msg.MessageExt}, nil
	}
	var all []message.MessageExt
	for e, err := range message.BatchElements(s.msg.Body) {
		if err != nil {
			return nil, err
		}
		m := s.msg.MessageExt
		m.Flag, m.Body, m.PreparedTransactionOffset = e.Flag, e.Body, 0
		m.Properties = message.JoinProperties(e.Properties, s.msg.Properties)
		all = append(all, m)
	}
	return all, nil
}

// place puts the records of one step behind each other into one file.
func (im *image) place(s *step, records []message.MessageExt) {
	s.placement = placement{}
	for i := range records {
		s.bytes += records[i].RecordSize()
	}
	if left := im.segment - im.end%im.segment; int64(s.bytes)+message.BlankSize > left {
		message.PutBlank(im.file("commitlog", im.end, im.segment), int(left))
		im.end += left
	}
	for i := range records {
		m := &records[i]
		key := queueKey{m.Topic, m.QueueID}
		m.LogOffset, m.StoreTimestamp, m.BodyCRC, m.QueueOffset = message.LogOffset(im.end), s.time, message.BodyCRC(m.Body), 0
		if m.SysFlag.Queued() {
			m.QueueOffset = message.QueueOffset(im.next[key])
			im.next[key]++
		}
		if i == 0 {
			s.queueOffset = int64(m.QueueOffset)
		}
		s.offsets = append(s.offsets, im.end)
		b := im.file("commitlog", im.end, im.segment)
		m.PutRecord(b)
		if m.SysFlag.Queued() {
			im.unit(key, m, b)
		}
		im.index.add(readBack(b))
		im.end += int64(m.RecordSize())
	}
}

// unit writes the entry of a record into its consume queue.
func (im *image) unit(key queueKey, m *message.MessageExt, record []byte) {
	v := readBack(record)
	dir := path.Join("consumequeue", key.topic, strconv.Itoa(int(key.id)))
	putUnit(im.file(dir, int64(m.QueueOffset)*cqUnitSize, im.cqFile), modelUnit{
		offset: int64(m.LogOffset), size: int64(m.RecordSize()), code: im.levels.TagsCode(v),
	})
}

func readBack(record []byte) message.View {
	v, _, err := message.ReadRecord(record)
	if err != nil {
		panic(err)
	}
	return v
}

func putUnit(b []byte, u modelUnit) {
	binary.BigEndian.PutUint64(b, uint64(u.offset))
	binary.BigEndian.PutUint32(b[8:], uint32(u.size))
	binary.BigEndian.PutUint64(b[12:], uint64(u.code))
}

func unitAt(b []byte) modelUnit {
	return modelUnit{
		offset: int64(binary.BigEndian.Uint64(b)), size: int64(int32(binary.BigEndian.Uint32(b[8:]))),
		code: int64(binary.BigEndian.Uint64(b[12:])),
	}
}

// logAndQueues keeps of a directory's files the commit log and the consume
// queues.
func logAndQueues(files map[string][]byte) map[string][]byte {
	files = maps.Clone(files)
	maps.DeleteFunc(files, func(name string, _ []byte) bool {
		return !strings.HasPrefix(name, "commitlog/") && !strings.HasPrefix(name, "consumequeue/")
	})
	return files
}

// sameFiles compares names and contents.
func sameFiles(t *testing.T, what string, got, want map[string][]byte) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[name]
		switch {
		case !ok:
			t.Errorf("%s: there is no file %s", what, name)
		case string(g) != string(want[name]):
			t.Errorf("%s: %s (%d bytes, not %d) differs from byte %d on", what, name, len(g), len(want[name]), firstDifference(g, want[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == nil {
			t.Errorf("%s: there is a file %s", what, name)
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// testImage wants the image of a recording to be what RocketMQ wrote: byte for
// byte when the messages are put as stored; when they are put as given, but for
// the properties of delayed messages.
func (r *goldenRun) testImage(t *testing.T, rec recording, dir string) {
	t.Helper()
	if rec.shifted() {
		return // RocketMQ wrote records there that are refused
	}
	rocket, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	index := indexOf(rocket)
	rocket = rec.comparable(logAndQueues(rocket))
	im := newImage(rec.config)
	if err := im.build(rec.steps(t, asStored)); err != nil {
		t.Fatal(err)
	}
	rec.rocketIndex(t, im.index, index)
	sameFiles(t, rec.name+" as stored", rec.comparable(im.files), rocket)

	im = newImage(rec.config)
	steps := rec.steps(t, asGiven)
	if err := im.build(steps); err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if s.put == nil || !s.put.Delayed() || !s.stored() {
			continue
		}
		if id := im.adopt(t, s); id != "" {
			r.differs(t, id)
		}
	}
	sameFiles(t, rec.name+" as given", rec.comparable(im.files), rocket)
}

// adopt compares the properties of a parked message with those that RocketMQ
// stored, as a set, and puts the latter into the image. It returns the
// difference.
func (im *image) adopt(t *testing.T, s *step) (id string) {
	t.Helper()
	rocket := message.Properties(s.put.Stored.PropertiesString)
	if rocket == s.msg.Properties {
		return ""
	}
	id = "G-DELAY-ORDER"
	want := rocket
	if s.parkedWithWait() {
		id = "G-DELAY-WAIT"
		want = rocket.Without(message.PropertyWait)
	}
	if got := propertySet(s.msg.Properties); !maps.Equal(got, propertySet(want)) {
		t.Errorf("%s: properties %q, RocketMQ stored %q", s.title(), got, rocket)
	}
	v, _, err := message.ReadRecord(im.file("commitlog", s.offsets[0], im.segment))
	if err != nil {
		t.Fatal(err)
	}
	m := v.Message()
	m.Properties = rocket
	if id == "G-DELAY-WAIT" && s.offsets[0]+int64(s.bytes) != im.end {
		t.Fatalf("%s: a longer record would move those behind it", s.title())
	}
	record := im.file("commitlog", s.offsets[0], im.segment)
	m.PutRecord(record)
	im.unit(queueKey{m.Topic, m.QueueID}, &m, record)
	return id
}

func propertySet(p message.Properties) map[string]string {
	set := make(map[string]string)
	for name, value := range p.All() {
		set[name] = value
	}
	return set
}

// comparable leaves out of a directory what RocketMQ had deleted, and what it
// had made ahead and not used.
func (rec recording) comparable(files map[string][]byte) map[string][]byte {
	files = maps.Clone(files)
	maps.DeleteFunc(files, func(name string, data []byte) bool {
		if name == "consumequeue/HoleTopic/0/00000000000000002000" {
			return true
		}
		start, err := strconv.ParseInt(path.Base(name), 10, 64)
		if err != nil || !strings.HasPrefix(name, "commitlog/") {
			return false
		}
		return start < rec.log.Start || start >= rec.end && strings.Trim(string(data), "\x00") == ""
	})
	return files
}
