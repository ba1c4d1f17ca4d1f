// Ordered shows how the events of one thing stay in order while those of many
// things are sent at once: each order's number is the key that chooses the
// queue, and a queue keeps its order. It prints every order's events as they
// came back, and fails if one of them is out of order.
//
//	go run ./examples/ordered
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/mq"
)

const (
	topic  = "order-events"
	queues = 4
	orders = 6
)

// events are what happens to each order.
var events = []string{"created", "paid", "packed", "shipped"}

func main() {
	dir, err := os.MkdirTemp("", "pocketmq-ordered-")
	if err == nil {
		err = errors.Join(run(context.Background(), dir, os.Stdout), os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ordered:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	node, err := pocketmq.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	if err := node.CreateTopic(ctx, pocketmq.TopicConfig{Name: topic, ReadQueueNums: queues, WriteQueueNums: queues}); err != nil {
		return err
	}
	if err := sendAll(ctx, node); err != nil {
		return err
	}
	came, err := receiveAll(ctx, node)
	if err != nil {
		return err
	}
	for i := range orders {
		got := came[orderNumber(i)]
		if !slices.Equal(got, events) {
			return fmt.Errorf("%s: events came as %v", orderNumber(i), got)
		}
		fmt.Fprintf(out, "%s: %s\n", orderNumber(i), strings.Join(got, ", "))
	}
	return nil
}

func orderNumber(i int) string { return fmt.Sprintf("order-%d", i+1) }

// sendAll has a goroutine for each order. It waits for each event to be on disk
// before it sends the next: that, and the key, is what keeps them in order.
func sendAll(ctx context.Context, node *pocketmq.Node) error {
	producer, err := node.Producer("shop")
	if err != nil {
		return err
	}
	errs := make([]error, orders)
	var wg sync.WaitGroup
	for i := range orders {
		wg.Go(func() { errs[i] = sendOrder(ctx, producer, orderNumber(i)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func sendOrder(ctx context.Context, producer *pocketmq.Producer, order string) error {
	for _, event := range events {
		m := &pocketmq.Message{Topic: topic, Body: []byte(order + " " + event)}
		if _, err := producer.SendSelected(ctx, m, mq.SelectByKey, order); err != nil {
			return err
		}
	}
	return nil
}

// receiveAll returns the events of each order as they came.
func receiveAll(ctx context.Context, node *pocketmq.Node) (map[string][]string, error) {
	consumer, err := node.Consumer(ctx, "warehouse", topic)
	if err != nil {
		return nil, err
	}
	came := map[string][]string{}
	queueOf := map[string]int32{}
	for range orders * len(events) {
		m, err := consumer.Receive(ctx)
		if err != nil {
			return nil, err
		}
		order, event, _ := strings.Cut(string(m.Body), " ")
		if q, ok := queueOf[order]; ok && q != m.QueueID {
			return nil, fmt.Errorf("%s is in queues %d and %d", order, q, m.QueueID)
		}
		queueOf[order] = m.QueueID
		came[order] = append(came[order], event)
	}
	return came, consumer.Commit(ctx)
}
