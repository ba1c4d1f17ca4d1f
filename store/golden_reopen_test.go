package store_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/store"
)

// testOpen opens a recorded store, puts the recorded questions to it, and
// closes it.
func (r *goldenRun) testOpen(t *testing.T, c *golden.Case) {
	r.open(t, c, readSets(c)[0])
}

func (r *goldenRun) testOpenGroup(t *testing.T, c *golden.Case, g *golden.Group) {
	for _, s := range readSets(c) {
		if s.name == c.Case+"/"+g.Group {
			r.open(t, c, s)
			return
		}
	}
	t.Fatalf("group %s was not kept", g.Group)
}

func (r *goldenRun) open(t *testing.T, c *golden.Case, set readSet) {
	t.Helper()
	dir := t.TempDir()
	if err := c.Unpack(set.archive, dir); err != nil {
		t.Fatal(err)
	}
	m := set.model(t, dir)
	before, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), dir, inferring(before, set.config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.WaitDispatched(t.Context(), s.MaxOffset()); err != nil {
		t.Fatal(err)
	}
	waitIndexed(t, s)
	r.checkReads(t, set, m, storeAnswers{t.Context(), s})
	checkQueues(t, s.Queues(), m)
	shutdown(t, s)
	r.checkIndex(t, set, dir, m, before)
	r.checkDirectory(t, dir, m, before, rocketLog(t, c, before), set.config)
	if c.SecondReopenPuts != nil {
		r.putMore(t, c, dir)
	}
}

// inferring is a configuration without sizes, which are those of the files;
// where there are none, the sizes that RocketMQ had.
func inferring(files map[string][]byte, config golden.Config) store.Config {
	cfg := store.Config{
		Flush: store.FlushAsync, SegmentSize: config.MappedFileSizeCommitLog, ConsumeQueueFileSize: config.MappedFileSizeConsumeQueue,
		IndexSlots: int32(config.MaxHashSlotNum), IndexEntries: int32(config.MaxIndexNum),
	}
	for name, data := range files {
		switch {
		case strings.HasPrefix(name, "commitlog/"):
			cfg.SegmentSize = 0
		case strings.HasPrefix(name, "consumequeue/"):
			cfg.ConsumeQueueFileSize = 0
		case strings.HasPrefix(name, "index/") && indexState(data).IndexCount > 1:
			cfg.IndexSlots, cfg.IndexEntries = 0, 0
		}
	}
	return cfg
}

// checkQueues compares the list of queues with the model's. One that never held
// a message may be in it or not.
func checkQueues(t *testing.T, list []store.QueueInfo, m *model) {
	t.Helper()
	got := make(map[queueKey][2]int64)
	for _, q := range list {
		if q.MaxOffset == 0 {
			continue
		}
		got[queueKey{q.Topic, q.QueueID}] = [2]int64{int64(q.MinOffset), int64(q.MaxOffset)}
	}
	want := make(map[queueKey][2]int64)
	for key, q := range m.queues {
		want[key] = [2]int64{q.first, q.max()}
	}
	if !maps.Equal(got, want) {
		t.Errorf("queues %v, want %v", got, want)
	}
}

