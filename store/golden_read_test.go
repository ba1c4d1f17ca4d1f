package store_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"testing"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// readSet is a recorded store with the questions that were put to it.
type readSet struct {
	name    string // case, or case/group
	archive string
	config  golden.Config
	puts    []golden.Put
	reads   []golden.Read
	state   *golden.Snapshot  // of RocketMQ, when the questions were put
	live    bool              // state is that of the archive, which was not opened since
	times   []golden.FileTime // of the consume queue files then
}

// readSets lists the stores of a case that questions were put to and that are
// there.
func readSets(c *golden.Case) []readSet {
	var sets []readSet
	if len(c.Reads) > 0 {
		state, times := c.Live, c.ConsumeQueueFileTimesAtReads
		if state == nil {
			state, times = c.Reopened.AfterStart, c.Reopened.ConsumeQueueFileTimesAtReads
		}
		sets = append(sets, readSet{c.Case, golden.StoreArchive, c.Config, c.Puts, c.Reads, state, c.Live != nil, times})
	}
	for _, g := range c.Groups {
		if g.Store == "" {
			continue
		}
		state := g.Live
		if state == nil {
			state = g.AfterStart
		}
		sets = append(sets, readSet{c.Case + "/" + g.Group, g.Store, g.Config, g.Puts, g.Reads, state, g.Live != nil, nil})
	}
	return sets
}

// model reads the unpacked log of the set.
func (s readSet) model(t *testing.T, dir string) *model {
	t.Helper()
	log, err := golden.ReadLog(dir, s.config.MappedFileSizeCommitLog)
	if err != nil {
		t.Fatal(err)
	}
	var starts []int64
	for _, p := range s.puts {
		starts = append(starts, p.Result.WroteOffset)
	}
	slices.Sort(starts)
	return newModel(log, s.state.MaxPhyOffset, starts, s.state.ConsumeQueues, s.config)
}

// wanted is the answer that PocketMQ must give, and the id of the difference
// where it is not RocketMQ's.
func (r *goldenRun) wanted(t *testing.T, s readSet, m *model, read golden.Read) (want any, id string) {
	t.Helper()
	rocket, err := read.Answer()
	if err != nil {
		t.Fatal(err)
	}
	if query, ok := rocket.(*golden.QueryResult); ok {
		return s.wantedQuery(t, m, read, query)
	}
	want, id = rocket, differingRead(s, read, rocket)
	if id != "" {
		if want, err = ask(m, read); err != nil {
			t.Fatal(err)
		}
	}
	if sameAnswer(rocket, want) {
		return want, ""
	}
	return want, id
}

// differingRead says which difference may change the answer to a question.
func differingRead(s readSet, read golden.Read, rocket any) string {
	if read.Op == "getEarliestMessageTime" && read.Topic == "" {
		return "F6"
	}
	switch s.name {
	case "minoffset":
		if read.Op == "lookMessageByOffset" && read.Offset == 0 {
			return "G-FIRST-FILE"
		}
		if read.Topic == "OldTopic" {
			if res, ok := rocket.(*golden.GetResult); ok && res.Status == "FOUND" {
				return "G-FIRST-FILE"
			}
			return "F19"
		}
	case "topic_utf8_overlong":
		if id := differingOverlong(read); id != "" {
			return id
		}
	case "crash_log_deleted":
		if read.Op == "getMinPhyOffset" {
			return "G-EMPTY-LOG"
		}
	case "crash_cq_deleted":
		return "G-REBUILD"
	case "crash_cq_behind":
		if read.Topic == "CrashTopicC" && read.QueueID == 0 { // its directory was removed
			return "G-REBUILD"
		}
	case "getstatuses/hole":
		return "F35"
	case removing:
		return differingRemoving(read, rocket)
	}
	if res, ok := rocket.(*golden.GetResult); ok && res.Status == "OFFSET_OVERFLOW_BADLY" && res.MinOffset == 0 {
		return "F4"
	}
	return ""
}

// differingRemoving speaks for the store whose log had lost files that its
// consume queues still named.
func differingRemoving(read golden.Read, rocket any) string {
	res, ok := rocket.(*golden.GetResult)
	switch {
	case read.Offset == 0 && (!ok || res.Status == "FOUND"):
		return "G-FIRST-FILE"
	case ok:
		return "G-REMOVING"
	}
	return ""
}

