package mq

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// QueueSelector chooses the queue of a message: one of queues, which are those
// that can be written, by broker name and number. The zero MessageQueue says
// that none fits. Slice and message are the selector's own; only the body
// belongs to the sender and must not change.
//
// To keep the messages of one thing in order, give all of them the same key, a
// selector that depends on nothing but the key, and wait for each send before
// the next. When the number of queues changes, keys move to other queues, and
// the order does not hold across the change: see SelectRendezvous.
//
// Source: RocketMQ client/producer/MessageQueueSelector.java.
type QueueSelector func(queues []protocol.MessageQueue, m *message.Message, key string) protocol.MessageQueue

// What a *SelectError wraps.
var (
	ErrSelectPanicked = errors.New("the selector panicked")
	ErrSelectedNone   = errors.New("the selector chose no queue")
	ErrSelectedOther  = errors.New("the selector chose a queue that it was not offered")
)

// SelectError says that a selector made no choice that can be used. Nothing was
// sent. It matches ErrSelectPanicked, ErrSelectedNone or ErrSelectedOther.
type SelectError struct {
	Topic string
	Queue protocol.MessageQueue // what was chosen; zero for none
	Err   error
}

func (e *SelectError) Error() string {
	if e.Queue == (protocol.MessageQueue{}) {
		return fmt.Sprintf("send to topic %s: %v", e.Topic, e.Err)
	}
	return fmt.Sprintf("send to topic %s: %v: %v", e.Topic, e.Err, e.Queue)
}

// Unwrap returns what is wrong.
func (e *SelectError) Unwrap() error { return e.Err }

// SendSelected is Send to the queue that the selector chooses for the key,
// without retries on other queues. Besides Send's errors it returns a
// *SelectError.
func (p *Producer) SendSelected(ctx context.Context, m *message.Message, selector QueueSelector, key string) (SendResult, error) {
	q, err := p.checkAndChoose(ctx, m, selector, key)
	if err != nil {
		return SendResult{}, err
	}
	return p.send(ctx, m, &q)
}

// checkAndChoose is choose for a message that was not checked.
func (p *Producer) checkAndChoose(ctx context.Context, m *message.Message, selector QueueSelector, key string) (protocol.MessageQueue, error) {
	if err := p.check(m); err != nil {
		return protocol.MessageQueue{}, err
	}
	return p.choose(ctx, m, selector, key)
}

// SendBatchSelected is SendBatch to the queue that the selector chooses for the
// first message and the key.
func (p *Producer) SendBatchSelected(ctx context.Context, ms []*message.Message, selector QueueSelector, key string) ([]SendResult, error) {
	if err := p.checkBatch(ms); err != nil {
		return nil, err
	}
	q, err := p.choose(ctx, ms[0], selector, key)
	if err != nil {
		return nil, err
	}
	return p.sendParts(ctx, ms, &q, ModeSync)
}

// choose asks a selector about a message that was checked.
func (p *Producer) choose(ctx context.Context, m *message.Message, selector QueueSelector, key string) (protocol.MessageQueue, error) {
	var none protocol.MessageQueue
	if selector == nil {
		return none, &message.IllegalError{Field: "selector", Reason: "is nil"}
	}
	if err := ctx.Err(); err != nil {
		return none, &SendError{Topic: m.Topic, Err: err}
	}
	own := *m
	own.Topic = p.ns.unwrap(m.Topic)
	r, err := p.routes.get(ctx, own.Topic, p.now())
	if err != nil {
		return none, &SendError{Topic: own.Topic, Err: err}
	}
	offered := own // the selector may do with it what it likes
	q, err := askSelector(selector, slices.Clone(r.queues), &offered, key)
	if err == nil && !slices.Contains(r.queues, q) {
		if err = ErrSelectedOther; q == none {
			err = ErrSelectedNone
		}
	}
	if err != nil {
		return none, &SelectError{Topic: own.Topic, Queue: q, Err: err}
	}
	return q, nil
}

// askSelector makes an error of a panic.
func askSelector(selector QueueSelector, queues []protocol.MessageQueue, m *message.Message, key string) (q protocol.MessageQueue, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(ErrSelectPanicked, v)
		}
	}()
	return selector(queues, m, key), nil
}

// panicError is what with the value of a panic; an error stays one.
func panicError(what error, v any) error {
	if err, ok := v.(error); ok {
		return fmt.Errorf("%w: %w", what, err)
	}
	return fmt.Errorf("%w: %v", what, v)
}

