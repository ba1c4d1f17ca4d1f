package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pocketmq/pocketmq/internal/golden"
)

// wantedQuery is wanted for a question by key: the model's answer. Each message
// by which RocketMQ's differs must have its reason.
func (s readSet) wantedQuery(t *testing.T, m *model, read golden.Read, rocket *golden.QueryResult) (want *golden.QueryResult, id string) {
	t.Helper()
	want, err := m.query(read)
	if err != nil {
		t.Fatal(err)
	}
	note := func(off int64, reason string) {
		if reason == "" {
			t.Errorf("%s: %s: no reason why RocketMQ answers otherwise for %d: %v instead of %v", s.name, showRead(read), off, rocket, want)
		}
		if id == "" {
			id = reason
		}
	}
	for i, off := range rocket.Offsets {
		if !slices.Contains(want.Offsets, off) {
			note(off, m.superfluous(read, off))
		} else if slices.Contains(rocket.Offsets[:i], off) {
			note(off, s.twice(m, read, off))
		}
	}
	for _, off := range want.Offsets {
		if !slices.Contains(rocket.Offsets, off) {
			note(off, s.missed(m, read, rocket, off))
		}
	}
	update, none := *rocket, golden.QueryResult{}
	if update.Offsets = want.Offsets; !sameAnswer(&update, want) {
		reason := ""
		switch {
		case sameAnswer(rocket, &none):
			reason = "G-KEY-UPDATE"
		case s.name == "topic_utf8_overlong": // RocketMQ did not get to the last record
			reason = "F36"
		case update.IndexLastUpdatePhyoffset >= m.maxLog:
			reason = "G-INDEX-BEHIND"
		}
		note(update.IndexLastUpdatePhyoffset, reason)
	}
	return want, id
}

// superfluous says why RocketMQ answers with a message that the model leaves
// out.
func (m *model) superfluous(read golden.Read, off int64) string {
	v, ok := m.records[off]
	switch {
	case !ok:
		return ""
	case string(v.Topic()) != read.Topic || !slices.Contains(keysOf(v), read.Key):
		return "G-KEY-HASH"
	case withinSecond(read.End, v.StoreTimestamp()):
		return "G-KEY-SECOND"
	}
	return ""
}

// twice says why RocketMQ answers with one message two times.
func (s readSet) twice(m *model, read golden.Read, off int64) string {
	v := m.records[off]
	n, hash := 0, javaAbs(read.Topic+"#"+read.Key)
	for _, key := range keysOf(v) {
		if javaAbs(string(v.Topic())+"#"+key) == hash { // such as Aa and BB
			n++
		}
	}
	switch {
	case n > 1:
		return "G-KEY-TWICE"
	case strings.Contains(s.name, "crash_") && slices.Contains(m.lastOfFiles(s.config), off):
		return "G-INDEX-AGAIN"
	}
	return ""
}

// missed says why RocketMQ leaves out a message that has the key.
func (s readSet) missed(m *model, read golden.Read, rocket *golden.QueryResult, off int64) string {
	v := m.records[off]
	foreign := func(off int64) bool { return m.superfluous(read, off) == "G-KEY-HASH" }
	switch {
	case s.name == "topic_utf8_overlong" && len(read.Topic) == 129:
		return "G-UNSIGNED"
	case s.name == "topic_utf8_overlong" && read.Topic == "Ok":
		return "F36"
	case len(rocket.Offsets) == min(read.MaxNum, maxQueryResults) && slices.ContainsFunc(rocket.Offsets, foreign):
		return "G-KEY-HASH"
	case len(rocket.Offsets) == min(read.MaxNum, maxQueryResults) && len(slices.Compact(slices.Clone(rocket.Offsets))) < len(rocket.Offsets):
		return "G-KEY-TWICE"
	case withinSecond(read.Begin, v.StoreTimestamp()):
		return "G-KEY-SECOND"
	}
	return ""
}

// withinSecond reports whether b is at most a second after a.
func withinSecond(a, b int64) bool { return a <= b && b-a < 1000 }

// lastOfFiles lists the records with which index files end.
func (m *model) lastOfFiles(config golden.Config) (last []int64) {
	for _, b := range m.index(config).files {
		last = append(last, indexState(b).EndPhyOffset)
	}
	return last
}
