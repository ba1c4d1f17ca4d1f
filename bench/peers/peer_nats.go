package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var natsJetStream = peer{
	name:   "NATS JetStream",
	module: "github.com/nats-io/nats-server/v2",
	gives: map[promise]string{
		processCrash: "default (`sync_interval` 2 minutes): a message is written before it is acknowledged",
		powerLoss:    "`sync_interval: always`; each message is synced for itself",
	},
	batch: "atomic publish (`AllowAtomicPublish`): seen as a whole",
	notes: "Server in this process, connected in process, without a socket; one stream with file storage and one replica. " +
		"A put is a publish that waits for its acknowledgement, as that is when the promise holds. " +
		"A read is `Messages` of a pull consumer that acknowledges nothing; it asks for up to 500 messages ahead, its default.",
	open: openNATS,
}

var natsAsync = peer{
	name:   "NATS JetStream async",
	module: natsJetStream.module,
	gives: map[promise]string{
		memoryOnly: "a put is `PublishAsync`, and returns before the server has the message; there are up to 4,000 unanswered ones, its default. " +
			"What is acknowledged is as of the row above, and all of it is “until readable”",
	},
	putsOnly: true,
	notes:    "Else as NATS JetStream.",
	open:     openNATSAsync,
}

const (
	natsStream  = "BENCH"
	natsSubject = "bench"
	natsTimeout = 30 * time.Second // of one call
)

type natsQueue struct {
	drained
	server  *server.Server
	conn    *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	batches atomic.Int64
	lost    atomic.Int64 // of those that nobody waits for
}

func openNATS(dir string, p promise, _ int) (queue, error) { return startNATS(dir, p) }

func startNATS(dir string, p promise) (*natsQueue, error) {
	s, err := server.NewServer(&server.Options{
		JetStream: true, StoreDir: dir, SyncAlways: p == powerLoss,
		DontListen: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, err
	}
	q := &natsQueue{server: s}
	s.Start()
	if err := q.connect(); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

func (q *natsQueue) connect() (err error) {
	if !q.server.ReadyForConnections(natsTimeout) {
		return errors.New("the server does not start")
	}
	if q.conn, err = nats.Connect("", nats.InProcessServer(q.server)); err != nil {
		return err
	}
	q.js, err = jetstream.New(q.conn, jetstream.WithDefaultTimeout(natsTimeout),
		jetstream.WithPublishAsyncErrHandler(func(jetstream.JetStream, *nats.Msg, error) { q.lost.Add(1) }))
	if err != nil {
		return err
	}
	q.stream, err = q.js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{
		Name: natsStream, Subjects: []string{natsSubject}, Storage: jetstream.FileStorage, AllowAtomicPublish: true,
	})
	return err
}

func (q *natsQueue) Put(body []byte) error {
	_, err := q.js.Publish(context.Background(), natsSubject, body)
	return err
}

// PutBatch sends the batch as NATS' ADR-50 says: the last message commits it, and is answered.
func (q *natsQueue) PutBatch(bodies [][]byte) error {
	id := strconv.FormatInt(q.batches.Add(1), 10) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	for i, body := range bodies {
		m := nats.NewMsg(natsSubject)
		m.Data = body
		m.Header.Set("Nats-Batch-Id", id)
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		if i < len(bodies)-1 {
			if err := q.conn.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header.Set("Nats-Batch-Commit", "1")
		return q.commit(m, len(bodies))
	}
	return nil
}

func (q *natsQueue) commit(m *nats.Msg, size int) error {
	answer, err := q.conn.RequestMsg(m, natsTimeout)
	if err != nil {
		return err
	}
	var ack struct {
		Error     *jetstream.APIError `json:"error"`
		BatchSize int                 `json:"count"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return fmt.Errorf("answer %q: %w", answer.Data, err)
	}
	if ack.Error != nil {
		return ack.Error
	}
	if ack.BatchSize != size {
		return fmt.Errorf("answer %q to a batch of %d", answer.Data, size)
	}
	return nil
}

func (q *natsQueue) ReadAll(_ int, yield func([]byte) error) error {
	ctx := context.Background()
	info, err := q.stream.Info(ctx)
	if err != nil {
		return err
	}
	consumer, err := q.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for range info.State.Msgs {
		m, err := messages.Next(jetstream.NextMaxWait(natsTimeout))
		if err != nil {
			return err
		}
		if err := yield(m.Data()); err != nil {
			return err
		}
	}
	return nil
}

func (q *natsQueue) Close() error {
	if q.conn != nil {
		q.conn.Close()
	}
	q.server.Shutdown()
	q.server.WaitForShutdown()
	return nil
}

// natsAsyncQueue does not wait for each acknowledgement.
type natsAsyncQueue struct{ *natsQueue }

func openNATSAsync(dir string, p promise, _ int) (queue, error) {
	q, err := startNATS(dir, p)
	if err != nil {
		return nil, err
	}
	return natsAsyncQueue{q}, nil
}

func (q natsAsyncQueue) Put(body []byte) error {
	_, err := q.js.PublishAsync(natsSubject, body, jetstream.WithStallWait(natsTimeout))
	return err
}

func (q natsAsyncQueue) PutBatch([][]byte) error { return errNoBatch }

// Drain waits for all acknowledgements.
func (q natsAsyncQueue) Drain() error {
	<-q.js.PublishAsyncComplete()
	if n := q.lost.Load(); n > 0 {
		return fmt.Errorf("%d messages were not acknowledged", n)
	}
	return nil
}
