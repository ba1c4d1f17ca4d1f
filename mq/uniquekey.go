package mq

import (
	"math/rand/v2"
	"net/netip"
	"os"
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
