package mq

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// clientHost stands in client ids where RocketMQ has an address of the machine: in
// one process all clients are at the same place, and nobody has to look it up.
const clientHost = "127.0.0.1"

// isNamed reports whether an instance has a name of its own. RocketMQ's default is
// none.
func isNamed(instanceName string) bool { return instanceName != "" && instanceName != "DEFAULT" }

// clientID is what brokers know a client by.
//
// Source: RocketMQ client/ClientConfig.java, buildMQClientId.
func clientID(instanceName, unitName string) string {
	id := clientHost + "@" + instanceName
	if unitName != "" {
		id += "@" + unitName
	}
	return id
}

// lastInstance is when the last unnamed instance was made, ns since the Unix epoch.
var lastInstance atomic.Int64

// newInstanceName makes a name that no other instance has: "pid#nanoseconds". Two
// at one tick of the clock get different ones.
func newInstanceName() string {
	for {
		last := lastInstance.Load()
		now := max(time.Now().UnixNano(), last+1)
		if lastInstance.CompareAndSwap(last, now) {
			return fmt.Sprintf("%d#%d", os.Getpid(), now)
		}
	}
}

// maxInstanceName limits the names of instances and units, in bytes: requests
// carry them.
const maxInstanceName = 255

// checkInstanceName wants what can stand in a client id and in a property.
func checkInstanceName(field, name string) error {
	switch {
	case len(name) > maxInstanceName:
		return &message.LimitError{Field: "Config." + field, Limit: maxInstanceName, Value: int64(len(name))}
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '@' }):
		return &message.IllegalError{Field: "Config." + field, Value: name, Reason: "has a character other than those of ASCII that can be seen, without @"}
	}
	return nil
}
