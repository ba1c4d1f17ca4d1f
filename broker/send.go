package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

const (
	propertyCluster = protocol.PropertyCluster
)

// SendMessage stores one message. The broker removes the property WAIT, obeys
// WAIT=false by not waiting for the sync, and adds CLUSTER unless configured
// otherwise.
//
// A message with a delay level, in the property DELAY, waits in the schedule
// topic, with its topic and queue in the properties REAL_TOPIC and REAL_QID, and
// is put into its queue when it is due. Log and queue offset of the response are
// those of the waiting message, its QueueID is the real one.
//
// A message with a time of delivery, in one of the properties TIMER_DELIVER_MS,
// TIMER_DELAY_MS and TIMER_DELAY_SEC, waits in the timer topic in the same way. A
// delay level counts more.
//
// A message to a topic that has MaxDepth messages is refused with FlowControl and a
// *message.LimitError. No send makes more than that: while others are under way, one
// may be refused although up to as many messages are missing. What the broker puts
// there by itself, delayed and timed messages that are due and those that were sent back,
// counts and is not refused.
func (b *Broker) SendMessage(ctx context.Context, req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
	inner, err := b.admit(ctx, &req)
	if err != nil {
		return protocol.SendMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	depth, err := b.reserve(ctx, req.Message.Topic, 1)
	if err != nil {
		return protocol.SendMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	resp, err := b.put(ctx, &req, &inner)
	depth.done(1)
	return resp, err
}

// put stores what was admitted, if it was not stored before.
func (b *Broker) put(ctx context.Context, req *protocol.SendMessageRequest, inner *message.MessageExtBrokerInner) (protocol.SendMessageResponse, error) {
	res, err := b.putOnce(ctx, req, inner)
	code, err := answerPut(&res, err)
	if !code.Stored() {
		return protocol.SendMessageResponse{Code: code}, err
	}
	resp := protocol.SendMessageResponse{
		Code:           code,
		MessageID:      message.OffsetMessageID{Host: res.StoreHost, Offset: res.LogOffset},
		QueueID:        inner.QueueID,
		QueueOffset:    res.QueueOffset,
		StoreTimestamp: res.StoreTimestamp,
	}
	b.noteStored(inner, &res, req.ClientID)
	switch inner.Topic { // while a message waits, its client hears of the queue that it asked for
	case message.ScheduleTopic, message.HalfTopic:
		resp.QueueID = req.QueueID
	case message.TimerTopic:
		resp.QueueID, resp.RecallHandle = req.QueueID, recallHandle(b.name, inner, resp.MessageID)
	}
	return resp, err
}

// SendMessageBatch stores the messages of a batch, all or none. Properties of
// the request are treated as SendMessage does and added to every message;
// those of the elements are stored as they are.
func (b *Broker) SendMessageBatch(ctx context.Context, req protocol.SendMessageBatchRequest) (protocol.SendMessageBatchResponse, error) {
	inner, err := b.admitBatch(ctx, &req.SendMessageRequest)
	if err != nil {
		return protocol.SendMessageBatchResponse{Code: protocol.CodeOf(err)}, err
	}
	depth, n, err := b.reserveBatch(ctx, inner.Topic, inner.Body)
	if err != nil {
		return protocol.SendMessageBatchResponse{Code: protocol.CodeOf(err)}, err
	}
	res, err := b.putBatchOnce(ctx, &req.SendMessageRequest, &message.MessageExtBatch{MessageExtBrokerInner: inner})
	depth.done(n)
	code, err := answerPut(&res, err)
	if !code.Stored() {
		return protocol.SendMessageBatchResponse{Code: code}, err
	}
	b.noteStored(&inner, &res, "")
	return protocol.SendMessageBatchResponse{
		Code:           code,
		StoreHost:      res.StoreHost,
		Offsets:        res.Offsets,
		QueueID:        req.QueueID,
		QueueOffset:    res.QueueOffset,
		StoreTimestamp: res.StoreTimestamp,
	}, err
}

// hangs is how long a sync may take before the disk counts as one that hangs: as
// long as an answer may, for producers that keep away from slow brokers.
const hangs = 500 * time.Millisecond

// Writable returns nil unless the store refuses writes (closed, full, or after a
// failed sync) or a sync is under way that takes very long. Nothing is written
// to find out.
func (b *Broker) Writable(context.Context) error {
	if err := b.mayWrite(); err != nil {
		return err
	}
	if cause := b.store.Health().Cause; cause != nil {
		return refuse(protocol.ServiceNotAvailable, "broker "+b.name, cause)
	}
	if age := b.store.SyncAge(); age > hangs {
		return refuse(protocol.ServiceNotAvailable, fmt.Sprintf("broker %s: the disk hangs: a sync has not ended after %v", b.name, age), nil)
	}
	return nil
}

// admit checks a message and makes of it what the store gets. The topic comes
// last: a message that is refused for itself must not have made one.
//
// Source: RocketMQ broker/processor/SendMessageProcessor.java, msgCheck.
func (b *Broker) admit(ctx context.Context, req *protocol.SendMessageRequest) (message.MessageExtBrokerInner, error) {
	inner, err := b.prepare(ctx, req)
	if err == nil {
		err = checkProperties(inner.Properties, "")
	}
	if err == nil {
		err = b.checkRetry(req, &inner)
	}
	waiting := inner
	if err == nil {
		waiting, err = b.stage(inner)
	}
	asked := req.QueueID
	switch {
	case err != nil:
	case inner.Topic != req.Message.Topic: // a dead letter
		err = b.ensureTopic(ctx, inner.Topic, 1)
	default:
		err = b.place(ctx, req, &inner)
	}
	if err == nil && asked < 0 { // only now it has a queue
		waiting, err = b.stage(inner)
	}
	waiting.SysFlag = inner.SysFlag.WithTransaction(message.TransactionNone) // place changes nothing else
	return waiting, err
}

// park returns the message as it waits for its delay level or for its time; the
// level counts more. Others come back unchanged.
//
// Source: RocketMQ 5 broker/util/HookUtils.java, handleScheduleMessage.
func (b *Broker) park(inner message.MessageExtBrokerInner) (message.MessageExtBrokerInner, error) {
	waiting, err := b.delays.table.Park(inner)
	switch {
	case err != nil:
	case waiting.Topic == message.ScheduleTopic:
		waiting.Properties = waiting.Properties.WithoutTimer()
	case waiting.SysFlag.Queued():
		due, timed, dueErr := b.timers.due(inner.Properties)
		if err = dueErr; err == nil && timed {
			waiting, err = message.ParkTimer(inner, due)
		}
	}
	if err != nil {
		return waiting, refuse(protocol.MessageIllegal, "", err)
	}
	return waiting, nil
}

// admitBatch is admit for a batch.
func (b *Broker) admitBatch(ctx context.Context, req *protocol.SendMessageRequest) (message.MessageExtBrokerInner, error) {
	inner, err := b.prepare(ctx, req)
	if err == nil && inner.SysFlag.Transaction() != message.TransactionNone {
		err = halfInBatch()
	}
	if err == nil {
		err = b.admitElements(&inner)
	}
	if err == nil {
		err = b.place(ctx, req, &inner)
	}
	return inner, err
}

// prepare makes of a message what the store gets, except for its place.
func (b *Broker) prepare(ctx context.Context, req *protocol.SendMessageRequest) (message.MessageExtBrokerInner, error) {
	var inner message.MessageExtBrokerInner
	if err := b.acceptSend(ctx); err != nil {
		return inner, err
	}
	scan := scanProperties(req.Message.Properties)
	if len(req.Message.Body) == 0 {
		return inner, refuse(protocol.MessageIllegal, "", &message.IllegalError{Field: "body", Reason: "is empty"})
	}
	if t := req.SysFlag.Transaction(); t != message.TransactionNone && !scan.half {
		return inner, refuse(protocol.MessageIllegal, "", &message.IllegalError{
			Field: "sysFlag", Value: strconv.Itoa(int(t)), Reason: "says that the message is in transaction, and its property TRAN_MSG does not",
		})
	}
	if n, most := len(req.Message.Body), b.store.MaxBodySize(); n > most {
		return inner, refuse(protocol.MessageIllegal, "", &message.LimitError{Field: "body", Limit: int64(most), Value: int64(n)})
	}
	inner.Message = req.Message
	inner.QueueID = req.QueueID
	inner.ReconsumeTimes = req.ReconsumeTimes
	var err error
	inner.Properties, err = b.storedProperties(req.Message.Properties, scan)
	inner.NoWait = scan.noWait
	inner.SysFlag = req.SysFlag
	if scan.half {
		inner.SysFlag = inner.SysFlag.WithTransaction(message.TransactionPrepared) // see stage
	}
	inner.BornTimestamp = req.BornTimestamp
	inner.BornHost = req.BornHost
	if !req.BornHost.Addr.IsValid() {
		inner.BornHost = b.host
	}
	return inner, err
}

// place finds the topic, or makes it, checks what may be done with it, and
// chooses a queue where the request leaves that to the broker.
func (b *Broker) place(ctx context.Context, req *protocol.SendMessageRequest, inner *message.MessageExtBrokerInner) error {
	cfg, err := b.topicForSend(ctx, req)
	if err != nil {
		return err
	}
	if !cfg.Perm.Writable() {
		return refuse(protocol.NoPermission, "topic "+cfg.Name+" can not be written: "+cfg.Perm.String(), nil)
	}
	if req.QueueID < 0 && cfg.WriteQueueNums > 0 {
		req.QueueID = rand.N(cfg.WriteQueueNums)
		inner.QueueID = req.QueueID
	}
	if nums := max(cfg.WriteQueueNums, cfg.ReadQueueNums); req.QueueID < 0 || req.QueueID >= nums {
		return refuse(protocol.SystemError, "topic "+cfg.Name, queueIDError(req.QueueID, nums))
	}
	if cfg.FilterType == protocol.MultiTag {
		inner.SysFlag |= message.FlagMultiTags
	}
	return nil
}

// scanned is what the broker wants to know about properties.
type scanned struct {
	wait, noWait, cluster bool // WAIT is there; WAIT=false; CLUSTER is there
	half                  bool // TRAN_MSG=true
}

// scanProperties reads them once.
func scanProperties(p message.Properties) scanned {
	var s scanned
	for name, value := range p.All() {
		switch name {
		case message.PropertyWait:
			s.wait, s.noWait = true, strings.EqualFold(value, "false")
		case propertyCluster:
			s.cluster = true
		case protocol.PropertyTransaction:
			s.half = strings.EqualFold(value, "true")
		}
	}
	return s
}

// admitElements refuses in a batch what admit refuses in a message, and delays.
func (b *Broker) admitElements(batch *message.MessageExtBrokerInner) error {
	if err := b.notDelayed(batch.Properties); err != nil {
		return err
	}
	for e, err := range message.BatchElements(batch.Body) {
		if err != nil {
			return refuse(protocol.MessageIllegal, "", err)
		}
		if scanProperties(e.Properties).half {
			return halfInBatch()
		}
		if err := b.notDelayed(e.Properties); err != nil {
			return err
		}
		if err := checkProperties(e.Properties, batch.Properties); err != nil {
			return err
		}
	}
	return nil
}

func halfInBatch() error {
	return refuse(protocol.MessageIllegal, "", &message.IllegalError{Field: "property TRAN_MSG", Value: "true", Reason: "does not go with a batch"})
}

// notDelayed refuses delays: a batch is stored as a whole, at once.
func (b *Broker) notDelayed(p message.Properties) error {
	level, err := b.delays.table.Level(p)
	if err == nil && level > 0 {
		err = &message.IllegalError{Field: "property DELAY", Value: strconv.Itoa(level), Reason: "does not go with a batch"}
	}
	if _, timed, _ := p.TimerDue(0); timed && err == nil { // whatever it says
		err = &message.IllegalError{Field: "property TIMER_…", Reason: "a time of delivery does not go with a batch"}
	}
	if err != nil {
		return refuse(protocol.MessageIllegal, "", err)
	}
	return nil
}

// checkProperties refuses what the store would, for the properties of a message
// and those of its batch together.
func checkProperties(p, batch message.Properties) error {
	if len(p)+1+len(batch) <= message.MaxPropertiesLength {
		return nil // joined or not: this is every message but the strange ones
	}
	if n := len(message.JoinProperties(p, batch)); n > message.MaxPropertiesLength {
		return refuse(protocol.MessageIllegal, "", &message.LimitError{Field: "properties", Limit: message.MaxPropertiesLength, Value: int64(n)})
	}
	return nil
}

// storedProperties drops WAIT and adds CLUSTER, at the end where it is new.
func (b *Broker) storedProperties(p message.Properties, s scanned) (message.Properties, error) {
	if s.wait {
		p = p.Without(message.PropertyWait)
	}
	switch {
	case b.clusterProp == "":
		return p, nil
	case s.cluster:
		p, err := p.With(propertyCluster, b.cluster)
		if err != nil {
			return p, refuse(protocol.MessageIllegal, "", err)
		}
		return p, nil
	}
	return message.JoinProperties(p, b.clusterProp), nil
}

func queueIDError(id, nums int32) error {
	e := &message.LimitError{Field: "queue id", Limit: int64(nums) - 1, Value: int64(id), Unit: "(counted from 0)"}
	if id < 0 {
		e.Field, e.Limit = "queue id (negative)", 0
	}
	return e
}
