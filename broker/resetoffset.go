package broker

import (
	"context"
	"errors"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// ResetOffset writes the offsets of a group, and has its consumers go on there.
//
// Source: RocketMQ broker/client/net/Broker2Client.java, resetOffset; there the
// group must run.
func (b *Broker) ResetOffset(ctx context.Context, req protocol.ResetOffsetRequest) ([]protocol.QueuePosition, error) {
	cfg, err := b.existing(req.Topic)
	if err != nil {
		return nil, err
	}
	if err := protocol.CheckGroup(req.Group); err != nil {
		return nil, refuse(protocol.SystemError, "", err)
	}
	have := b.offsets.positions(req.Topic, req.Group)
	if len(have) == 0 && !req.Force {
		return nil, refuse(protocol.SystemError, "group "+req.Group+" has no offset in topic "+req.Topic, nil)
	}
	wanted, err := b.resetTo(ctx, &req, cfg.ReadQueueNums)
	if err != nil {
		return nil, err
	}
	if !req.Force {
		wanted = backwards(wanted, have)
	}
	if err := b.offsets.put(req.Topic, req.Group, wanted); err != nil { // for those who start from now on
		return nil, err
	}
	told := b.tellReset(ctx, &req, wanted)
	if err := b.offsets.put(req.Topic, req.Group, wanted); err != nil { // one may have committed before it was told
		return nil, err
	}
	return b.offsets.positions(req.Topic, req.Group), errors.Join(b.saveNow(), told)
}

// resetTo is where a request wants the group to go on.
func (b *Broker) resetTo(ctx context.Context, req *protocol.ResetOffsetRequest, queues int32) ([]protocol.QueuePosition, error) {
	if req.Positions != nil {
		return req.Positions, b.checkPositions(req)
	}
	if req.Time < protocol.EndOfQueue {
		return nil, negative("time", req.Time, "ms")
	}
	positions := make([]protocol.QueuePosition, queues)
	for id := range queues {
		off, err := b.offsetAt(ctx, req.Topic, id, req.Time)
		if err != nil {
			return nil, err
		}
		positions[id] = protocol.QueuePosition{QueueID: id, Offset: off}
	}
	return positions, nil
}

// checkPositions wants offsets within the bounds of their queues.
func (b *Broker) checkPositions(req *protocol.ResetOffsetRequest) error {
	for _, p := range req.Positions {
		if err := b.checkReadQueue(req.Topic, p.QueueID); err != nil {
			return err
		}
		lowest, highest, err := b.bounds(req.Topic, p.QueueID)
		switch {
		case err != nil:
			return err
		case p.Offset < lowest:
			return refuse(protocol.SystemError, "topic "+req.Topic, &message.LimitError{Field: "offset", Limit: int64(lowest), Value: int64(p.Offset), Unit: "(queue offset)", AtLeast: true})
		case p.Offset > highest:
			return refuse(protocol.SystemError, "topic "+req.Topic, &message.LimitError{Field: "offset", Limit: int64(highest), Value: int64(p.Offset), Unit: "(queue offset)"})
		}
	}
	return nil
}

// backwards leaves of wanted what lies before the offsets that there are.
func backwards(wanted, have []protocol.QueuePosition) []protocol.QueuePosition {
	at := make(map[int32]message.QueueOffset, len(have))
	for _, p := range have {
		at[p.QueueID] = p.Offset
	}
	var back []protocol.QueuePosition
	for _, p := range wanted {
		if off, ok := at[p.QueueID]; ok && p.Offset < off {
			back = append(back, p)
		}
	}
	return back
}

// offsetAt is the offset of the first message at or after a time; 0 and EndOfQueue
// have a meaning of their own.
func (b *Broker) offsetAt(ctx context.Context, topic string, queueID int32, time int64) (message.QueueOffset, error) {
	lowest, highest, err := b.bounds(topic, queueID)
	if err != nil || time == 0 {
		return lowest, err
	}
	if time == protocol.EndOfQueue {
		return highest, nil
	}
	off, err := b.store.OffsetInQueueByTime(ctx, topic, queueID, time, store.BoundaryLower)
	if err != nil {
		return 0, readError(err)
	}
	return max(off, lowest), nil
}

// SearchOffset is the offset of the first message stored at or after a time.
func (b *Broker) SearchOffset(ctx context.Context, topic string, queueID int32, time int64) (message.QueueOffset, error) {
	if err := b.open(); err != nil {
		return 0, err
	}
	if err := b.checkReadQueue(topic, queueID); err != nil {
		return 0, err
	}
	if time < 0 {
		return 0, negative("time", time, "ms")
	}
	return b.offsetAt(ctx, topic, queueID, time)
}

// CloneOffsets copies offsets of one group to another.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, cloneGroupOffset.
func (b *Broker) CloneOffsets(_ context.Context, req protocol.CloneOffsetsRequest) error {
	if err := b.open(); err != nil {
		return err
	}
	for _, group := range [...]string{req.From, req.To} {
		if err := protocol.CheckGroup(group); err != nil {
			return refuse(protocol.SystemError, "", err)
		}
	}
	topics := []string{req.Topic}
	if req.Topic == "" {
		topics = b.offsets.topicsOf(req.From)
	} else if _, err := b.existing(req.Topic); err != nil {
		return err
	}
	cloned := false
	for _, topic := range topics {
		positions := b.offsets.positions(topic, req.From)
		if len(positions) == 0 {
			continue
		}
		cloned = true
		if err := b.offsets.put(topic, req.To, positions); err != nil {
			return err
		}
	}
	if !cloned {
		return refuse(protocol.SystemError, "group "+req.From+" has no offsets to clone", nil)
	}
	return b.saveNow()
}
