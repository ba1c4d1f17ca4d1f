package store_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
)

// The limits of one get and one query in RocketMQ, on a store far smaller than memory.
const (
	maxTransferBytes = 262144
	maxTransferCount = 32
	maxQueryResults  = 64
	cqUnitSize       = 20
)

type queueKey struct {
	topic string
	id    int32
}

// model gives the right answers, from the records alone: nothing derived from
// the log is read. It takes RocketMQ's place where that one is wrong, and shows
// everywhere else that it answers like RocketMQ.
type model struct {
	queues       map[queueKey]*modelQueue
	records      map[int64]message.View
	minLog       int64
	maxLog       int64
	unitsPerFile int64 // a get does not cross the end of a consume queue file
}

// modelQueue holds the units [first, first+len(units)).
type modelQueue struct {
	first int64
	units []modelUnit
}

type modelUnit struct {
	offset int64
	size   int64
	code   int64
}

// timeOf is when a message of the queue was stored, -1 if it has none there.
func (m *model) timeOf(q *modelQueue, offset int64) int64 {
	if q == nil || offset < q.first || offset >= q.max() {
		return -1
	}
	return m.records[q.units[offset-q.first].offset].StoreTimestamp()
}

func (q *modelQueue) max() int64 { return q.first + int64(len(q.units)) }

// newModel reads the records of a log that ends at end. resume are offsets at
// which records begin, to go on at after damage; queues without a record take
// their bounds from states.
func newModel(log *golden.Log, end int64, resume []int64, states []golden.QueueState, config golden.Config) *model {
	levels, err := message.ParseDelayLevels(message.DefaultDelayLevels)
	if err != nil {
		panic(err)
	}
	m := &model{
		queues: make(map[queueKey]*modelQueue), records: make(map[int64]message.View),
		minLog: log.Start, maxLog: end, unitsPerFile: config.MappedFileSizeConsumeQueue / cqUnitSize,
	}
	for off := log.Start; off < end; {
		v, kind, _ := message.ReadRecord(log.At(off))
		switch kind {
		case message.KindRecord:
			m.add(v, levels.TagsCode(v))
			off += int64(v.Size())
		case message.KindBlank:
			off += int64(len(log.At(off)))
		default:
			i, _ := slices.BinarySearch(resume, off+1)
			if i == len(resume) {
				off = end
			} else {
				off = resume[i]
			}
		}
	}
	for _, s := range states {
		key := queueKey{s.Topic, s.QueueID}
		if m.queues[key] == nil {
			m.queues[key] = &modelQueue{first: s.MaxOffset}
		}
	}
	return m
}

func (m *model) add(v message.View, code int64) {
	off := int64(v.LogOffset())
	m.records[off] = v
	if !v.SysFlag().Queued() {
		return
	}
	key := queueKey{string(v.Topic()), v.QueueID()}
	q := m.queues[key]
	if q == nil {
		q = &modelQueue{first: int64(v.QueueOffset())}
		m.queues[key] = q
	}
	q.units = append(q.units, modelUnit{off, int64(v.Size()), code})
}

func (m *model) logBounds() (lowest, end int64) { return m.minLog, m.maxLog }

func (m *model) queueBounds(topic string, queueID int32) (lowest, end int64) {
	if q := m.queues[queueKey{topic, queueID}]; q != nil {
		return q.first, q.max()
	}
	return 0, 0
}

func (m *model) logOffset(topic string, queueID int32, offset int64) (int64, bool) {
	q := m.queues[queueKey{topic, queueID}]
	if q == nil || offset < q.first || offset >= q.max() {
		return 0, false
	}
	return q.units[offset-q.first].offset, true
}

func (m *model) storeTime(topic string, queueID int32, offset int64) (int64, bool) {
	ms := m.timeOf(m.queues[queueKey{topic, queueID}], offset)
	return ms, ms >= 0
}

func (m *model) earliestTime(topic string, queueID int32) (int64, bool) {
	lowest, _ := m.queueBounds(topic, queueID)
	return m.storeTime(topic, queueID, lowest)
}

func (m *model) byTime(topic string, queueID int32, ms int64) (lower, upper int64, err error) {
	lowest, end := m.queueBounds(topic, queueID)
	lower, upper = m.boundaries(m.queues[queueKey{topic, queueID}], ms, lowest, end)
	return lower, upper, nil
}

// boundaries are the first message of [from, to) that was stored at ms or
// later, to if there is none, and the last that was stored at ms or earlier, from
// if there is none.
func (m *model) boundaries(q *modelQueue, ms, from, to int64) (lower, upper int64) {
	lower, upper = to, from
	for off := from; off < to; off++ {
		stored := m.timeOf(q, off)
		if stored <= ms {
			upper = off
		}
		if stored >= ms && lower == to {
			lower = off
		}
	}
	return lower, upper
}

func (m *model) look(offset int64) (message.MessageExt, error) {
	v, ok := m.records[offset]
	if !ok {
		return message.MessageExt{}, message.ErrOffsetNotFound
	}
	return v.Message(), nil
}

