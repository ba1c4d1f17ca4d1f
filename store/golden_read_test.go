package store_test

import (
	"context"
	"fmt"
	"slices"
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
	state   *golden.Snapshot // of RocketMQ, when the questions were put
}

// readSets lists the stores of a case that questions were put to and that are
// there.
func readSets(c *golden.Case) []readSet {
	var sets []readSet
	if len(c.Reads) > 0 {
		state := c.Live
		if state == nil {
			state = c.Reopened.AfterStart
		}
		sets = append(sets, readSet{c.Case, golden.StoreArchive, c.Config, c.Puts, c.Reads, state})
	}
	for _, g := range c.Groups {
		if g.Store == "" {
			continue
		}
		state := g.Live
		if state == nil {
			state = g.AfterStart
		}
		sets = append(sets, readSet{c.Case + "/" + g.Group, g.Store, g.Config, g.Puts, g.Reads, state})
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
	}
	if res, ok := rocket.(*golden.GetResult); ok && res.Status == "OFFSET_OVERFLOW_BADLY" && res.MinOffset == 0 {
		return "F4"
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

// checkReads puts the questions of a set to a store.
func (r *goldenRun) checkReads(t *testing.T, s readSet, m *model, a answerer) {
	t.Helper()
	for i, read := range s.reads {
		if laterReads[read.Op] > 0 {
			r.left.add(read.Op, 1)
			continue
		}
		r.done.add("reads of a store", 1)
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
