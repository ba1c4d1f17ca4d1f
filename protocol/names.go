package protocol

import (
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

// Names with a meaning.
const (
	// TemplateTopic is the topic after which others are made on first use.
	TemplateTopic = "TBW102"
	// TraceTopic is where clients report what they sent and consumed, if nothing else
	// is said.
	TraceTopic = "RMQ_SYS_TRACE_TOPIC"

	RetryPrefix      = "%RETRY%"
	DeadLetterPrefix = "%DLQ%"

	halfTopic         = "RMQ_SYS_TRANS_HALF_TOPIC"
	opTopic           = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	checkMaxTimeTopic = "TRANS_CHECK_MAX_TIME_TOPIC"
	selfTestTopic     = "SELF_TEST_TOPIC"
	benchmarkTopic    = "BenchmarkTest"
	movedTopic        = "OFFSET_MOVED_EVENT"
	systemPrefix      = "rmq_sys_"

	// MaxGroupLength limits the names of groups, in bytes.
	MaxGroupLength = 255
)

// CheckTopic refuses what is no name of a topic, in this order: blank, longer
// than 127 bytes, characters other than ASCII letters, digits and "%-_|". The
// error is a *message.IllegalError or a *message.LimitError.
func CheckTopic(topic string) error { return checkName("topic", topic, message.MaxTopicLength) }

// CheckGroup is CheckTopic for the names of groups, which take up to 255 bytes.
func CheckGroup(group string) error { return checkName("group", group, MaxGroupLength) }

// CheckSendTopic refuses topics that applications do not send to, because the
// broker gives their messages a meaning of its own.
//
// Source: RocketMQ common/topic/TopicValidator.java; the list is that of
// 4.9.8, and the topic of timed messages.
func CheckSendTopic(topic string) error {
	switch topic {
	case message.ScheduleTopic, message.TimerTopic, halfTopic, opTopic, checkMaxTimeTopic, selfTestTopic, movedTopic:
		return &message.IllegalError{Field: "topic", Value: topic, Reason: "is reserved: sending to it is forbidden"}
	}
	return nil
}

// IsSystemTopic reports whether a broker makes the topic for itself.
func IsSystemTopic(topic string) bool {
	switch topic {
	case TemplateTopic, message.ScheduleTopic, halfTopic, opTopic, checkMaxTimeTopic, selfTestTopic,
		benchmarkTopic, TraceTopic, movedTopic:
		return true
	}
	return strings.HasPrefix(topic, systemPrefix)
}

func checkName(field, name string, limit int) error {
	switch {
	case strings.TrimSpace(name) == "":
		return &message.IllegalError{Field: field, Value: name, Reason: "is blank"}
	case len(name) > limit:
		return &message.LimitError{Field: field, Limit: int64(limit), Value: int64(len(name))}
	case strings.ContainsFunc(name, notForNames):
		return &message.IllegalError{Field: field, Value: name, Reason: "has a character other than ASCII letters, digits and %-_|"}
	}
	return nil
}

func notForNames(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("%-_|", r)
}
