package broker

import (
	"context"
	"errors"

	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// mayWrite refuses writes on a closed broker, and on one that may not be written.
// RocketMQ refuses then only messages of ordered topics.
func (b *Broker) mayWrite() error {
	if err := b.open(); err != nil {
		return err
	}
	if !b.perm.Writable() {
		return refuse(protocol.NoPermission, "broker "+b.name+" can not be written: "+b.perm.String(), nil)
	}
	return nil
}

// mayRead is mayWrite for reads.
func (b *Broker) mayRead() error {
	if err := b.open(); err != nil {
		return err
	}
	if !b.perm.Readable() {
		return refuse(protocol.NoPermission, "broker "+b.name+" can not be read: "+b.perm.String(), nil)
	}
	return nil
}

// acceptSend refuses all messages at times: before the broker is to take any, and
// while the store makes them wait for too long.
//
// Source: RocketMQ broker/processor/SendMessageProcessor.java, preSend, and
// broker/latency/BrokerFastFailure.java.
func (b *Broker) acceptSend(ctx context.Context) error {
	if err := b.mayWrite(); err != nil {
		return err
	}
	if b.now().Before(b.acceptFrom) {
		return refuse(protocol.SystemError, "broker unable to service, until "+b.acceptFrom.Format("2006-01-02 15:04:05"), nil)
	}
	if b.maxSendWait == 0 {
		return nil
	}
	if err := b.store.WaitReady(ctx, b.maxSendWait); errors.Is(err, store.ErrBusy) {
		return refuse(protocol.SystemBusy, remarkWaiting+b.maxSendWait.String(), err)
	}
	return nil // the put has the answer to anything else
}

// remarkWaiting begins the remark by which clients know that the broker has too much
// to do: see protocol.Overloaded.
const remarkWaiting = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: "

// makeTraceTopic makes the topic of traces if it is wanted and not there.
func (b *Broker) makeTraceTopic(wanted bool) error {
	if !wanted {
		return nil
	}
	_, _, err := b.topics.putNew(protocol.TopicConfig{
		Name: protocol.TraceTopic, ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermReadWrite,
	})
	return err
}
