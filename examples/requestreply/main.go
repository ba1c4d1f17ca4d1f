// Requestreply shows questions that are messages, and their answers. One part of
// the program adds numbers for others: it consumes the topic "sums" and replies.
// Another part asks, once and waiting, then many times at once, and at last when
// nobody answers any more. It fails if an answer is not the one to its question.
//
//	go run ./examples/requestreply
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/mq"
)

const topic = "sums"

func main() {
	dir, err := os.MkdirTemp("", "pocketmq-requestreply-")
	if err == nil {
		err = errors.Join(run(context.Background(), dir, os.Stdout), os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "requestreply:", err)
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
	asker, err := node.Producer("askers")
	if err != nil {
		return err
	}
	stop, err := startAdder(ctx, node)
	if err != nil {
		return err
	}
	err = errors.Join(askOne(ctx, asker, out), askMany(ctx, asker, out))
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return askNobody(ctx, asker, out)
}

// startAdder replies to all questions until it is stopped.
func startAdder(ctx context.Context, node *pocketmq.Node) (stop func() error, err error) {
	replier, err := node.Producer("adders")
	if err != nil {
		return nil, err
	}
	consumer, err := node.NewConsumer(ctx, mq.ConsumerConfig{Group: "adders", Topic: topic, AutoCommit: true})
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = addAll(ctx, consumer, replier) })
	return func() error {
		err := consumer.Close()
		wg.Wait()
		return errors.Join(err, failed)
	}, nil
}

func addAll(ctx context.Context, consumer *pocketmq.Consumer, replier *pocketmq.Producer) error {
	for m, err := range consumer.Messages(ctx) {
		if errors.Is(err, pocketmq.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := replier.Reply(ctx, m, []byte(sum(string(m.Body)))); err != nil {
			return err
		}
	}
	return nil
}

// sum adds the numbers of "1 + 2 + 3".
func sum(question string) string {
	total := 0
	for term := range strings.SplitSeq(question, "+") {
		n, err := strconv.Atoi(strings.TrimSpace(term))
		if err != nil {
			return "not a sum"
		}
		total += n
	}
	return strconv.Itoa(total)
}

// askOne waits for the answer.
func askOne(ctx context.Context, asker *pocketmq.Producer, out io.Writer) error {
	for _, question := range []string{"1 + 2", "20 + 22", "one and one"} {
		reply, err := asker.Request(ctx, &pocketmq.Message{Topic: topic, Body: []byte(question)})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s = %s\n", question, reply.Body)
	}
	return nil
}

// askMany asks everything at once. The answers come as they like, each to its
// question.
func askMany(ctx context.Context, asker *pocketmq.Producer, out io.Writer) error {
	const questions = 50
	errs := make([]error, questions)
	var wg sync.WaitGroup
	for i := range questions {
		wg.Add(1)
		question := fmt.Sprintf("%d + %d", i, i)
		asker.RequestAsync(ctx, &pocketmq.Message{Topic: topic, Body: []byte(question)}, func(reply *pocketmq.MessageExt, err error) {
			defer wg.Done()
			if err == nil && string(reply.Body) != strconv.Itoa(i+i) {
				err = fmt.Errorf("%s is not %s", question, reply.Body)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d questions at once: %d right answers\n", questions, questions)
	return nil
}

// askNobody gets an error when the time is over.
func askNobody(ctx context.Context, asker *pocketmq.Producer, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := asker.Request(ctx, &pocketmq.Message{Topic: topic, Body: []byte("3 + 4")})
	if !errors.Is(err, pocketmq.ErrRequestTimeout) {
		return fmt.Errorf("who has answered? %w", err)
	}
	fmt.Fprintln(out, "3 + 4 = nobody answers")
	return nil
}
