package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
)

// pocketmq/timers is what waits in the topic of timed messages. The tables are in
// store/derived.go and broker/timerfile.go.
const (
	timersFile    = "timers"
	timersMagic   = "PMQTIMER"
	timersVersion = 1
	timersHeader  = 64
	timersEntry   = 24
)

// timersHead is what comes before the timers.
type timersHead struct {
	generation       uint64
	next, last, mark int64
	count            int64
}

// parseTimers reads the head, and checks the rest of the file. A placedError says
// where it is wrong.
func parseTimers(b []byte) (h timersHead, err error) {
	if len(b) < timersHeader {
		return h, &placedError{int64(len(b)), fmt.Errorf("ends after %d bytes, its head has %d", len(b), timersHeader)}
	}
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	h = timersHead{u64(8), int64(u64(32)), int64(u64(40)), int64(u64(48)), int64(u64(56))}
	switch v := binary.BigEndian.Uint32(b[24:]); {
	case u64(0) != xxhash.Sum64(b[8:]):
		return h, errors.New("checksum does not match")
	case string(b[16:24]) != timersMagic:
		return h, &placedError{16, errors.New("does not begin as a file of timers")}
	case v != timersVersion:
		return h, &placedError{24, fmt.Errorf("version %d, this program reads %d", v, timersVersion)}
	case h.count < 0 || h.count != int64((len(b)-timersHeader)/timersEntry) || (len(b)-timersHeader)%timersEntry != 0:
		return h, &placedError{56, fmt.Errorf("%d timers in %d bytes", h.count, len(b)-timersHeader)}
	}
	before := int64(-1)
	for at := timersHeader; at < len(b); at += timersEntry {
		off := int64(u64(at))
		if off <= before || off >= h.next {
			return h, &placedError{int64(at), fmt.Errorf("queue offset %d is not in order", off)}
		}
		before = off
	}
	return h, nil
}

// timers tells of what waits.
func (d *dumper) timers() error {
	b, err := d.all()
	if err != nil {
		return err
	}
	h, why := parseTimers(b)
	if why != nil {
		return d.tell(offsetOf(why), EntryDamage, Field{"size", int64(len(b)) - offsetOf(why)}, Field{"why", why.Error()})
	}
	err = d.tell(0, EntryTimers, Field{"generation", int64(h.generation)}, Field{"next", h.next}, Field{"last", h.last}, Field{"mark", h.mark}, Field{"count", h.count})
	for at := timersHeader; at < len(b) && err == nil; at += timersEntry {
		off, due, key := binary.BigEndian.Uint64(b[at:]), binary.BigEndian.Uint64(b[at+8:]), binary.BigEndian.Uint64(b[at+16:])
		err = d.item(int64(at), EntryTimer, Field{"queueOffset", int64(off)}, Field{"due", time.UnixMilli(int64(due))}, Field{"idHash", fmt.Sprintf("%016x", key)})
	}
	return err
}
