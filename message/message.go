package message

import "strings"

// Message is what an application sends. Nothing in PocketMQ modifies a
// caller's Message or its Body, so one may be sent from many goroutines; the
// body must not change while a send is under way.
type Message struct {
	Topic      string     // UTF-8, 1 to 127 bytes
	Flag       int32      // opaque, stored as it is
	Body       []byte     // nil and empty are the same on disk
	Properties Properties // see the Property constants for those with a meaning
}

// Tags returns the message's tag, "" for none.
func (m *Message) Tags() string {
	v, _ := m.Properties.Get(PropertyTags)
	return v
}

// Keys returns the message's index keys in order. Spaces separate them; any
// other white space is part of a key.
func (m *Message) Keys() []string {
	v, _ := m.Properties.Get(PropertyKeys)
	return strings.FieldsFunc(v, func(r rune) bool { return r == ' ' })
}

// UniqueKey returns the id that the producer gave the message, "" for none.
func (m *Message) UniqueKey() string {
	v, _ := m.Properties.Get(PropertyUniqueKey)
	return v
}

// MessageExt is a message as it was stored and is consumed: Message plus what
// producer, broker and store added.
type MessageExt struct { //nolint:revive // the name is RocketMQ's
	Message

	BrokerName string // filled by the client; not in the record
	QueueID    int32
	StoreSize  int32 // bytes of the whole record

	QueueOffset QueueOffset
	LogOffset   LogOffset
	SysFlag     SysFlag
	BodyCRC     uint32 // CRC-32 (IEEE) of the body as stored, top bit cleared

	BornTimestamp  int64 // producer's clock, ms since the Unix epoch
	BornHost       Host
	StoreTimestamp int64 // store's clock, ms since the Unix epoch
	StoreHost      Host

	ReconsumeTimes            int32
	PreparedTransactionOffset LogOffset
}

// OffsetMessageID is the id that names the record by its place in the log.
func (m *MessageExt) OffsetMessageID() OffsetMessageID {
	return OffsetMessageID{m.StoreHost, m.LogOffset}
}

// ID returns the producer's unique key where there is one, else the text of
// the offset message id.
func (m *MessageExt) ID() string {
	if k := m.UniqueKey(); k != "" {
		return k
	}
	return m.OffsetMessageID().String()
}

// MessageExtBrokerInner is a message on its way into a store. The store assigns
// QueueOffset, LogOffset, StoreTimestamp, StoreSize, BodyCRC and the address
// bits of SysFlag; what the caller put there is ignored. A zero StoreHost
// stands for the store's own.
type MessageExtBrokerInner struct { //nolint:revive // the name is RocketMQ's
	MessageExt

	// NoWait asks the store not to wait for the sync that FlushSync promises
	// (RocketMQ's property WAIT=false). The put returns when the message has
	// its place; the next sync takes it along.
	NoWait bool
}

// MessageExtBatch is a batch on its way into a store: Body holds elements in
// the form of AppendBatchElement, everything else is common to them. The
// batch's Properties are added to those of each element.
type MessageExtBatch struct { //nolint:revive // the name is RocketMQ's
	MessageExtBrokerInner
}