// rocketLog gives the files that RocketMQ left when it closed the store: in a
// reopening case those of the second archive, else those of the first.
func rocketLog(t *testing.T, c *golden.Case, before map[string][]byte) map[string][]byte {
	t.Helper()
	if c.FilesAfter == nil {
		return before
	}
	dir := t.TempDir()
	if err := c.Unpack(golden.AfterArchive, dir); err != nil {
		t.Fatal(err)
	}
	files, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// checkDirectory compares what a closed store left with what RocketMQ left of
// the same directory: the log up to its end, and behind it zeros where RocketMQ
// may have left what it cut off; the units of the consume queues as the log
// wants them and zeros behind them; and all else but the store's own marks as
// it was before.
func (r *goldenRun) checkDirectory(t *testing.T, dir string, m *model, before, rocket map[string][]byte, config golden.Config) {
	t.Helper()
	after, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	im := &image{segment: config.MappedFileSizeCommitLog, cqFile: config.MappedFileSizeConsumeQueue, files: make(map[string][]byte)}
	for name, data := range rocket {
		start, ok := logFile(name)
		if !ok {
			continue
		}
		data = slices.Clone(data)
		behind := data[max(0, min(m.maxLog-start, im.segment)):]
		if strings.Trim(string(behind), "\x00") != "" {
			r.differs(t, "F27")
			clear(behind)
		}
		if start < m.maxLog {
			im.files[name] = data
		}
	}
	for key, q := range m.queues {
		dir := path.Join("consumequeue", key.topic, strconv.Itoa(int(key.id)))
		for i, u := range q.units {
			putUnit(im.file(dir, (q.first+int64(i))*cqUnitSize, im.cqFile), u)
		}
	}
	sameFiles(t, "log and queues after closing", aboveMinimum(logAndQueues(after), m), im.files)
	for name, data := range before {
		_, kept := logAndQueues(map[string][]byte{name: nil})[name]
		marks := strings.HasPrefix(name, "index/") || slices.Contains([]string{"abort", "checkpoint", "lock"}, name)
		if !kept && !marks && string(after[name]) != string(data) {
			t.Errorf("%s is not what it was", name)
		}
	}
	if _, there := after["abort"]; there || len(after["checkpoint"]) != 4096 || string(after["lock"]) != "lock" {
		t.Errorf("after closing: abort %t, checkpoint of %d bytes, lock %q", there, len(after["checkpoint"]), after["lock"])
	}
}

// checkIndex wants the index of a reopened store to be what it was after a clean
// stop, and to be that of the whole log after a crash or where there was none.
func (r *goldenRun) checkIndex(t *testing.T, set readSet, dir string, m *model, before map[string][]byte) {
	t.Helper()
	after, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, crashed := before["abort"]
	want := m.index(set.config).files
	was := indexOf(before)
	if !crashed && len(was) > 0 && set.name != "topic_utf8_overlong" {
		want = was
	}
	sameIndex(t, "after closing", indexOf(after), want)
}

func waitIndexed(t *testing.T, s *store.DefaultMessageStore) {
	t.Helper()
	if err := s.WaitIndexed(t.Context(), s.MaxOffset()); err != nil {
		t.Fatal(err)
	}
}

// logFile is the start of a file of the commit log.
func logFile(name string) (start int64, ok bool) {
	base, ok := strings.CutPrefix(name, "commitlog/")
	if !ok {
		return 0, false
	}
	start, err := strconv.ParseInt(base, 10, 64)
	return start, err == nil
}

// aboveMinimum leaves out of the consume queues the units below their minimum,
// which nobody reads, and files that have no others.
func aboveMinimum(files map[string][]byte, m *model) map[string][]byte {
	files = maps.Clone(files)
	for key, q := range m.queues {
		dir := path.Join("consumequeue", key.topic, strconv.Itoa(int(key.id)))
		for name, data := range files {
			if path.Dir(name) != dir {
				continue
			}
			start, err := strconv.ParseInt(path.Base(name), 10, 64)
			if err != nil {
				continue
			}
			data = slices.Clone(data)
			clear(data[:max(0, min(q.first*cqUnitSize-start, int64(len(data))))])
			files[name] = data
			if start+int64(len(data)) <= q.first*cqUnitSize || len(q.units) == 0 {
				delete(files, name)
			}
		}
	}
	return files
}

// putMore opens a reopened store once more and puts what RocketMQ was given
// then.
func (r *goldenRun) putMore(t *testing.T, c *golden.Case, dir string) {
	t.Helper()
	var now clock
	s := openAs(t, dir, c.Config, &now)
	rec := recording{name: c.Case, config: c.Config, puts: c.SecondReopenPuts}
	for _, st := range rec.steps(t, asGiven) {
		r.done.add("second puts", 1)
		now.set(st.time)
		res, err := put(t.Context(), s, st)
		if err != nil || res.Status != store.PutOK {
			t.Fatalf("%s: %s, %v", st.title(), res.Status, err)
		}
		if problem := st.checkRocket(res); problem != "" {
			t.Errorf("%s: %s", st.title(), problem)
		}
	}
	if err := s.WaitDispatched(t.Context(), s.MaxOffset()); err != nil {
		t.Fatal(err)
	}
	want := c.SecondReopen["afterPuts"]
	if int64(s.MaxOffset()) != want.MaxPhyOffset {
		t.Errorf("the log ends at %d, not at %d", s.MaxOffset(), want.MaxPhyOffset)
	}
	for _, q := range want.ConsumeQueues {
		a := storeAnswers{t.Context(), s}
		if lowest, end := a.queueBounds(q.Topic, q.QueueID); lowest != q.MinOffset || end != q.MaxOffset {
			t.Errorf("queue %s %d holds [%d, %d), not [%d, %d)", q.Topic, q.QueueID, lowest, end, q.MinOffset, q.MaxOffset)
		}
	}
	shutdown(t, s)
}

// testRefused opens a store with a file of the wrong length: it is refused, and
// nothing is changed.
func (r *goldenRun) testRefused(t *testing.T, c *golden.Case) {
	dir := t.TempDir()
	if err := c.Unpack(golden.StoreArchive, dir); err != nil {
		t.Fatal(err)
	}
	before, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.Reopened.LoadResult == nil || *c.Reopened.LoadResult {
		t.Error("RocketMQ opened it")
	}
	s, err := store.Open(t.Context(), dir, store.Config{})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, store.ErrFileSize) {
		t.Errorf("the error is %v", err)
	}
	after, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(after, func(name string, _ []byte) bool { return strings.HasPrefix(name, "pocketmq/") })
	sameFiles(t, "after the refusal", after, before)
}

