package message

// LogOffset is a byte position in the commit log: the concatenation of all its
// files, starting at 0 in a new store. RocketMQ calls it the physical offset.
type LogOffset int64

// QueueOffset is the ordinal of a message within one (topic, queue id). The
// first message of a queue is 0. RocketMQ calls it the logic offset.
type QueueOffset int64
