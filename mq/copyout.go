package mq

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

// copier makes messages of records: it verifies, filters by the tags
// themselves, copies and inflates.
type copier struct {
	tags    []string // exactly one of them; nil for all
	maxBody int      // bytes of an inflated body
}

// parseTags returns the tags of an expression, nil for all messages.
func parseTags(expression string) []string {
	if message.ParseTagFilter(expression).MatchesAll() {
		return nil
	}
	tags := []string{}
	for tag := range strings.SplitSeq(expression, "||") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// copyOut returns the record's queue offset and its message, or nil when its
// tag is not wanted. The record may lie in a mapped file: a fault while reading
// it is an error, like a checksum that does not match the body. The offset is
// the expected one where it can not be read.
func (c *copier) copyOut(v message.View, expected message.QueueOffset) (off message.QueueOffset, m *message.MessageExt, err error) {
	off = expected //nolint:wastedassign // it is what counts after a fault
	defer message.CatchFault(debug.SetPanicOnFault(true), &err)
	off = max(expected, v.QueueOffset())
	if !c.wanted(v) {
		return off, nil, nil
	}
	ext := v.Message()
	if err := checkBody(&ext); err != nil {
		return off, nil, err
	}
	if ext.Body, err = message.Inflate(ext.SysFlag, ext.Body, c.maxBody); err != nil {
		return off, nil, err
	}
	return off, &ext, nil
}

func (c *copier) wanted(v message.View) bool {
	if c.tags == nil {
		return true
	}
	tag, _ := v.Property(message.PropertyTags)
	return slices.ContainsFunc(c.tags, func(t string) bool { return t == string(tag) })
}

// checkBody verifies the copy, so that what is verified is what is delivered.
func checkBody(m *message.MessageExt) error {
	if len(m.Body) == 0 {
		return nil
	}
	if got := message.BodyCRC(m.Body); got != m.BodyCRC {
		return fmt.Errorf("%w: body checksum %08x, the record says %08x", message.ErrCorrupt, got, m.BodyCRC)
	}
	return nil
}