// testBounds wants the model's queues to have the bounds that RocketMQ had, and
// the units that RocketMQ wrote.
func (r *goldenRun) testBounds(t *testing.T, c *golden.Case, s readSet, m *model) {
	t.Helper()
	archive := s.archive
	if c.FilesAfter != nil {
		archive = golden.AfterArchive
	}
	dir := t.TempDir()
	if err := c.Unpack(archive, dir); err != nil {
		t.Fatal(err)
	}
	states := make(map[queueKey]golden.QueueState)
	for _, q := range s.state.ConsumeQueues {
		states[queueKey{q.Topic, q.QueueID}] = q
	}
	for key, q := range m.queues {
		state := states[key]
		if state.MinOffset == q.first && state.MaxOffset == q.max() && sameUnits(dir, key, q, m.unitsPerFile*cqUnitSize) == nil {
			continue
		}
		id := differingRead(s, golden.Read{Topic: key.topic, QueueID: key.id}, nil)
		if id == "" {
			t.Errorf("%s: queue %v holds [%d, %d), RocketMQ says %+v; %v", s.name, key, q.first, q.max(), state,
				sameUnits(dir, key, q, m.unitsPerFile*cqUnitSize))
		}
	}
}

// sameUnits compares units of a queue with those in an unpacked archive.
func sameUnits(dir string, key queueKey, q *modelQueue, fileSize int64) error {
	for i, want := range q.units {
		pos := (q.first + int64(i)) * cqUnitSize
		name := filepath.Join(dir, "consumequeue", key.topic, strconv.Itoa(int(key.id)), fmt.Sprintf("%020d", pos-pos%fileSize))
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if got := unitAt(data[pos%fileSize:]); got != want {
			return fmt.Errorf("unit %d is %+v, not %+v", q.first+int64(i), got, want)
		}
	}
	return nil
}
