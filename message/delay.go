package message

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ScheduleTopic is where delayed messages wait, level n in queue n-1.
const ScheduleTopic = "SCHEDULE_TOPIC_XXXX"

// DefaultDelayLevels is RocketMQ's table of 18 levels.
const DefaultDelayLevels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// DelayLevels are the delays by level; level 1 is the first element.
type DelayLevels []time.Duration

// ParseDelayLevels reads a table such as DefaultDelayLevels: items separated by
// spaces, each a whole number and a unit s, m, h or d.
func ParseDelayLevels(table string) (DelayLevels, error) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	var levels DelayLevels
	for item := range strings.FieldsSeq(table) {
		unit, ok := units[item[len(item)-1]]
		n, err := strconv.ParseInt(item[:len(item)-1], 10, 64)
		if !ok || err != nil || n < 0 || n > int64(math.MaxInt64/unit) {
			return nil, &IllegalError{"delay levels", item, "is not a whole number with a unit s, m, h or d"}
		}
		levels = append(levels, time.Duration(n)*unit)
	}
	return levels, nil
}

// Level reads the DELAY property: 0 for none, zero or negative; a level above
// the highest is the highest. A text that is no 32-bit integer is an *IllegalError.
func (d DelayLevels) Level(p Properties) (int, error) {
	s, ok := p.Get(PropertyDelayLevel)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, &IllegalError{"property DELAY", shorten(s), "is not a 32-bit integer"}
	}
	return int(min(max(n, 0), int64(len(d)))), nil
}

// DeliveryTime is when a message stored at storeTimestamp (ms) with this level
// is due, in ms since the Unix epoch. An unknown level waits for a second.
func (d DelayLevels) DeliveryTime(level int, storeTimestamp int64) int64 {
	if level < 1 || level > len(d) {
		return storeTimestamp + 1000
	}
	return storeTimestamp + d[level-1].Milliseconds()
}

// Park returns m as it waits in the schedule topic: topic and queue id replaced
// by those of its level, the real ones kept as properties, DELAY lowered to the
// highest level. A message without a level, or in transaction, comes back
// unchanged. It fails like Level, or when the properties would be too long.
//
// Source: RocketMQ store/CommitLog.java, asyncPutMessage.
func (d DelayLevels) Park(m MessageExtBrokerInner) (MessageExtBrokerInner, error) {
	level, err := d.Level(m.Properties)
	if err != nil || level == 0 || !m.SysFlag.Queued() {
		return m, err
	}
	p := m.Properties
	for _, nv := range [...][2]string{
		{PropertyDelayLevel, strconv.Itoa(level)},
		{PropertyRealTopic, m.Topic},
		{PropertyRealQueueID, strconv.Itoa(int(m.QueueID))},
	} {
		if p, err = p.With(nv[0], nv[1]); err != nil {
			return m, fmt.Errorf("delay: %w", err)
		}
	}
	if len(p) > MaxPropertiesLength {
		return m, &LimitError{Field: "properties", Limit: MaxPropertiesLength, Value: int64(len(p))}
	}
	m.Topic, m.QueueID, m.Properties = ScheduleTopic, int32(level-1), p
	return m, nil
}

// TagsCode is what the consume queue keeps for the record: the hash of its tag,
// or for a parked one the time it is due. A parked record whose DELAY is no
// number (which Park never writes) counts as one without a level.
//
// Source: RocketMQ store/CommitLog.java, checkMessageAndReturnSize.
func (d DelayLevels) TagsCode(v View) int64 {
	m := v.Marks()
	return d.TagsCodeOf(v, &m)
}

// TagsCodeOf is TagsCode by the marks of the record.
func (d DelayLevels) TagsCodeOf(v View, m *Marks) int64 {
	if string(v.Topic()) == ScheduleTopic {
		level, err := d.Level(Properties(bytesString(v.Properties())))
		if err == nil && level > 0 {
			return d.DeliveryTime(level, v.StoreTimestamp())
		}
	}
	return TagsCode(m.Tags)
}

// DispatchRequest is one record on its way from the log to what is derived from
// it. The View is valid only during the call that receives it.
type DispatchRequest struct {
	View
	Marks

	TagsCode int64
}

// Read makes r the request of the record v.
func (r *DispatchRequest) Read(v View, d DelayLevels) {
	r.View = v
	r.Marks.Read(v)
	r.TagsCode = d.TagsCodeOf(v, &r.Marks)
}
