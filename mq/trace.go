package mq

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// Limits of traces.
//
// Source: RocketMQ client/trace/AsyncTraceDispatcher.java.
const (
	traceQueue    = 2048    // records that may wait
	traceBatch    = 100     // records of one message
	traceMaxBytes = 128_000 // bytes of one message's body
	traceMaxKeys  = 16 << 10

	// traceLinger is how long a record waits for others to share a message.
	traceLinger = 100 * time.Millisecond
	// traceSendTimeout bounds the send of one message, traceCloseTimeout all that
	// are sent by Close.
	traceSendTimeout  = 5 * time.Second
	traceCloseTimeout = 3 * time.Second

	traceGroupPrefix = "_INNER_TRACE_PRODUCER"
	traceRegion      = "DefaultRegion" // RocketMQ's name where there are no regions
)

// TraceConfig has a client report what it sends or consumes: a TraceRecord for
// each message, many of them in one message of the trace topic, whose KEYS are the
// ids and keys of the messages, so that store.QueryMessage finds them. DecodeTrace
// reads the body.
//
// Records are sent in the background and without waiting for a sync. They never
// hold up or fail what is traced: where they come too fast, or can not be stored,
// they are dropped, counted and logged once. Close sends what waits, for three
// seconds at most. Messages of the trace topic itself are not traced.
//
// A broker makes protocol.TraceTopic for itself, with one queue, when its
// configuration has TraceTopicEnable; else the topic is made like any other.
type TraceConfig struct {
	// Topic gets the records, protocol.TraceTopic when empty.
	Topic string
}

// tracer sends trace records. A nil *tracer takes none.
type tracer struct {
	topic    string
	producer *Producer
	log      *slog.Logger
	records  chan TraceRecord
	dropped  atomic.Int64
	warned   sync.Once
	quit     chan struct{}
	ended    chan struct{}
	ctx      context.Context // of sends; ends when Close gives up
	cancel   context.CancelFunc
}

// newTracer begins to send, by a producer of its own that is made like cfg says.
// It returns nil without a TraceConfig.
func newTracer(trace *TraceConfig, cfg ProducerConfig, kind string) (*tracer, error) {
	if trace == nil {
		return nil, nil
	}
	t := &tracer{topic: trace.Topic, records: make(chan TraceRecord, traceQueue), quit: make(chan struct{}), ended: make(chan struct{})}
	setDefault(&t.topic, protocol.TraceTopic)
	if err := errors.Join(protocol.CheckTopic(t.topic), protocol.CheckSendTopic(t.topic)); err != nil {
		return nil, err
	}
	group := traceGroupPrefix + "-" + cfg.Group
	var err error
	t.producer, err = NewProducer(ProducerConfig{
		Group:       group[:min(len(group), protocol.MaxGroupLength-len(kind))] + kind,
		NameService: cfg.NameService, Connect: cfg.Connect,
		MaxMessageSize: cfg.MaxMessageSize, Faults: cfg.Faults, RouteInterval: cfg.RouteInterval, Now: cfg.Now, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	t.log = t.producer.log
	t.ctx, t.cancel = context.WithCancel(context.Background())
	go t.run()
	return t, nil
}

// What the groups of tracers end in.
//
// Source: RocketMQ client/trace/TraceDispatcher.java, Type.
const (
	traceProduce = "-PRODUCE"
	traceConsume = "-CONSUME"
)

// add takes a record, or drops it. It does not wait.
func (t *tracer) add(r TraceRecord) {
	select {
	case <-t.quit:
		t.drop(1, message.ErrClosed)
		return
	default:
	}
	select {
	case t.records <- r:
	default:
		t.drop(1, errTracesWait)
	}
}

var errTracesWait = errors.New("too many records wait")

func (t *tracer) drop(records int, err error) {
	t.dropped.Add(int64(records))
	t.warned.Do(func() {
		t.log.Warn("trace records dropped; told once, and counted", "topic", t.topic, "group", t.producer.group, "err", err)
	})
}

// count is how many records were dropped.
func (t *tracer) count() int64 {
	if t == nil {
		return 0
	}
	return t.dropped.Load()
}

// run gathers records and sends them.
func (t *tracer) run() {
	defer close(t.ended)
	var b traceMessage
	timer := time.NewTimer(traceLinger)
	timer.Stop()
	for {
		select {
		case r := <-t.records:
			if b.count == 0 {
				timer.Reset(traceLinger)
			}
			t.gather(&b, &r)
		case <-timer.C:
			t.send(&b)
		case <-t.quit:
			timer.Stop()
			t.drain(&b)
			return
		}
	}
}

// gather adds a record to the message, and sends the message when it is full.
func (t *tracer) gather(b *traceMessage, r *TraceRecord) {
	limit := min(traceMaxBytes, t.producer.maxSize)
	if !b.add(r, limit) {
		t.send(b)
		b.add(r, limit)
	}
	if b.count == traceBatch {
		t.send(b)
	}
}

// drain sends what waits.
func (t *tracer) drain(b *traceMessage) {
	for {
		select {
		case r := <-t.records:
			t.gather(b, &r)
		default:
			t.send(b)
			return
		}
	}
}

// send sends the message and empties it.
func (t *tracer) send(b *traceMessage) {
	if b.count == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, traceSendTimeout)
	defer cancel()
	p, err := message.NewProperties(message.PropertyKeys, strings.ToValidUTF8(b.keys.String(), "?"), message.PropertyWait, "false")
	if err == nil {
		_, err = t.producer.Send(ctx, &message.Message{Topic: t.topic, Body: b.body, Properties: p})
	}
	if err != nil {
		t.drop(b.count, err)
	}
	*b = traceMessage{body: b.body[:0]}
}

// close sends what waits and ends. A nil tracer has nothing to do.
func (t *tracer) close() {
	if t == nil {
		return
	}
	close(t.quit)
	defer time.AfterFunc(traceCloseTimeout, t.cancel).Stop()
	<-t.ended
	t.cancel()
	if err := t.producer.Close(); err != nil {
		t.log.Warn("producer of traces not closed", "group", t.producer.group, "err", err)
	}
	if n := t.count(); n > 0 {
		t.log.Warn("trace records were dropped", "topic", t.topic, "group", t.producer.group, "records", n)
	}
}

// traceMessage is a message of the trace topic that is being made.
type traceMessage struct {
	body  []byte
	keys  strings.Builder
	known map[string]bool // in keys
	count int             // records
}

// add adds a record, unless the message is too large for it. An empty message takes
// every record, if perhaps without its keys.
func (b *traceMessage) add(r *TraceRecord, limit int) bool {
	before := len(b.body)
	body := AppendTrace(b.body, r)
	tooMany := b.keys.Len()+1+len(r.MsgID)+1+len(r.Keys) > traceMaxKeys
	if b.count > 0 && (len(body) > limit || tooMany) {
		b.body = body[:before]
		return false
	}
	b.body = body
	b.count++
	b.addKey(r.MsgID)
	if !tooMany {
		for key := range strings.FieldsSeq(r.Keys) {
			b.addKey(key)
		}
	}
	return true
}

func (b *traceMessage) addKey(key string) {
	if key == "" || b.known[key] {
		return
	}
	if b.known == nil {
		b.known = map[string]bool{}
	}
	b.known[key] = true
	if b.keys.Len() > 0 {
		b.keys.WriteByte(' ')
	}
	b.keys.WriteString(strings.ReplaceAll(key, "\x02", "?"))
}
