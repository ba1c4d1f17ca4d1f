package mq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// ReaderConfig says what a reader reads. Topic, NameService and Connect are
// required.
type ReaderConfig struct {
	Topic       string
	NameService protocol.NameService
	Connect     Connect
	Namespace   string // as in ConsumerConfig

	QueueIDs      []int32  // all queues when empty
	TagExpression string   // as in ConsumerConfig
	From          Position // Begin when nil
	// Follow waits for more at the end of a queue, and for more queues.
	Follow bool

	// As in ConsumerConfig.
	PrefetchMessages int
	PrefetchBytes    int
	MaxInflatedBody  int
	RouteInterval    time.Duration
	Logger           *slog.Logger
}

// Reader reads a topic without a group: it commits nothing and disturbs nobody.
// It is for tools.
type Reader struct {
	f    fetcher
	once sync.Once
	done chan struct{}
}

// NewReader begins to read. ctx is for looking up route and positions. Without
// Follow, the topic must exist, and what is read ends where its queues end now.
// The reader must be closed.
func NewReader(ctx context.Context, cfg ReaderConfig) (*Reader, error) {
	setDefault(&cfg.PrefetchMessages, DefaultPrefetchMessages)
	setDefault(&cfg.PrefetchBytes, DefaultPrefetchBytes)
	setDefault(&cfg.MaxInflatedBody, DefaultMaxInflatedBody)
	setDefault(&cfg.RouteInterval, DefaultRouteInterval)
	if cfg.From == nil {
		cfg.From = Begin
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ns := namespace(cfg.Namespace)
	err := errors.Join(
		ns.validate(), ns.checkWrapped(cfg.Topic, message.CheckTopic),
		checkReading(cfg.Topic, cfg.NameService, cfg.Connect, cfg.PrefetchMessages, cfg.PrefetchBytes, cfg.MaxInflatedBody, cfg.RouteInterval),
	)
	if err != nil {
		return nil, err
	}
	if !cfg.Follow {
		if _, err := cfg.NameService.RouteOfTopic(ctx, ns.wrap(cfg.Topic)); err != nil {
			return nil, err
		}
	}
	r := &Reader{done: make(chan struct{}), f: fetcher{
		ns: ns, topic: ns.wrap(cfg.Topic), tagExpression: cfg.TagExpression,
		maxMessages: cfg.PrefetchMessages, maxBytes: cfg.PrefetchBytes,
		names: cfg.NameService, connect: cfg.Connect,
		start: cfg.From, later: Begin, follow: cfg.Follow,
		interval: cfg.RouteInterval, log: cfg.Logger,
		copier: copier{tags: parseTags(cfg.TagExpression), maxBody: cfg.MaxInflatedBody},
	}}
	if len(cfg.QueueIDs) > 0 {
		r.f.queueIDs = map[int32]bool{}
		for _, id := range cfg.QueueIDs {
			r.f.queueIDs[id] = true
		}
	}
	if err := r.f.run(ctx); err != nil {
		return nil, fmt.Errorf("reader of topic %s: %w", cfg.Topic, err)
	}
	return r, nil
}

// Next returns the next message; of one queue in its order, of several as they
// come. Without Follow it returns io.EOF at the end. As with Consumer.Receive,
// reading goes on after a *SkippedError.
func (r *Reader) Next(ctx context.Context) (*message.MessageExt, error) { return r.f.receive(ctx) }

// Messages yields what Next returns. It ends without an error where Next
// returns io.EOF, and after the error when ctx ends or the reader is closed.
func (r *Reader) Messages(ctx context.Context) iter.Seq2[*message.MessageExt, error] {
	return func(yield func(*message.MessageExt, error) bool) {
		for {
			m, err := r.Next(ctx)
			if errors.Is(err, io.EOF) || !yield(m, err) || r.f.ended(ctx, err) {
				return
			}
		}
	}
}

// Close ends reading. It is idempotent.
func (r *Reader) Close() error {
	r.once.Do(func() {
		close(r.done)
		r.f.close()
	})
	return nil
}

// Done is closed by Close.
func (r *Reader) Done() <-chan struct{} { return r.done }