func (m *model) get(r golden.Read) (*golden.GetResult, error) {
	lowest, end := m.queueBounds(r.Topic, r.QueueID)
	res := &golden.GetResult{MinOffset: lowest, MaxOffset: end, NextBeginOffset: r.Offset}
	switch {
	case end == 0:
		res.Status, res.NextBeginOffset = "NO_MESSAGE_IN_QUEUE", 0
	case r.Offset < lowest:
		res.Status, res.NextBeginOffset = "OFFSET_TOO_SMALL", lowest
	case r.Offset == end:
		res.Status = "OFFSET_OVERFLOW_ONE"
	case r.Offset > end:
		res.Status, res.NextBeginOffset = "OFFSET_OVERFLOW_BADLY", end
	default:
		m.collect(r, res)
	}
	return res, nil
}

// collect reads units up to the end of their consume queue file.
func (m *model) collect(r golden.Read, res *golden.GetResult) {
	filter := subscription(r)
	q := m.queues[queueKey{r.Topic, r.QueueID}]
	fileEnd := (r.Offset/m.unitsPerFile + 1) * m.unitsPerFile
	off := r.Offset
	for ; off < min(fileEnd, q.max()); off++ {
		u := q.units[off-q.first]
		n := len(res.Messages)
		if n > 0 && (n >= min(r.MaxNum, maxTransferCount) || res.BufferTotalSize+int(u.size) > maxTransferBytes) {
			break
		}
		if !filter.Match(u.code) {
			continue
		}
		res.Messages = append(res.Messages, [3]int64{u.offset, u.size, int64(m.records[u.offset].QueueOffset())})
		res.BufferTotalSize += int(u.size)
	}
	res.NextBeginOffset = off
	res.Status = "NO_MATCHED_MESSAGE"
	if len(res.Messages) > 0 {
		res.Status = "FOUND"
	}
}

// query gives the newest maxNum messages with the key and of the time, and how
// far the index is.
func (m *model) query(r golden.Read) (*golden.QueryResult, error) {
	res := &golden.QueryResult{}
	for _, off := range m.offsets() {
		v := m.records[off]
		keys := keysOf(v)
		if len(keys) > 0 {
			res.IndexLastUpdateTimestamp, res.IndexLastUpdatePhyoffset = v.StoreTimestamp(), off
		}
		if string(v.Topic()) == r.Topic && slices.Contains(keys, r.Key) && r.Begin <= v.StoreTimestamp() && v.StoreTimestamp() <= r.End {
			res.Offsets = append(res.Offsets, off)
		}
	}
	res.Offsets = res.Offsets[max(0, len(res.Offsets)-min(r.MaxNum, maxQueryResults)):]
	return res, nil
}

// keysOf lists what a record is indexed under: its unique key and the words of
// KEYS; a rolled-back one nothing.
func keysOf(v message.View) []string {
	if v.SysFlag().Transaction() == message.TransactionRollback {
		return nil
	}
	unique, _ := v.Property(message.PropertyUniqueKey)
	words, _ := v.Property(message.PropertyKeys)
	keys := append([]string{string(unique)}, strings.Split(string(words), " ")...)
	return slices.DeleteFunc(keys, func(key string) bool { return key == "" })
}

func subscription(r golden.Read) message.TagFilter {
	if r.Sub == nil {
		return message.TagFilter{}
	}
	return message.ParseTagFilter(*r.Sub)
}

// answerer answers questions: a store, or the model.
type answerer interface {
	get(r golden.Read) (*golden.GetResult, error)
	query(r golden.Read) (*golden.QueryResult, error)
	look(offset int64) (message.MessageExt, error) // ErrOffsetNotFound
	logOffset(topic string, queueID int32, offset int64) (int64, bool)
	storeTime(topic string, queueID int32, offset int64) (int64, bool)
	earliestTime(topic string, queueID int32) (int64, bool)
	byTime(topic string, queueID int32, ms int64) (lower, upper int64, err error)
	queueBounds(topic string, queueID int32) (lowest, end int64)
	logBounds() (lowest, end int64)
}

// ask puts a recorded question and gives the answer in the form of
// golden.Read.Answer.
func ask(a answerer, r golden.Read) (any, error) {
	switch r.Op {
	case "getMessage":
		return a.get(r)
	case "queryMessage":
		return a.query(r)
	case "lookMessageByOffset":
		m, err := a.look(r.Offset)
		if errors.Is(err, message.ErrOffsetNotFound) {
			return (*golden.LookResult)(nil), nil
		}
		return lookResult(m), err
	case "getCommitLogOffsetInQueue":
		off, _ := a.logOffset(r.Topic, r.QueueID, r.Offset)
		return off, nil
	case "getMessageStoreTimeStamp":
		return orMinusOne(a.storeTime(r.Topic, r.QueueID, r.Offset)), nil
	case "getEarliestMessageTime":
		if r.Topic == "" {
			return earliestInLog(a)
		}
		return orMinusOne(a.earliestTime(r.Topic, r.QueueID)), nil
	}
	lowest, end := a.logBounds()
	if r.Topic != "" {
		lowest, end = a.queueBounds(r.Topic, r.QueueID)
	}
	switch r.Op {
	case "getMinPhyOffset", "getMinOffsetInQueue":
		return lowest, nil
	case "getMaxPhyOffset", "getMaxOffsetInQueue":
		return end, nil
	case "getMessageTotalInQueue":
		return end - lowest, nil
	}
	return nil, fmt.Errorf("no such question: %s", r.Op)
}

