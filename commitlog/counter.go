package commitlog

import "github.com/pocketmq/pocketmq/message"

// NextOffset is the number that the counter's next message gets. It takes the put
// lock for a moment.
func (l *Log) NextOffset(c *Counter) message.QueueOffset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.next
}
