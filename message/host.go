package message

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
)

// Host is the address of a producer or a store as a record holds it: an IPv4
// or IPv6 address and a 32-bit port. The zero Host is written as 0.0.0.0:0.
// It is a value; compare with ==.
type Host struct {
	Addr netip.Addr
	Port int32
}

// ParseHost reads "address:port" ("[address]:port" for IPv6). The address must
// be numeric: nothing is looked up.
func ParseHost(s string) (Host, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return Host{}, fmt.Errorf("host %q: %w", shorten(s), err)
	}
	return Host{Addr: ap.Addr().WithZone(""), Port: int32(ap.Port())}, nil
}

// String gives "address:port", with brackets around an IPv6 address.
func (h Host) String() string {
	if !h.IsV6() {
		return h.v4().String() + ":" + strconv.FormatInt(int64(h.Port), 10)
	}
	return "[" + h.Addr.String() + "]:" + strconv.FormatInt(int64(h.Port), 10)
}

// IsV6 reports whether the host takes 16 address bytes in a record. An
// IPv4-mapped IPv6 address is one: the width follows the form of the address.
func (h Host) IsV6() bool { return h.Addr.Is6() }

// Host layout, big-endian, 8 or 20 bytes; the record's sysFlag says which:
//
//	offset size  field
//	     0 4|16  address
//	   4|16    4 port
//
// Source: RocketMQ common/message/MessageExt.java, socketAddress2ByteBuffer.
const (
	hostWidthV4 = 4 + 4
	hostWidthV6 = 16 + 4
)

func (h Host) width() int {
	if h.IsV6() {
		return hostWidthV6
	}
	return hostWidthV4
}

func (h Host) v4() netip.Addr {
	if h.Addr.Is4() {
		return h.Addr
	}
	return netip.AddrFrom4([4]byte{})
}

// put writes the host at the start of dst and returns its width.
func (h Host) put(dst []byte) int {
	if h.IsV6() {
		a := h.Addr.As16()
		copy(dst, a[:])
		binary.BigEndian.PutUint32(dst[16:], uint32(h.Port))
		return hostWidthV6
	}
	a := h.v4().As4()
	copy(dst, a[:])
	binary.BigEndian.PutUint32(dst[4:], uint32(h.Port))
	return hostWidthV4
}

// hostAt reads a host of the given width; b holds at least that many bytes.
func hostAt(b []byte, width int) Host {
	if width == hostWidthV6 {
		return Host{netip.AddrFrom16([16]byte(b[:16])), int32(binary.BigEndian.Uint32(b[16:]))}
	}
	return Host{netip.AddrFrom4([4]byte(b[:4])), int32(binary.BigEndian.Uint32(b[4:]))}
}
