// Outbox shows how a change of a database and a message about it happen together
// or not at all. The message is sent in a transaction: nobody sees it before the
// database has the change. When the program dies in between, the broker asks later
// what became of it, and the answer is in the database.
//
//	go run ./examples/outbox
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/mq"
)

const topic = "paid-orders"

func main() {
	dir, err := os.MkdirTemp("", "pocketmq-outbox-")
	if err == nil {
		err = errors.Join(run(context.Background(), dir, os.Stdout), os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	db := &database{path: filepath.Join(dir, "orders.json")}
	if err := sell(ctx, dir, db, out); err != nil {
		return err
	}
	fmt.Fprintln(out, "the program starts again")
	return ship(ctx, dir, db, out)
}

// shop is a store with a producer whose broker asks soon.
type shop struct {
	node     *pocketmq.Node
	producer *pocketmq.TransactionProducer
}

func open(ctx context.Context, dir string, check mq.TransactionChecker) (*shop, error) {
	node, err := pocketmq.OpenConfig(ctx, pocketmq.Config{
		Dir: filepath.Join(dir, "store"), Broker: broker.Config{TransactionTimeout: 200 * time.Millisecond},
	})
	if err != nil {
		return nil, err
	}
	producer, err := node.NewTransactionProducer(mq.TransactionProducerConfig{
		ProducerConfig: mq.ProducerConfig{Group: "shop"}, Check: check,
	})
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return &shop{node, producer}, nil
}

// sell takes four orders. The last two meet a power failure.
func sell(ctx context.Context, dir string, db *database, out io.Writer) (err error) {
	s, err := open(ctx, dir, func(context.Context, *pocketmq.MessageExt) (mq.TransactionState, error) {
		return mq.TransactionUnknown, nil // the power is gone
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.node.Close()) }()
	for _, sale := range []struct {
		order string
		local func() (mq.TransactionState, error)
	}{
		{"order-1", func() (mq.TransactionState, error) { return mq.TransactionCommit, db.add("order-1") }},
		{"order-2", func() (mq.TransactionState, error) { return mq.TransactionRollback, nil }}, // no money
		{"order-3", func() (mq.TransactionState, error) { panic(errors.Join(db.add("order-3"), errPower)) }},
		{"order-4", func() (mq.TransactionState, error) { panic(errPower) }}, // before it was paid
	} {
		m := &pocketmq.Message{Topic: topic, Body: []byte(sale.order)}
		r, err := s.producer.SendInTransaction(ctx, m, func(context.Context, *pocketmq.Message) (mq.TransactionState, error) {
			return sale.local()
		})
		if err != nil && !errors.Is(err, errPower) {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", sale.order, r.State)
	}
	return nil
}

var errPower = errors.New("power failure")

// ship answers what the broker asks, and receives what was paid.
func ship(ctx context.Context, dir string, db *database, out io.Writer) (err error) {
	asked := make(chan string, 2)
	s, err := open(ctx, dir, func(_ context.Context, m *pocketmq.MessageExt) (mq.TransactionState, error) {
		paid, err := db.has(string(m.Body))
		state := mq.TransactionRollback
		if paid {
			state = mq.TransactionCommit
		}
		asked <- fmt.Sprintf("%s: %s", m.Body, state)
		return state, err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.node.Close()) }()
	for range cap(asked) {
		select {
		case answer := <-asked:
			fmt.Fprintln(out, "the broker asks about", answer)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	consumer, err := s.node.Consumer(ctx, "warehouse", topic)
	if err != nil {
		return err
	}
	shipped := map[string]bool{}
	for len(shipped) < 2 {
		m, err := consumer.Receive(ctx)
		if err != nil {
			return err
		}
		shipped[string(m.Body)] = true
	}
	for _, order := range []string{"order-1", "order-2", "order-3", "order-4"} {
		fmt.Fprintf(out, "%s shipped: %v\n", order, shipped[order])
	}
	return consumer.CommitSync(ctx)
}
