package mq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// ErrGroupExists is wrapped by the error of NewProducer when the instance has a
// producer of that group. The old one is not touched.
var ErrGroupExists = errors.New("the producer group has been created before")

// clientTimeout limits what an instance asks of brokers and name service by itself.
const clientTimeout = 3 * time.Second

// checker asks an application what became of a transaction. It returns as soon
// as the question is accepted.
type checker func(context.Context, protocol.CheckTransactionStateRequest) error

// instance is what brokers know as one client: the producers that share a client
// id, at most one of each group. It keeps itself registered at all brokers,
// refreshes the routes that its producers use, and passes on what brokers ask.
// All this starts with the first producer and ends with the last.
//
// Source: RocketMQ client/impl/factory/MQClientInstance.java.
type instance struct {
	key      instanceKey
	once     sync.Once // of the first producer, which starts the rest
	presence presence
	requests pendingRequests

	mu        sync.Mutex
	producers map[string]*Producer // by group, as brokers know it

	ended chan struct{} // not nil when the last producer left, closed when all is done; guarded by the table's mutex
}

// instanceKey names an instance: a client id means something only to the brokers
// of one name service.
type instanceKey struct {
	names protocol.NameService
	id    string
}

// instanceTable has the instances of the process that have a producer.
//
// Source: RocketMQ client/impl/MQClientManager.java.
type instanceTable struct {
	mu    sync.Mutex
	byKey map[instanceKey]*instance
}

// instances is shared by all producers of a process: only so can two of them, made
// in places that know nothing of each other, be one client.
var instances = instanceTable{byKey: map[instanceKey]*instance{}}

// join makes the producer a member of the instance with this client id, which is
// made if need be. How often it looks at brokers is for the first one to say.
func (t *instanceTable) join(p *Producer, cfg *ProducerConfig) (*instance, error) {
	in, err := t.enter(p, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	first := false
	in.once.Do(func() {
		first = true
		in.presence.start(ctx)
	})
	if !first {
		in.presence.update(ctx)
	}
	return in, nil
}

// enter is join without telling the brokers. It waits for one of the same id that
// is about to end, which would have the brokers forget the new one.
func (t *instanceTable) enter(p *Producer, cfg *ProducerConfig) (*instance, error) {
	key := keyOf(cfg)
	for {
		t.mu.Lock()
		in := t.byKey[key]
		if in == nil {
			in = newInstance(key, cfg)
			t.byKey[key] = in
		}
		if in.ended == nil {
			err := in.add(p)
			t.mu.Unlock()
			return in, err
		}
		t.mu.Unlock()
		<-in.ended
	}
}

// leave takes the producer out of its instance, which ends when it was the last.
func (t *instanceTable) leave(p *Producer) error {
	in := p.instance
	t.mu.Lock()
	last := in.remove(p)
	if last {
		in.ended = make(chan struct{})
	}
	t.mu.Unlock()
	if !last {
		ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
		defer cancel()
		in.presence.update(ctx)
		return nil
	}
	err := in.presence.close()
	t.mu.Lock()
	delete(t.byKey, in.key)
	t.mu.Unlock()
	close(in.ended)
	return err
}

// keyOf tells which instance a producer belongs to. One without a name is alone.
func keyOf(cfg *ProducerConfig) instanceKey {
	name := cfg.InstanceName
	if !isNamed(name) {
		name = newInstanceName()
	}
	key := instanceKey{id: clientID(name, cfg.UnitName)}
	if comparableNames(cfg.NameService) {
		key.names = cfg.NameService
	}
	return key
}

// comparableNames reports whether a name service can be told from others.
func comparableNames(names protocol.NameService) bool { return reflect.ValueOf(names).Comparable() }

// checkInstance wants what clients can be told apart by.
func checkInstance(cfg *ProducerConfig) error {
	err := errors.Join(checkInstanceName("InstanceName", cfg.InstanceName), checkInstanceName("UnitName", cfg.UnitName))
	if isNamed(cfg.InstanceName) && cfg.NameService != nil && !comparableNames(cfg.NameService) {
		err = errors.Join(err, &message.IllegalError{
			Field: "Config.NameService", Reason: "can not be compared with that of others, as InstanceName wants it: use a pointer",
		})
	}
	return err
}

func newInstance(key instanceKey, cfg *ProducerConfig) *instance {
	in := &instance{key: key, producers: map[string]*Producer{}}
	in.presence = presence{
		names: cfg.NameService, connect: cfg.Connect, interval: max(cfg.RouteInterval, time.Second), log: cfg.Logger,
		request: in.request, also: in.refreshRoutes,
	}
	in.requests.log = cfg.Logger
	return in
}

func (in *instance) add(p *Producer) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	group := p.ns.wrap(p.group)
	if _, ok := in.producers[group]; ok {
		return fmt.Errorf("%w: %s, in the client %s", ErrGroupExists, group, in.key.id)
	}
	in.producers[group] = p
	return nil
}

// remove reports whether the producer was the last.
func (in *instance) remove(p *Producer) (last bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.producers, p.ns.wrap(p.group))
	return len(in.producers) == 0
}

// members are the producers, at the moment.
func (in *instance) members() []*Producer {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Collect(maps.Values(in.producers))
}

// request is what brokers get to know.
func (in *instance) request() protocol.RegisterClientRequest {
	in.mu.Lock()
	defer in.mu.Unlock()
	return protocol.RegisterClientRequest{
		ClientID: in.key.id, ProducerGroups: slices.Sorted(maps.Keys(in.producers)), Client: in,
	}
}

// refreshRoutes asks the name service about the topics in use.
func (in *instance) refreshRoutes(ctx context.Context) {
	for _, p := range in.members() {
		p.routes.refreshUsed(ctx, p.now())
	}
}

// CheckTransactionState passes the question on to the producer of the group.
func (in *instance) CheckTransactionState(ctx context.Context, req protocol.CheckTransactionStateRequest) error {
	in.mu.Lock()
	p := in.producers[req.Group]
	in.mu.Unlock()
	if p == nil || p.checker == nil {
		return &protocol.Error{Code: protocol.SystemError, Remark: "client " + in.key.id + " has no producer of group " + req.Group + " that knows transactions"}
	}
	return p.checker(ctx, req)
}

// PushReplyMessage passes the reply on to who waits for it.
func (in *instance) PushReplyMessage(_ context.Context, req protocol.PushReplyMessageRequest) error {
	return in.requests.answer(req.Message)
}
