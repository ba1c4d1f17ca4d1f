package message

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// TimerTopic is where messages with an arbitrary delivery time wait, in queue 0.
const TimerTopic = "rmq_sys_wheel_timer"

// Properties of timed messages. An application sets one of the first three; the
// rest is the broker's. Source: RocketMQ 5 common/message/MessageConst.java.
const (
	PropertyTimerDeliverMillis = "TIMER_DELIVER_MS" // deliver at this time, ms since the Unix epoch
	PropertyTimerDelayMillis   = "TIMER_DELAY_MS"   // deliver so many ms after the broker got it; counts before TIMER_DELIVER_MS
	PropertyTimerDelaySeconds  = "TIMER_DELAY_SEC"  // the same in seconds; counts before both others
	PropertyTimerOutMillis     = "TIMER_OUT_MS"     // when a message that waits is due, ms since the Unix epoch
	PropertyTimerDeleteKey     = "TIMER_DEL_UNIQKEY"
)

// DeliverAt returns p with the time of delivery, to the millisecond, instead of
// any that it had. A time that is not in the future delivers at once. A delay
// level, in DELAY, counts more.
func (p Properties) DeliverAt(at time.Time) Properties {
	return p.withTimer(PropertyTimerDeliverMillis, at.UnixMilli())
}

// DeliverAfter is DeliverAt for a delay, in whole milliseconds, that begins when
// the broker gets the message.
func (p Properties) DeliverAfter(delay time.Duration) Properties {
	return p.withTimer(PropertyTimerDelayMillis, delay.Milliseconds())
}

func (p Properties) withTimer(name string, value int64) Properties {
	p, _ = p.WithoutTimer().With(name, strconv.FormatInt(value, 10)) // neither can be refused
	return p
}

// WithoutTimer returns p without what asks for a time of delivery.
func (p Properties) WithoutTimer() Properties {
	return p.Without(PropertyTimerDeliverMillis).Without(PropertyTimerDelayMillis).Without(PropertyTimerDelaySeconds)
}

// TimerDue is the time of delivery, in ms since the Unix epoch, that properties ask
// for when the broker gets them at now; timed is false if they ask for none. A
// text that is no 64-bit integer is an *IllegalError. Times beyond the largest
// integer count as that.
//
// Source: RocketMQ 5 broker/util/HookUtils.java, transformTimerMessage.
func (p Properties) TimerDue(now int64) (due int64, timed bool, err error) {
	if !strings.Contains(string(p), "TIMER_DE") { // nearly all
		return 0, false, nil
	}
	for _, f := range [...]struct {
		name       string
		from, unit int64
	}{
		{PropertyTimerDelaySeconds, now, 1000}, {PropertyTimerDelayMillis, now, 1}, {PropertyTimerDeliverMillis, 0, 1},
	} {
		text, ok := p.Get(f.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, true, &IllegalError{"property " + f.name, shorten(text), "is not a 64-bit integer"}
		}
		if n > (math.MaxInt64-f.from)/f.unit {
			return math.MaxInt64, true, nil
		}
		return f.from + max(n, -f.from/f.unit)*f.unit, true, nil // not before the epoch
	}
	return 0, false, nil
}

// ParkTimer returns m as it waits in the timer topic until due: topic and queue id
// replaced, the real ones and the time kept as properties. It fails when the
// properties would be too long.
//
// Source: RocketMQ 5 broker/util/HookUtils.java, transformTimerMessage.
func ParkTimer(m MessageExtBrokerInner, due int64) (MessageExtBrokerInner, error) {
	p := m.Properties
	for _, nv := range [...][2]string{
		{PropertyTimerOutMillis, strconv.FormatInt(due, 10)},
		{PropertyRealTopic, m.Topic},
		{PropertyRealQueueID, strconv.Itoa(int(m.QueueID))},
	} {
		var err error
		if p, err = p.With(nv[0], nv[1]); err != nil {
			return m, fmt.Errorf("timer: %w", err)
		}
	}
	if len(p) > MaxPropertiesLength {
		return m, &LimitError{Field: "properties", Limit: MaxPropertiesLength, Value: int64(len(p))}
	}
	m.Topic, m.QueueID, m.Properties = TimerTopic, 0, p
	return m, nil
}
