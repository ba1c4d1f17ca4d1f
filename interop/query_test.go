package interop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

// answersTo are the log offsets of the messages that a query by key is about:
// those of the topic that have the key and were stored within the bounds, the
// newest that many.
func (t *truth) answersTo(q question, looks map[int64]*seen) []int64 {
	var found []int64
	consider := func(k *kept) {
		m := looks[k.logOffset]
		if m != nil && hasKey(m, q.Topic, q.Key) && q.Begin <= m.StoreTime && m.StoreTime <= q.End {
			found = append(found, k.logOffset)
		}
	}
	for _, queue := range t.queues {
		for _, k := range queue {
			consider(k)
		}
	}
	for _, k := range t.unqueued {
		consider(k)
	}
	slices.Sort(found)
	return found[max(0, len(found)-q.MaxNum):]
}

// checkQueries wants the answers to queries exact.
func (t *truth) checkQueries(iv *interview) error {
	var errs []error
	looks := iv.looks()
	for i, q := range iv.questions {
		if q.Op != "query" {
			continue
		}
		if got, want := logOffsets(iv.answers[i].Records), t.answersTo(q, looks); !slices.Equal(got, want) {
			errs = append(errs, fmt.Errorf("%s: records at %d, want %d", show(q), got, want))
		}
	}
	return few(errs)
}

// hasKey reports whether the index holds the message under the key.
func hasKey(m *seen, topic, key string) bool {
	if m.Topic != topic || key == "" || message.SysFlag(m.SysFlag).Transaction() == message.TransactionRollback {
		return false
	}
	return m.Properties[message.PropertyUniqueKey] == key || slices.Contains(words(m), key)
}

// words are the keys of a message.
func words(m *seen) []string {
	return strings.FieldsFunc(m.Properties[message.PropertyKeys], func(r rune) bool { return r == ' ' })
}

// queryDifference wants PocketMQ's answer right. That of RocketMQ may name others,
// of the same hash or stored within a second of the bounds, and the same one more
// than once; their number may keep right ones out; and after a crash it may lack
// some.
func queryDifference(d *directory, pocket *interview, q question, r, p []recordPlace) string {
	looks := pocket.looks()
	right := func(record recordPlace) bool {
		m := looks[record.LogOffset]
		return m != nil && hasKey(m, q.Topic, q.Key) && q.Begin <= m.StoreTime && m.StoreTime <= q.End
	}
	if slices.ContainsFunc(p, func(record recordPlace) bool { return !right(record) }) {
		return "none"
	}
	if !slices.Equal(logOffsets(p), d.want.answersTo(q, looks)) {
		return "none"
	}
	if slices.Equal(r, p) {
		return ""
	}
	for _, record := range r {
		switch {
		case !right(record) || slices.Contains(p, record):
		case len(p) == q.MaxNum && record.LogOffset < p[0].LogOffset:
			return lost(d) // an older one, for a newer one that is not found
		default:
			return "none"
		}
	}
	missing := false
	for _, record := range p {
		if !slices.Contains(r, record) && len(r) < q.MaxNum && !nearly(q, looks[record.LogOffset]) {
			return lost(d)
		}
		missing = missing || !slices.Contains(r, record)
	}
	return moreThanAsked(q, r, looks, missing)
}

// moreThanAsked says why RocketMQ's answer is another than PocketMQ's: what is in
// it that should not, or, with missing, what is not.
func moreThanAsked(q question, r []recordPlace, looks map[int64]*seen, missing bool) string {
	times := make(map[int64]int) // that a record is in the answer
	for _, record := range r {
		m := looks[record.LogOffset]
		if m == nil {
			return "none"
		}
		if times[record.LogOffset]++; !hasKey(m, q.Topic, q.Key) {
			return "G-KEY-HASH"
		}
		if times[record.LogOffset] > sameHash(m, q.Key) {
			return "G-INDEX-AGAIN"
		}
	}
	for off, n := range times {
		if n > 1 {
			return "G-KEY-TWICE"
		}
		if t := looks[off].StoreTime; t < q.Begin || t > q.End {
			return "G-KEY-SECOND"
		}
	}
	if missing {
		return "G-KEY-SECOND"
	}
	return "none"
}

// sameHash counts the keys of a message that RocketMQ takes for the key.
func sameHash(m *seen, key string) int {
	n := 0
	for _, k := range append(words(m), m.Properties[message.PropertyUniqueKey]) {
		if k != "" && message.JavaHash(m.Topic+"#"+k) == message.JavaHash(m.Topic+"#"+key) {
			n++
		}
	}
	return n
}

// lost gives the difference that explains keys that are not found, if it may
// have come to that.
func lost(d *directory) string {
	if d.crashed {
		return "F40"
	}
	return "none"
}

// nearly reports whether a message was stored within a second of the bounds.
func nearly(q question, m *seen) bool {
	return abs(m.StoreTime-q.Begin) < 1000 || abs(m.StoreTime-q.End) < 1000
}

func abs(n int64) int64 { return max(n, -n) }

func logOffsets(records []recordPlace) []int64 {
	var all []int64
	for _, r := range records {
		all = append(all, r.LogOffset)
	}
	return all
}
