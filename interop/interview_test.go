package interop

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
)

// interview is what a store was asked and has answered.
type interview struct {
	list      listing
	questions []question
	answers   []answer
}

// interview asks a store for everything: each message of each queue, and of the
// many possible gets a selection.
func (p *process) interview(d *directory) (*interview, error) {
	iv := &interview{}
	var err error
	if iv.list, err = p.list(d); err != nil {
		return nil, err
	}
	for _, q := range iv.list.Queues {
		for off := q.Min - 1; off <= q.Max; off++ {
			iv.questions = append(iv.questions, question{Op: "unit", queueKey: q.queueKey, Offset: off})
		}
	}
	if iv.answers, err = p.ask(d, iv.questions); err != nil {
		return nil, err
	}
	rest := iv.rest(d)
	more, err := p.ask(d, rest)
	iv.questions, iv.answers = append(iv.questions, rest...), append(iv.answers, more...)
	return iv, err
}

// again asks what was asked in an earlier interview.
func (p *process) again(d *directory, earlier *interview) (*interview, error) {
	list, err := p.list(d)
	if err != nil {
		return nil, err
	}
	answers, err := p.ask(d, earlier.questions)
	return &interview{list, earlier.questions, answers}, err
}

// rest draws what to ask when all units are known.
func (iv *interview) rest(d *directory) []question {
	qs := []question{{Op: "look", Offset: iv.list.MaxLog}}
	times := make(map[queueKey][]int64)
	for i, q := range iv.questions {
		if a := iv.answers[i]; a.Time >= 0 {
			qs = append(qs, question{Op: "look", Offset: a.Number})
			times[q.queueKey] = append(times[q.queueKey], a.Time)
		}
	}
	for _, k := range d.want.unqueued {
		qs = append(qs, question{Op: "look", Offset: k.logOffset})
	}
	qs = append(qs, queries(d, times)...)
	for _, q := range append(slices.Clone(iv.list.Queues), queueBounds{queueKey: queueKey{"no such topic", 1}}) {
		qs = append(qs, question{Op: "bounds", queueKey: q.queueKey}, question{Op: "earliest", queueKey: q.queueKey})
		qs = append(qs, gets(d, q)...)
		qs = append(qs, byTimes(d.rand, q.queueKey, times[q.queueKey])...)
	}
	return qs
}

// gets reads the queue from end to end, and from the offsets at its ends with
// various limits and tags.
func gets(d *directory, q queueBounds) []question {
	var qs []question
	for off := q.Min; off < q.Max; off += 8 {
		qs = append(qs, question{Op: "get", queueKey: q.queueKey, Offset: off, MaxNum: 8})
	}
	tags := []string{"", "*", "TagA", "TagA || TagB", "主😀||Ünïcode", "a||b", "nobody's"}
	for _, off := range []int64{q.Min - 1, q.Min, (q.Min + q.Max) / 2, q.Max - 1, q.Max, q.Max + 1, q.Max + 1000, 0} {
		for _, maxNum := range []int{1, oneOf(d.rand, []int{0, 2, 3, 31}), oneOf(d.rand, []int{32, 33, 1000})} {
			get := question{Op: "get", queueKey: q.queueKey, Offset: off, MaxNum: maxNum}
			filtered := get
			filtered.Tags = new(string)
			*filtered.Tags = oneOf(d.rand, tags)
			qs = append(qs, get, filtered)
		}
	}
	return qs
}

func byTimes(r *rand.Rand, key queueKey, times []int64) []question {
	asked := []int64{0, 1 << 45}
	if len(times) > 0 {
		first, some, last := times[0], oneOf(r, times), times[len(times)-1]
		asked = append(asked, first-1, first, some-1, some, some+1, (first+last)/2, last, last+1)
	}
	var qs []question
	for _, ms := range asked {
		qs = append(qs, question{Op: "byTime", queueKey: key, Time: ms})
	}
	return qs
}

