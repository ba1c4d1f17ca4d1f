package mq

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"runtime"
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
	defer catchFault(debug.SetPanicOnFault(true), &err)
	off = max(expected, v.QueueOffset())
	if !c.wanted(v) {
		return off, nil, nil
	}
	ext := v.Message()
	if err := checkBody(&ext); err != nil {
		return off, nil, err
	}
	if ext.SysFlag&message.FlagCompressed != 0 {
		if ext.Body, err = c.inflate(ext.SysFlag, ext.Body); err != nil {
			return off, nil, fmt.Errorf("%w: compressed body: %w", message.ErrCorrupt, err)
		}
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

// Bits of SysFlag that name the compressor in later versions of RocketMQ; none
// and the last one mean zlib.
const (
	compressorMask = 0x700
	compressorZlib = 0x300
)

func (c *copier) inflate(flag message.SysFlag, body []byte) ([]byte, error) {
	if k := flag & compressorMask; k != 0 && k != compressorZlib {
		return nil, fmt.Errorf("compressor %d is not known", k>>8)
	}
	r, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(c.maxBody)+1))
	if err == nil && len(out) > c.maxBody {
		err = &message.LimitError{Field: "inflated body", Limit: int64(c.maxBody), Value: int64(len(out))}
	}
	return out, errors.Join(err, r.Close())
}

// catchFault turns a memory fault of the function that defers it into an
// error. Other panics go on.
func catchFault(old bool, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		panic(r)
	}
	*err = fmt.Errorf("%w: the file can not be read: %w", message.ErrCorrupt, fault)
}
