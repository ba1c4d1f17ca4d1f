package broker

import (
	"context"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

const (
	propertyCluster     = "CLUSTER"
	propertyTransaction = "TRAN_MSG"
	propertyTimerMillis = "TIMER_DELIVER_MS"
	propertyDelayMillis = "TIMER_DELAY_MS"
	propertyDelaySecond = "TIMER_DELAY_SEC"
)

// SendMessage stores one message. The broker removes the property WAIT, obeys
// WAIT=false by not waiting for the sync, and adds CLUSTER unless configured
// otherwise; it changes nothing else.
func (b *Broker) SendMessage(ctx context.Context, req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
	inner, err := b.admit(ctx, &req)
	if err != nil {
		return protocol.SendMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	res, err := b.store.PutMessage(ctx, &inner)
	code, err := answerPut(&res, err)
	if !code.Stored() {
		return protocol.SendMessageResponse{Code: code}, err
	}
	return protocol.SendMessageResponse{
		Code:           code,
		MessageID:      message.OffsetMessageID{Host: res.StoreHost, Offset: res.LogOffset},
		QueueID:        req.QueueID,
		QueueOffset:    res.QueueOffset,
		StoreTimestamp: res.StoreTimestamp,
	}, err
}

// SendMessageBatch stores the messages of a batch, all or none. Properties of
// the request are treated as SendMessage does and added to every message;
// those of the elements are stored as they are.
func (b *Broker) SendMessageBatch(ctx context.Context, req protocol.SendMessageBatchRequest) (protocol.SendMessageBatchResponse, error) {
	inner, err := b.admit(ctx, &req.SendMessageRequest)
	if err == nil {
		err = admitElements(req.Message.Body)
	}
	if err != nil {
		return protocol.SendMessageBatchResponse{Code: protocol.CodeOf(err)}, err
	}
	res, err := b.store.PutMessages(ctx, &message.MessageExtBatch{MessageExtBrokerInner: inner})
	code, err := answerPut(&res, err)
	if !code.Stored() {
		return protocol.SendMessageBatchResponse{Code: code}, err
	}
	return protocol.SendMessageBatchResponse{
		Code:           code,
		StoreHost:      res.StoreHost,
		Offsets:        res.Offsets,
		QueueID:        req.QueueID,
		QueueOffset:    res.QueueOffset,
		StoreTimestamp: res.StoreTimestamp,
	}, err
}

// admit checks a message and makes of it what the store gets.
//
// Source: RocketMQ broker/processor/SendMessageProcessor.java, msgCheck.
func (b *Broker) admit(ctx context.Context, req *protocol.SendMessageRequest) (message.MessageExtBrokerInner, error) {
	var inner message.MessageExtBrokerInner
	if err := b.open(); err != nil {
		return inner, err
	}
	if t := req.SysFlag.Transaction(); t != message.TransactionNone {
		return inner, notServed("transactions", "sysFlag", strconv.Itoa(int(t)))
	}
	scan, err := scanProperties(req.Message.Properties)
	if err != nil {
		return inner, err
	}
	cfg, err := b.topicForSend(ctx, req)
	if err != nil {
		return inner, err
	}
	if !cfg.Perm.Writable() {
		return inner, refuse(protocol.NoPermission, "topic "+cfg.Name+" can not be written: "+cfg.Perm.String(), nil)
	}
	if req.QueueID < 0 || req.QueueID >= cfg.WriteQueueNums {
		return inner, refuse(protocol.SystemError, "topic "+cfg.Name, queueIDError(req.QueueID, cfg.WriteQueueNums))
	}

	inner.Message = req.Message
	inner.Properties, err = b.storedProperties(req.Message.Properties, scan)
	inner.NoWait = scan.noWait
	inner.QueueID = req.QueueID
	inner.SysFlag = req.SysFlag
	if cfg.FilterType == protocol.MultiTag {
		inner.SysFlag |= message.FlagMultiTags
	}
	inner.BornTimestamp = req.BornTimestamp
	inner.BornHost = req.BornHost
	if !req.BornHost.Addr.IsValid() {
		inner.BornHost = b.host
	}
	return inner, err
}

// scanned is what the broker wants to know about properties.
type scanned struct {
	wait, noWait, cluster bool // WAIT is there; WAIT=false; CLUSTER is there
}

// scanProperties reads them once, and refuses what asks for a delivery that
// this version does not have.
func scanProperties(p message.Properties) (scanned, error) {
	var s scanned
	for name, value := range p.All() {
		switch name {
		case message.PropertyWait:
			s.wait, s.noWait = true, strings.EqualFold(value, "false")
		case propertyCluster:
			s.cluster = true
		case message.PropertyDelayLevel:
			if n, err := strconv.ParseInt(value, 10, 32); err != nil || n > 0 {
				return s, notServed("delayed messages", name, value)
			}
		case propertyTransaction:
			if strings.EqualFold(value, "true") {
				return s, notServed("transactions", name, value)
			}
		case propertyTimerMillis, propertyDelayMillis, propertyDelaySecond:
			return s, notServed("timed messages", name, value)
		}
	}
	return s, nil
}

// admitElements refuses in a batch what scanProperties refuses in a message.
func admitElements(batch []byte) error {
	for e, err := range message.BatchElements(batch) {
		if err != nil {
			return refuse(protocol.MessageIllegal, "", err)
		}
		if _, err := scanProperties(e.Properties); err != nil {
			return err
		}
	}
	return nil
}

func notServed(what, name, value string) error {
	return refuse(protocol.RequestCodeNotSupported, what+" are not served by this version",
		&message.IllegalError{Field: "property " + name, Value: value, Reason: "would not be obeyed"})
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
