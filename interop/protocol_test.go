package interop

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Both stores are driven in processes of their own, over standard input and
// output, by the same commands: a JSON object a line, and a line for each reply.
// The commands of one store are done in order. See Driver.java and peer_test.go.

type command struct {
	ID    int64  `json:"id"`
	Store string `json:"store"`
	Op    string `json:"op"` // open, put, list, ask, close

	Open *openArgs `json:"open,omitempty"` // of open

	Message   *put       `json:"message,omitempty"`   // of put
	Questions []question `json:"questions,omitempty"` // of ask
}

type reply struct {
	ID     int64           `json:"id"`
	Error  string          `json:"error"`
	Result json.RawMessage `json:"result"`
}

// openArgs says how a store is opened.
type openArgs struct {
	Dir           string `json:"dir"`
	SegmentSize   int64  `json:"segmentSize"`
	QueueFileSize int64  `json:"queueFileSize"`
	IndexSlots    int    `json:"indexSlots"`
	IndexEntries  int    `json:"indexEntries"`
	Sync          bool   `json:"sync"` // SYNC_FLUSH, else ASYNC_FLUSH
}

// placement is the answer to a put.
type placement struct {
	Status      string `json:"status"`
	Append      string `json:"append"` // RocketMQ only
	LogOffset   int64  `json:"logOffset"`
	QueueOffset int64  `json:"queueOffset"`
	Bytes       int64  `json:"bytes"`
	StoreTime   int64  `json:"storeTime"`
	ID          string `json:"id"`
}

// listing is what a store holds.
type listing struct {
	MinLog int64         `json:"minLog"`
	MaxLog int64         `json:"maxLog"`
	Queues []queueBounds `json:"queues"`
}

type queueKey struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
}

type queueBounds struct {
	queueKey

	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

// settle sorts the queues, and drops those that never had a message: RocketMQ
// lists each one that somebody has asked for.
func (l *listing) settle() {
	l.Queues = slices.DeleteFunc(l.Queues, func(q queueBounds) bool { return q.Max == 0 })
	if len(l.Queues) == 0 {
		l.Queues = nil
	}
	slices.SortFunc(l.Queues, func(a, b queueBounds) int { return a.compare(b.queueKey) })
}

func (k queueKey) compare(other queueKey) int {
	return cmp.Or(cmp.Compare(k.Topic, other.Topic), cmp.Compare(k.QueueID, other.QueueID))
}

// question is one read; which fields count depends on Op.
type question struct {
	Op string `json:"op"` // get, bounds, unit, earliest, byTime, look, query
	queueKey

	Offset int64   `json:"offset"` // look: of the log
	MaxNum int     `json:"maxNum,omitempty"`
	Tags   *string `json:"tags,omitempty"` // get: nil is no filter
	Time   int64   `json:"time,omitempty"`

	Key   string `json:"key,omitempty"`
	Begin int64  `json:"begin,omitempty"`
	End   int64  `json:"end,omitempty"`
}

// answer belongs to a question; which fields are set depends on its Op.
type answer struct {
	Status  string        `json:"status,omitempty"`
	Next    int64         `json:"next,omitempty"`
	Min     int64         `json:"min,omitempty"`
	Max     int64         `json:"max,omitempty"`
	Number  int64         `json:"number,omitempty"` // unit: log offset, 0 for none; byTime: offset, of PocketMQ the lower boundary
	Upper   int64         `json:"upper,omitempty"`  // byTime: PocketMQ's upper boundary
	Time    int64         `json:"time,omitempty"`   // -1 for none
	Records []recordPlace `json:"records,omitempty"`
	Message *seen         `json:"message,omitempty"`
}

// recordPlace is a record that was read, with the checksum of its bytes.
type recordPlace struct {
	LogOffset   int64  `json:"logOffset"`
	QueueOffset int64  `json:"queueOffset"`
	Size        int    `json:"size"`
	SHA256      string `json:"sha256"`
}

// seen is a message as a store decodes it.
type seen struct {
	QueueOffset int64 `json:"queueOffset"`
	LogOffset   int64 `json:"logOffset"`
	Size        int32 `json:"size"`
	StoreTime   int64 `json:"storeTime"`
	BodyCRC     int32 `json:"bodyCRC"`
	content
}

// content is what a producer sent, as it is stored.
type content struct {
	queueKey

	Flag           int32             `json:"flag"`
	SysFlag        int32             `json:"sysFlag"`
	BornTime       int64             `json:"bornTime"`
	BornHost       string            `json:"bornHost"`
	StoreHost      string            `json:"storeHost"`
	ReconsumeTimes int32             `json:"reconsumeTimes"`
	Prepared       int64             `json:"prepared"`
	BodySHA256     string            `json:"bodySHA256"`
	Properties     map[string]string `json:"properties"`
}

// put is a message or a batch on its way into a store.
type put struct {
	queueKey

	Batch          bool   `json:"batch,omitempty"` // the body is a batch's elements
	Flag           int32  `json:"flag"`
	SysFlag        int32  `json:"sysFlag"`
	BornTime       int64  `json:"bornTime"`
	BornHost       string `json:"bornHost"` // address in hexadecimal digits, colon, port
	StoreHost      string `json:"storeHost"`
	ReconsumeTimes int32  `json:"reconsumeTimes"`
	Prepared       int64  `json:"prepared"`
	Properties     string `json:"properties"`
	Body           []byte `json:"body"`

	contents []content // what must be stored, a message of a batch each
}
