package broker

import (
	"strconv"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// checkRules say when clients are asked about a half message.
type checkRules struct {
	timeout, interval, maxAge time.Duration
	max, rate                 int
}

func rulesOf(c Config) checkRules {
	return checkRules{c.TransactionTimeout, c.TransactionCheckInterval, c.TransactionMaxAge, c.TransactionCheckMax, c.TransactionCheckRate}
}

// readAfter is how long half messages may stay unread.
func (r checkRules) readAfter() time.Duration { return min(r.timeout, time.Second) }

// first is when a client is first asked, in ms.
func (r checkRules) first(born, stored int64, p message.Properties) int64 {
	after, ok := immunity(p)
	if !ok {
		after = r.timeout
	}
	return sentAt(born, stored) + after.Milliseconds()
}

// sentAt is when a message was sent. The producer's clock counts, unless it is
// ahead or did not say.
func sentAt(born, stored int64) int64 {
	if born <= 0 {
		return stored
	}
	return min(born, stored)
}

// pause is the one after so many questions: with the defaults 30 s, and then a
// minute each.
func (r checkRules) pause(asked int) time.Duration {
	d := r.timeout
	for range asked {
		if d > r.interval/5 {
			return r.interval
		}
		d *= 5
	}
	return d
}

// checkLate refuses to end a transaction without having been asked, when there is
// an immunity and it is over: somebody may have answered already.
func (r checkRules) checkLate(m *message.MessageExt, now time.Time) error {
	d, ok := immunity(m.Properties)
	if !ok || now.UnixMilli()-m.BornTimestamp <= d.Milliseconds() {
		return nil
	}
	return refuse(protocol.IllegalOperation, "the message's immunity from checks is over: the broker asks about it", nil)
}

// immunity is how long after its birth nobody is to be asked about a message, if it
// says so.
func immunity(p message.Properties) (time.Duration, bool) {
	text, ok := p.Get(protocol.PropertyCheckImmunity)
	n, err := strconv.ParseInt(text, 10, 32)
	return time.Duration(n) * time.Second, ok && err == nil && n >= 0
}

// checkQuota counts the questions to each client in the current second.
type checkQuota struct {
	second int64
	asked  map[string]int
}

// take reports whether the client may be asked once more.
func (q *checkQuota) take(client string, now time.Time, rate int) bool {
	if s := now.Unix(); s != q.second || q.asked == nil {
		q.second, q.asked = s, map[string]int{}
	}
	if q.asked[client] >= rate {
		return false
	}
	q.asked[client]++
	return true
}