// queries asks for keys, at any time and within a short one.
func queries(d *directory, times map[queueKey][]int64) []question {
	var qs []question
	ask := func(topic, key string, within []int64) {
		q := question{Op: "query", queueKey: queueKey{Topic: topic}, Key: key, MaxNum: oneOf(d.rand, []int{1, 2, 32}), End: 1 << 45}
		qs = append(qs, q)
		if len(within) > 0 {
			q.Begin, q.End = oneOf(d.rand, within), oneOf(d.rand, within)
			qs = append(qs, q)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(d.want.queues), queueKey.compare) {
		ask(key.Topic, oneOf(d.rand, d.pool.keys), times[key])
		ask(key.Topic, "nobody's", nil)
		some := oneOf(d.rand, d.want.queues[key])
		ask(key.Topic, some.Properties[message.PropertyUniqueKey], times[key])
	}
	return qs
}

// looks are the messages that were looked at, by log offset.
func (iv *interview) looks() map[int64]*seen {
	m := make(map[int64]*seen)
	for i, q := range iv.questions {
		if q.Op == "look" {
			m[q.Offset] = iv.answers[i].Message
		}
	}
	return m
}

// times are when the messages of a queue were stored, by queue offset.
func (iv *interview) times(key queueKey) map[int64]int64 {
	m := make(map[int64]int64)
	for i, q := range iv.questions {
		if q.Op == "unit" && q.queueKey == key && iv.answers[i].Time >= 0 {
			m[q.Offset] = iv.answers[i].Time
		}
	}
	return m
}

// met counts the accepted differences that were met, by id.
var met struct {
	mu     sync.Mutex
	counts map[string]int
}

// accept notes a difference, which must be one of those that these tests may
// meet.
func accept(id string) error {
	if !slices.ContainsFunc(golden.Differences, func(d golden.Difference) bool {
		return d.ID == id && (d.MetBy(golden.Interop) || d.MetBy(golden.InteropAtTimes))
	}) {
		return fmt.Errorf("%s is not among golden.Differences, for these tests", id)
	}
	met.mu.Lock()
	defer met.mu.Unlock()
	if met.counts == nil {
		met.counts = make(map[string]int)
	}
	met.counts[id]++
	return nil
}

// compare wants the answers of both sides equal but for accepted differences.
func compare(d *directory, rocket, pocket *interview) error {
	var errs []error
	list := pocket.list
	list.Queues = slices.DeleteFunc(slices.Clone(list.Queues), func(q queueBounds) bool { return q.queueKey == d.lost })
	if !reflect.DeepEqual(rocket.list, list) {
		errs = append(errs, fmt.Errorf("RocketMQ lists %s\nPocketMQ lists %s", show(rocket.list), show(list)))
	}
	for i, q := range rocket.questions {
		r, p := rocket.answers[i], pocket.answers[i]
		id := difference(d, pocket, q, r, p)
		if id == "" {
			continue
		}
		if err := accept(id); err != nil {
			errs = append(errs, fmt.Errorf("%s\nRocketMQ answers %s\nPocketMQ answers %s\n%w", show(q), show(r), show(p), err))
		}
	}
	return few(errs)
}

// unchanged wants what a side answers to be what it answered before.
func unchanged(before, now *interview) error {
	if !reflect.DeepEqual(before.list, now.list) {
		return fmt.Errorf("listed %s\nlists now %s", show(before.list), show(now.list))
	}
	for i, q := range before.questions {
		if b, n := before.answers[i], now.answers[i]; q.Op != "byTime" && !reflect.DeepEqual(b, n) {
			return fmt.Errorf("%s\nanswered %s\nanswers now %s", show(q), show(b), show(n))
		}
	}
	return nil
}

// difference gives the id of the one that explains two answers, "" if they are
// the same, and "none" if nothing does.
func difference(d *directory, pocket *interview, q question, r, p answer) string {
	switch q.Op {
	case "byTime":
		if q.queueKey == d.lost && r.Number == 0 {
			return "F35"
		}
		return byTimeDifference(d, pocket, q, r.Number, p.Number, p.Upper)
	case "query":
		return queryDifference(d, pocket, q, r.Records, p.Records)
	}
	if reflect.DeepEqual(r, p) {
		return ""
	}
	if q.queueKey == d.lost {
		return "F35"
	}
	if r.Status == "OFFSET_OVERFLOW_BADLY" && r.Min == 0 && r.Next == 0 && p.Next == p.Max {
		if r.Next = p.Next; reflect.DeepEqual(r, p) {
			return "F4"
		}
	}
	if q.Op == "get" && q.Topic == message.ScheduleTopic && q.Tags != nil && d.crashed && r.Min == p.Min && r.Max == p.Max {
		return "G-EARLY" // the units differ, and the tags code is all that can be seen of it
	}
	return "none"
}

// byTimeDifference wants of RocketMQ a message of exactly that time, if there is
// one, and else one of PocketMQ's boundaries. F20 explains an answer that is
// right for the messages of one file.
func byTimeDifference(d *directory, pocket *interview, q question, n, lower, upper int64) string {
	times := pocket.times(q.queueKey)
	i := slices.IndexFunc(pocket.list.Queues, func(b queueBounds) bool { return b.queueKey == q.queueKey })
	if i < 0 {
		if n == 0 && lower == 0 && upper == 0 {
			return ""
		}
		return "none"
	}
	from, to := pocket.list.Queues[i].Min, pocket.list.Queues[i].Max
	if wantLower, wantUpper := boundaries(times, q.Time, from, to); lower != wantLower || upper != wantUpper {
		return "none"
	}
	if answersTime(times, n, q.Time, from, to) {
		return ""
	}
	units := d.args.QueueFileSize / 20
	for start := from - from%units; start < to; start += units {
		if answersTime(times, n, q.Time, max(from, start), min(to, start+units)) {
			return "F20"
		}
	}
	return "none"
}

// answersTime reports whether n is a message of [from, to) that was stored at
// ms, or, when there is none, a boundary.
func answersTime(times map[int64]int64, n, ms, from, to int64) bool {
	lower, upper := boundaries(times, ms, from, to)
	if lower < to && times[lower] == ms {
		return n >= from && n < to && times[n] == ms
	}
	return n == lower || n == upper
}

// boundaries are the first message of [from, to) that was stored at ms or
// later, to if there is none, and the last that was stored at ms or earlier, from
// if there is none.
func boundaries(times map[int64]int64, ms, from, to int64) (lower, upper int64) {
	lower, upper = to, from
	for off := to - 1; off >= from && times[off] >= ms; off-- {
		lower = off
	}
	for off := from; off < to && times[off] <= ms; off++ {
		upper = off
	}
	return lower, upper
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
