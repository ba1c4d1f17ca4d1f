package mq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/protocol"
)

// presence keeps a client known to all brokers, also to those that come later or
// come back, so that they can ask it things.
//
// Source: RocketMQ client/impl/factory/MQClientInstance.java, sendHeartbeatToAllBroker.
type presence struct {
	names    protocol.NameService
	connect  Connect
	interval time.Duration // between two rounds without a change announced
	log      *slog.Logger
	// request says who the client is, at the time of the call.
	request func() protocol.RegisterClientRequest
	// also, if not nil, is called at each interval.
	also func(context.Context)

	changed chan struct{} // from the name service
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	known  map[string]registration // by the broker's name
	round  int                     // of the registrations that count
	closed bool                    // and so nobody must register it again
}

// registration is a broker that knows the client, or did in an earlier round.
type registration struct {
	broker protocol.Broker
	round  int
}

// start registers with all brokers that there are, and goes on to do so until
// close. Brokers that can not be reached are tried again later.
func (p *presence) start(ctx context.Context) {
	p.known = map[string]registration{}
	p.changed = make(chan struct{}, 1)
	unwatch := p.names.WatchRoutes(p.changed)
	p.announce(ctx)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	p.wg.Go(func() {
		defer unwatch()
		p.run(run)
	})
}

func (p *presence) run(ctx context.Context) {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		select {
		case <-p.changed:
		case <-ticker.C:
			p.forget()
			if p.also != nil {
				p.also(ctx)
			}
		case <-ctx.Done():
			return
		}
		p.announce(ctx)
	}
}

// forget makes the next announcement go to all brokers, for one may have lost
// its memory without anybody noticing.
func (p *presence) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
}

// announce registers with the brokers that do not know the client.
func (p *presence) announce(ctx context.Context) {
	brokers, err := p.names.ListBrokers(ctx)
	if err != nil {
		p.failed(ctx, err)
		return
	}
	for _, data := range brokers {
		if err := p.register(ctx, data); err != nil {
			p.failed(ctx, fmt.Errorf("broker %s: %w", data.Name, err))
		}
	}
}

func (p *presence) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		p.log.Warn("client not registered; will try again", "client", p.request().ClientID, "err", err)
	}
}

// register makes the client known to a broker, unless it is.
func (p *presence) register(ctx context.Context, data protocol.BrokerData) error {
	b, err := p.connect(ctx, data)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := registration{b, p.round}
	if p.closed || p.known[data.Name] == now {
		return nil
	}
	if err := b.RegisterClient(ctx, p.request()); err != nil {
		return err
	}
	p.known[data.Name] = now
	return nil
}

// broker is one at which the client is registered.
func (p *presence) broker(name string) (protocol.Broker, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.known[name]
	return r.broker, ok
}

// update tells all brokers anew who the client is.
func (p *presence) update(ctx context.Context) {
	p.forget()
	p.announce(ctx)
}

// close makes the brokers forget the client. An update meanwhile ends after that.
func (p *presence) close() error {
	p.cancel()
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	id := p.request().ClientID
	var errs []error
	for name, known := range p.known {
		if err := known.broker.UnregisterClient(context.Background(), id); err != nil {
			errs = append(errs, fmt.Errorf("client %s, broker %s: %w", id, name, err))
		}
	}
	return errors.Join(errs...)
}
