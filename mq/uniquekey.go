package mq

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// uniqueIDs is the one source of a process. Address and constant are random
// instead of looked up, which makes ids of different processes differ just as
// well.
var uniqueIDs = sync.OnceValue(func() *message.UniqueIDs {
	a := rand.Uint32()
	addr := netip.AddrFrom4([4]byte{byte(a), byte(a >> 8), byte(a >> 16), byte(a >> 24)})
	return message.NewUniqueIDs(addr, os.Getpid(), rand.Uint32(), time.Now)
})

// withUniqueKey returns the properties with UNIQ_KEY added at the end when they
// have none, and its value. It allocates once: the value lies in the properties.
func withUniqueKey(p message.Properties) (message.Properties, string) {
	if key, ok := p.Get(message.PropertyUniqueKey); ok {
		return p, key
	}
	id := uniqueIDs().Next()
	var b strings.Builder
	b.Grow(len(p) + 1 + len(message.PropertyUniqueKey) + 1 + 2*len(id))
	b.WriteString(string(p))
	if len(p) > 0 && p[len(p)-1] != 0x02 {
		b.WriteByte(0x02)
	}
	b.WriteString(message.PropertyUniqueKey)
	b.WriteByte(0x01)
	const digits = "0123456789ABCDEF"
	for _, c := range id {
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&0xF])
	}
	s := b.String()
	return message.Properties(s), s[len(s)-2*len(id):]
}
