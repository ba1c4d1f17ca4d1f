package mq

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// QueryMessage finds messages by key on the brokers of the topic, oldest first; of
// those with a unique key the one stored first. Bodies are as they were sent. The
// error matches protocol.QueryNotFound when there is none; other errors come with
// what the other brokers have.
//
// Source: RocketMQ client/impl/MQAdminImpl.java, queryMessage.
func (a *Admin) QueryMessage(ctx context.Context, req protocol.QueryMessageRequest) ([]*message.MessageExt, error) {
	var all []*message.MessageExt
	err := a.ofTopic(ctx, req.Topic, protocol.QueryNotFound, func(name string, b protocol.Broker) error {
		found, err := b.QueryMessage(ctx, req)
		if err != nil {
			return err
		}
		for i := range found {
			m, err := a.received(&found[i], name)
			if err != nil {
				return err
			}
			all = append(all, m)
		}
		return nil
	})
	slices.SortStableFunc(all, func(x, y *message.MessageExt) int { return cmp.Compare(x.StoreTimestamp, y.StoreTimestamp) })
	most := cmp.Or(req.MaxNum, protocol.DefaultQueryNum)
	switch {
	case req.Unique && len(all) > 1:
		all = all[:1]
	case len(all) > most:
		all = all[len(all)-most:]
	}
	return all, err
}

// received is a message as a consumer gets it.
func (a *Admin) received(m *message.MessageExt, broker string) (*message.MessageExt, error) {
	if err := checkBody(m); err != nil {
		return nil, err
	}
	var err error
	m.BrokerName = broker
	m.Body, err = message.Inflate(m.SysFlag, m.Body, a.maxBody)
	return m, err
}

// ViewMessage returns the message of an offset message id, as sends return it: it
// asks the broker whose address is in the id, or all when none has it. The error matches protocol.NoMessage
// for a text that is no such id, and for one that leads nowhere; else see
// protocol.Admin.
//
// Source: RocketMQ client/impl/MQAdminImpl.java, viewMessage.
func (a *Admin) ViewMessage(ctx context.Context, id string) (*message.MessageExt, error) {
	parsed, err := message.ParseOffsetMessageID(id)
	if err != nil {
		return nil, &protocol.Error{Code: protocol.NoMessage, Err: err}
	}
	brokers, err := a.names.ListBrokers(ctx)
	if err != nil {
		return nil, notAsked(err)
	}
	asked := slices.DeleteFunc(slices.Clone(brokers), func(b protocol.BrokerData) bool { return b.Addrs[protocol.MasterID] != parsed.Host.String() })
	if len(asked) == 0 {
		return a.viewForeign(ctx, brokers, parsed)
	}
	var found *message.MessageExt
	err = a.each(ctx, asked, protocol.NoCode, func(name string, b protocol.Broker) error {
		m, err := b.ViewMessage(ctx, parsed)
		if err == nil {
			found, err = a.received(&m, name)
		}
		return err
	})
	return found, err
}

// viewForeign looks for the message of an id with an address that no broker has:
// one may have the directory of another.
func (a *Admin) viewForeign(ctx context.Context, brokers []protocol.BrokerData, id message.OffsetMessageID) (*message.MessageExt, error) {
	var found *message.MessageExt
	err := a.each(ctx, brokers, protocol.NoCode, func(name string, b protocol.Broker) error {
		m, err := b.ViewMessage(ctx, id)
		switch {
		case err == nil:
			found, err = a.received(&m, name)
		case errors.Is(err, message.ErrIllegal):
			err = nil // it is not here
		}
		return err
	})
	if found == nil && err == nil {
		err = &protocol.Error{Code: protocol.NoMessage, Err: &message.IllegalError{
			Field: "message id", Value: id.String(), Reason: "is of no broker there is: its address is " + id.Host.String()}}
	}
	return found, err
}
