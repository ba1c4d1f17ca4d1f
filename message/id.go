package message

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// OffsetMessageID names a record by store and place.
//
//	offset size  field
//	     0 4|16  store host's address
//	   4|16    4 store host's port
//	   8|20    8 log offset
//
// Its text is upper-case hex, 32 or 56 characters.
//
// Source: RocketMQ common/message/MessageDecoder.java, createMessageId.
type OffsetMessageID struct {
	Host   Host
	Offset LogOffset
}

func (id OffsetMessageID) String() string {
	var b [hostWidthV6 + 8]byte
	n := id.Host.put(b[:])
	binary.BigEndian.PutUint64(b[n:], uint64(id.Offset))
	return upperHex(b[:n+8])
}

// ParseOffsetMessageID reads the text of an OffsetMessageID.
func ParseOffsetMessageID(s string) (OffsetMessageID, error) {
	var width int
	switch len(s) {
	case 2 * (hostWidthV4 + 8):
		width = hostWidthV4
	case 2 * (hostWidthV6 + 8):
		width = hostWidthV6
	default:
		return OffsetMessageID{}, &IllegalError{"message id", shorten(s), fmt.Sprintf("has %d characters, not 32 or 56", len(s))}
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return OffsetMessageID{}, &IllegalError{"message id", shorten(s), "is not hexadecimal"}
	}
	return OffsetMessageID{hostAt(b, width), LogOffset(binary.BigEndian.Uint64(b[width:]))}, nil
}

// UniqueID is the id that a producer gives a message, stored as UNIQ_KEY.
//
//	offset size field
//	     0    4 address
//	     4    2 process id, low bits
//	     6    4 constant of the process
//	    10    4 ms since 00:00 local time of the first day of the month
//	    14    2 counter of the process
//
// Its text is upper-case hex, 32 characters.
//
// Source: RocketMQ common/message/MessageClientIDSetter.java, createUniqID.
type UniqueID [16]byte

func (id UniqueID) String() string { return upperHex(id[:]) }

// UniqueIDs makes unique ids. Its methods may be called concurrently.
type UniqueIDs struct {
	prefix [10]byte
	now    func() time.Time

	mu      sync.Mutex
	counter uint16
	base    time.Time // start of the current month
	next    time.Time // start of the following month
}

// NewUniqueIDs returns a source of ids whose first ten bytes are the IPv4
// address (0.0.0.0 where addr is none), the low 16 bits of pid and the constant
// instance. No network interface is looked up: the caller chooses an address
// and a constant that differ between processes. now is the clock, time.Now
// outside tests.
func NewUniqueIDs(addr netip.Addr, pid int, instance uint32, now func() time.Time) *UniqueIDs {
	u := &UniqueIDs{now: now}
	a := Host{Addr: addr.Unmap()}.v4().As4()
	copy(u.prefix[:], a[:])
	binary.BigEndian.PutUint16(u.prefix[4:], uint16(pid))
	binary.BigEndian.PutUint32(u.prefix[6:], instance)
	return u
}

// Next returns an id that differs from those of the 65,535 calls before it, and
// from all of other milliseconds of the month, as long as the clock does not go
// back.
func (u *UniqueIDs) Next() UniqueID {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if u.base.IsZero() || !now.Before(u.next) || u.base.Sub(now) >= monthSlack {
		u.base = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location())
		u.next = u.base.AddDate(0, 1, 0)
	}
	var id UniqueID
	copy(id[:], u.prefix[:])
	binary.BigEndian.PutUint32(id[10:], uint32(max(0, now.Sub(u.base).Milliseconds())))
	binary.BigEndian.PutUint16(id[14:], u.counter)
	u.counter++
	return id
}

// monthSlack is how far a clock may step back over the start of the month
// before the month is taken anew; less counts as time 0.
const monthSlack = 1_000_000 * time.Millisecond

func upperHex(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) }