// SelectByKey gives every key a queue by the xxHash64 of its bytes: the same
// one in every process and on every machine, as long as the queues stay. When
// one queue is added nearly all keys move.
func SelectByKey(queues []protocol.MessageQueue, _ *message.Message, key string) protocol.MessageQueue {
	return queues[xxhash.Sum64String(key)%uint64(len(queues))]
}

// SelectRendezvous is SelectByKey for queues that come and go: of each pair of
// key and queue it makes a number, and the queue with the highest wins. A queue
// that is added takes its share of the keys from all others, one that goes
// gives its keys to all others, and no other key moves. It looks at every
// queue.
func SelectRendezvous(queues []protocol.MessageQueue, _ *message.Message, key string) protocol.MessageQueue {
	k := xxhash.Sum64String(key)
	var best protocol.MessageQueue
	var bestScore uint64
	for i, q := range queues {
		score := scramble(k ^ scramble(xxhash.Sum64String(q.BrokerName)+uint64(q.QueueID)))
		if i == 0 || score > bestScore || score == bestScore && q.Compare(best) < 0 {
			best, bestScore = q, score
		}
	}
	return best
}

// scramble makes every bit of the result depend on every bit of x: the
// finalizer of SplitMix64.
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// SelectByJavaHash chooses as RocketMQ's Java client does for a String, so that
// both send a key to the same queue.
//
// Source: RocketMQ client/producer/selector/SelectMessageQueueByHash.java.
func SelectByJavaHash(queues []protocol.MessageQueue, _ *message.Message, key string) protocol.MessageQueue {
	return byJavaHash(queues, message.JavaHash(key))
}

// SelectByJavaHashCode is SelectByJavaHash for keys that are no strings in
// Java, by their hashCode: that of an Integer is its value, and of a Long the
// exclusive or of its halves, int32(v ^ v>>32). The key of the send is not
// looked at.
func SelectByJavaHashCode(code int32) QueueSelector {
	return func(queues []protocol.MessageQueue, _ *message.Message, _ string) protocol.MessageQueue {
		return byJavaHash(queues, code)
	}
}

// byJavaHash takes the remainder without its sign. The order matters: the
// lowest hash has no positive counterpart.
func byJavaHash(queues []protocol.MessageQueue, hash int32) protocol.MessageQueue {
	v := int64(hash) % int64(len(queues))
	return queues[max(v, -v)]
}

// propertyShardingKey is the key of a message for those who know no other.
const propertyShardingKey = "__SHARDINGKEY"

// SelectByShardingKey chooses as the hash selector of rocketmq-client-go does:
// by the FNV-1a hash of the message's property __SHARDINGKEY, and at random
// without it. The key of the send is not looked at.
func SelectByShardingKey(queues []protocol.MessageQueue, m *message.Message, key string) protocol.MessageQueue {
	shard, ok := m.Properties.Get(propertyShardingKey)
	if !ok {
		return SelectRandom(queues, m, key)
	}
	h := fnv.New32a()
	h.Write([]byte(shard))
	return queues[h.Sum32()%uint32(len(queues))]
}

// SelectRandom chooses any queue, each as likely as the others.
func SelectRandom(queues []protocol.MessageQueue, _ *message.Message, _ string) protocol.MessageQueue {
	return queues[rand.IntN(len(queues))]
}

// SelectRoundRobin returns a selector that takes the queues in turn, over all
// goroutines that use it, whatever the key.
func SelectRoundRobin() QueueSelector {
	var turn atomic.Uint32
	return func(queues []protocol.MessageQueue, _ *message.Message, _ string) protocol.MessageQueue {
		return queues[turn.Add(1)%uint32(len(queues))]
	}
}

// SelectRooms returns a selector that takes in turn the queues of brokers in
// these machine rooms: those with names like "room@broker". Where there is
// none, it chooses none.
//
// Source: RocketMQ client/producer/selector/SelectMessageQueueByMachineRoom.java,
// which is a placeholder there.
func SelectRooms(rooms ...string) QueueSelector {
	rooms = slices.Clone(rooms)
	inTurn := SelectRoundRobin()
	return func(queues []protocol.MessageQueue, m *message.Message, key string) protocol.MessageQueue {
		near := slices.DeleteFunc(queues, func(q protocol.MessageQueue) bool {
			room, _, found := strings.Cut(q.BrokerName, "@")
			return !found || !slices.Contains(rooms, room)
		})
		if len(near) == 0 {
			return protocol.MessageQueue{}
		}
		return inTurn(near, m, key)
	}
}