// differingOverlong speaks for the store with topics of 129 and 257 bytes. The
// records of the first can be read when the length byte is taken as unsigned,
// those of the second can not.
func differingOverlong(read golden.Read) string {
	switch {
	case len(read.Topic) == 129, read.Op == "lookMessageByOffset" && read.Offset == 464:
		return "G-UNSIGNED"
	case read.Op == "lookMessageByOffset" && read.Offset == 846:
		return "G-NONSENSE"
	case read.Topic == "Ok":
		return "F36"
	}
	return ""
}

func showRead(r golden.Read) string {
	if r.Op == "queryMessage" {
		return fmt.Sprintf("%s(topic %q, key %q, maxNum %d, from %d to %d)", r.Op, r.Topic, r.Key, r.MaxNum, r.Begin, r.End)
	}
	sub := "nil"
	if r.Sub != nil {
		sub = *r.Sub
	}
	return fmt.Sprintf("%s(topic %q, queue %d, offset %d, maxNum %d, sub %q)", r.Op, r.Topic, r.QueueID, r.Offset, r.MaxNum, sub)
}

// storeAnswers is a store as answerer.
type storeAnswers struct {
	ctx context.Context
	s   *store.DefaultMessageStore
}

func (a storeAnswers) logBounds() (lowest, end int64) {
	return int64(a.s.MinOffset()), int64(a.s.MaxOffset())
}

func (a storeAnswers) queueBounds(topic string, queueID int32) (lowest, end int64) {
	return int64(a.s.MinOffsetInQueue(topic, queueID)), int64(a.s.MaxOffsetInQueue(topic, queueID))
}

func (a storeAnswers) logOffset(topic string, queueID int32, offset int64) (int64, bool) {
	off, ok := a.s.CommitLogOffsetInQueue(topic, queueID, message.QueueOffset(offset))
	return int64(off), ok
}

func (a storeAnswers) storeTime(topic string, queueID int32, offset int64) (int64, bool) {
	return a.s.MessageStoreTimestamp(topic, queueID, message.QueueOffset(offset))
}

func (a storeAnswers) earliestTime(topic string, queueID int32) (int64, bool) {
	return a.s.EarliestMessageTime(topic, queueID)
}

func (a storeAnswers) byTime(topic string, queueID int32, ms int64) (lower, upper int64, err error) {
	l, err := a.s.OffsetInQueueByTime(a.ctx, topic, queueID, ms, store.BoundaryLower)
	if err != nil {
		return 0, 0, err
	}
	u, err := a.s.OffsetInQueueByTime(a.ctx, topic, queueID, ms, store.BoundaryUpper)
	return int64(l), int64(u), err
}

func (a storeAnswers) look(offset int64) (message.MessageExt, error) {
	return a.s.LookMessageByOffset(a.ctx, message.LogOffset(offset))
}

// get asks with RocketMQ's limits of one answer; RocketMQ returns one message
// where none is asked for.
func (a storeAnswers) get(r golden.Read) (*golden.GetResult, error) {
	res, err := a.s.GetMessage(a.ctx, store.GetQuery{
		Group: r.Group, Topic: r.Topic, QueueID: r.QueueID, Offset: message.QueueOffset(r.Offset),
		MaxCount: max(1, min(r.MaxNum, maxTransferCount)), MaxBytes: maxTransferBytes, TagFilter: subscription(r),
	})
	if err != nil {
		return nil, err
	}
	defer res.Release()
	out := &golden.GetResult{
		Status: res.Status.String(), NextBeginOffset: int64(res.NextBeginOffset),
		MinOffset: int64(res.MinOffset), MaxOffset: int64(res.MaxOffset), BufferTotalSize: res.Bytes,
	}
	for _, v := range res.Messages {
		out.Messages = append(out.Messages, [3]int64{int64(v.LogOffset()), int64(v.Size()), int64(v.QueueOffset())})
	}
	return out, nil
}

func (a storeAnswers) query(r golden.Read) (*golden.QueryResult, error) {
	res, err := a.s.QueryMessage(a.ctx, store.KeyQuery{Topic: r.Topic, Key: r.Key, MaxNum: r.MaxNum, Begin: r.Begin, End: r.End})
	if err != nil {
		return nil, err
	}
	defer res.Release()
	out := &golden.QueryResult{IndexLastUpdateTimestamp: res.IndexedTimestamp, IndexLastUpdatePhyoffset: int64(res.IndexedOffset)}
	for _, v := range res.Messages {
		out.Offsets = append(out.Offsets, int64(v.LogOffset()))
	}
	return out, nil
}