func orMinusOne(n int64, ok bool) int64 {
	if !ok {
		return -1
	}
	return n
}

// earliestInLog is the time of the first record of the log, which a store tells
// through two questions.
func earliestInLog(a answerer) (any, error) {
	lowest, _ := a.logBounds()
	m, err := a.look(lowest)
	if errors.Is(err, message.ErrOffsetNotFound) {
		return int64(-1), nil
	}
	return m.StoreTimestamp, err
}

func lookResult(m message.MessageExt) *golden.LookResult {
	properties := make(map[string]string)
	for name, value := range m.Properties.All() {
		properties[name] = value
	}
	return &golden.LookResult{
		Topic: m.Topic, QueueID: m.QueueID, QueueOffset: int64(m.QueueOffset), CommitLogOffset: int64(m.LogOffset),
		StoreSize: m.StoreSize, BodyCRC: m.BodyCRC, Flag: m.Flag, SysFlag: int32(m.SysFlag),
		BornTimestamp: m.BornTimestamp, BornHost: m.BornHost.String(), StoreTimestamp: m.StoreTimestamp,
		StoreHost: m.StoreHost.String(), ReconsumeTimes: m.ReconsumeTimes,
		PreparedTransactionOffset: int64(m.PreparedTransactionOffset), BodyLen: len(m.Body), Properties: properties,
		MsgID: m.OffsetMessageID().String(),
	}
}

// sameAnswer compares two answers; an empty list is the same as none, and so is
// an empty map.
func sameAnswer(a, b any) bool {
	if la, ok := a.(*golden.LookResult); ok {
		lb, ok := b.(*golden.LookResult)
		return ok && sameLook(la, lb)
	}
	if qa, ok := a.(*golden.QueryResult); ok {
		qb, ok := b.(*golden.QueryResult)
		return ok && slices.Equal(qa.Offsets, qb.Offsets) && qa.IndexLastUpdateTimestamp == qb.IndexLastUpdateTimestamp &&
			qa.IndexLastUpdatePhyoffset == qb.IndexLastUpdatePhyoffset
	}
	ga, ok := a.(*golden.GetResult)
	gb, ok2 := b.(*golden.GetResult)
	if !ok || !ok2 || ga == nil || gb == nil {
		return reflect.DeepEqual(a, b)
	}
	ca, cb := *ga, *gb
	ca.Messages, cb.Messages = nil, nil
	return reflect.DeepEqual(ca, cb) && slices.Equal(ga.Messages, gb.Messages)
}

func sameLook(a, b *golden.LookResult) bool {
	if a == nil || b == nil {
		return a == b
	}
	ca, cb := *a, *b
	for _, r := range []*golden.LookResult{&ca, &cb} { // Java writes IPv6 addresses in full
		r.BornHost, r.StoreHost, r.Properties = hostText(r.BornHost), hostText(r.StoreHost), nil
	}
	return reflect.DeepEqual(ca, cb) && maps.Equal(a.Properties, b.Properties)
}

func hostText(s string) string {
	h, err := message.ParseHost(s)
	if err != nil {
		return err.Error()
	}
	return h.String()
}

func show(a any) string {
	if v := reflect.ValueOf(a); v.Kind() == reflect.Pointer && !v.IsNil() {
		a = v.Elem().Interface()
	}
	return fmt.Sprintf("%+v", a)
}

// testModel wants the model to answer like RocketMQ, but for the differences.
func (r *goldenRun) testModel(t *testing.T, c *golden.Case) {
	for _, s := range readSets(c) {
		dir := t.TempDir()
		if err := c.Unpack(s.archive, dir); err != nil {
			t.Fatal(err)
		}
		m := s.model(t, dir)
		r.testBounds(t, c, s, m)
		if len(c.Edits) == 0 {
			r.testImage(t, newRecording(t, s, dir), dir)
		}
		for i, read := range s.reads {
			if read.Op == byTime {
				_ = s.byTimeDifference(t, m, i)
				continue
			}
			want, _ := r.wanted(t, s, m, read)
			got, err := ask(m, read)
			if err != nil {
				t.Fatal(err)
			}
			if !sameAnswer(got, want) {
				t.Errorf("%s: read %d, %s: the model says\n%s, not\n%s", s.name, i, showRead(read), show(got), show(want))
			}
		}
	}
}