// checkReads puts the questions of a set to a store.
func (r *goldenRun) checkReads(t *testing.T, s readSet, m *model, a answerer) {
	t.Helper()
	for i, read := range s.reads {
		r.done.add("reads of a store", 1)
		if read.Op == byTime {
			r.checkByTime(t, s, m, a, i)
			continue
		}
		want, id := r.wanted(t, s, m, read)
		if id != "" {
			r.differs(t, id)
		}
		got, err := ask(a, read)
		switch {
		case err != nil:
			t.Errorf("read %d, %s: %v", i, showRead(read), err)
		case !sameAnswer(got, want):
			t.Errorf("read %d, %s (difference %q):\ngot  %s\nwant %s", i, showRead(read), id, show(got), show(want))
		}
	}
}

// byTime is the question that RocketMQ answers with the message nearest in
// time, and PocketMQ with the one before and the one after.
const byTime = "getOffsetInQueueByTime"

// checkByTime puts such a question to a store, for both boundaries.
func (r *goldenRun) checkByTime(t *testing.T, s readSet, m *model, a answerer, i int) {
	t.Helper()
	read := s.reads[i]
	if id := s.byTimeDifference(t, m, i); id != "" {
		r.differs(t, id)
	}
	lower, upper, err := a.byTime(read.Topic, read.QueueID, read.Timestamp)
	wantLower, wantUpper, _ := m.byTime(read.Topic, read.QueueID, read.Timestamp)
	if err != nil || lower != wantLower || upper != wantUpper {
		t.Errorf("read %d, topic %q, queue %d, time %d: boundaries %d and %d, %v; want %d and %d",
			i, read.Topic, read.QueueID, read.Timestamp, lower, upper, err, wantLower, wantUpper)
	}
}

// byTimeDifference wants RocketMQ's answer to be a message of exactly that
// time, if there is one, and else one of the model's boundaries. It returns the
// difference that explains another answer. F20 explains it when it is right for
// the one file that RocketMQ looked into.
func (s readSet) byTimeDifference(t *testing.T, m *model, i int) (id string) {
	t.Helper()
	read := s.reads[i]
	rocket, err := read.Answer()
	if err != nil {
		t.Fatal(err)
	}
	n := rocket.(int64)
	q := m.queues[queueKey{read.Topic, read.QueueID}]
	from, to := m.queueBounds(read.Topic, read.QueueID)
	if m.answersTime(q, n, read.Timestamp, from, to) {
		return ""
	}
	if id := differingRead(s, read, rocket); id != "" {
		return id
	}
	fileFrom, fileTo := s.fileByTime(read, m.unitsPerFile)
	if fileFrom >= fileTo || !m.answersTime(q, n, read.Timestamp, max(from, fileFrom), min(to, fileTo)) {
		lower, upper := m.boundaries(q, read.Timestamp, from, to)
		t.Errorf("%s: read %d, topic %q, queue %d, time %d: RocketMQ says %d, the boundaries are %d and %d",
			s.name, i, read.Topic, read.QueueID, read.Timestamp, n, lower, upper)
	}
	return "F20"
}

// answersTime reports whether n is a message of [from, to) that was stored at
// ms, or, when there is none, a boundary.
func (m *model) answersTime(q *modelQueue, n, ms, from, to int64) bool {
	lower, upper := m.boundaries(q, ms, from, to)
	if lower < to && m.timeOf(q, lower) == ms {
		return n >= from && n < to && m.timeOf(q, n) == ms
	}
	return n == lower || n == upper
}

// fileByTime is the consume queue file that RocketMQ chooses for a time: the
// first that was modified at that time or later, else the last.
func (s readSet) fileByTime(read golden.Read, unitsPerFile int64) (from, to int64) {
	for _, f := range s.times { // sorted by path
		if path.Dir(f.Path) != fmt.Sprintf("consumequeue/%s/%d", read.Topic, read.QueueID) {
			continue
		}
		if start, err := strconv.ParseInt(path.Base(f.Path), 10, 64); err == nil {
			from, to = start/cqUnitSize, start/cqUnitSize+unitsPerFile
		}
		if f.MtimeMs >= read.Timestamp {
			break
		}
	}
	return from, to
}
