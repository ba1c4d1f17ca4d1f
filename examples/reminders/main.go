// Reminders shows delayed messages and retries: it sends reminders for later, at
// delay levels and at times of their own, cancels one, closes the directory and
// opens it again, receives each when its time has come, and has the one that can
// not be handled at first come again.
//
//	go run ./examples/reminders DIR
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// levels are the delays to choose from. Without it there are RocketMQ's 18, from
// a second to two hours. It must not change while messages wait.
const levels = "1s 2s 3s"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reminders DIR")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, out io.Writer) error {
	if err := schedule(ctx, dir, out); err != nil {
		return err
	}
	return remind(ctx, dir, out)
}

func open(ctx context.Context, dir string) (*pocketmq.Node, error) {
	return pocketmq.OpenConfig(ctx, pocketmq.Config{Dir: dir, Store: store.Config{DelayLevels: levels}})
}

// schedule sends the reminders, the last one first.
func schedule(ctx context.Context, dir string, out io.Writer) (err error) {
	node, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	p, err := node.Producer("calendar")
	if err != nil {
		return err
	}
	for _, r := range []struct{ level, text string }{{"3", "go home"}, {"1", "wake up"}, {"2", "have tea"}} {
		properties, err := message.NewProperties(message.PropertyDelayLevel, r.level)
		if err != nil {
			return err
		}
		if _, err := p.Send(ctx, &pocketmq.Message{Topic: "reminders", Body: []byte(r.text), Properties: properties}); err != nil {
			return err
		}
	}
	handle, err := at(ctx, p, "do the dishes", time.Now().Add(time.Hour))
	if err != nil {
		return err
	}
	if _, err := at(ctx, p, "call home", time.Now().Add(5*time.Second)); err != nil {
		return err
	}
	if err := p.CancelTimer(ctx, handle); err != nil { // an error that matches pocketmq.ErrNotPending would say: too late
		return err
	}
	fmt.Fprintln(out, "4 reminders are on disk, and one was cancelled")
	return nil
}

// at sends a reminder for a time of its own, and returns by what it can be
// cancelled, until then and by whomever.
func at(ctx context.Context, p *pocketmq.Producer, text string, due time.Time) (handle string, err error) {
	var properties pocketmq.Properties
	r, err := p.Send(ctx, &pocketmq.Message{Topic: "reminders", Body: []byte(text), Properties: properties.DeliverAt(due)})
	return r.RecallHandle, err
}

// remind receives them. It fails with one, the first time.
func remind(ctx context.Context, dir string, out io.Writer) (err error) {
	node, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	c, err := node.Consumer(ctx, "bell", "reminders")
	if err != nil {
		return err
	}
	for done := 0; done < 4; {
		m, err := c.Receive(ctx)
		if err != nil {
			return err
		}
		if string(m.Body) == "have tea" && m.ReconsumeTimes == 0 {
			fmt.Fprintf(out, "%s: the bell is broken\n", m.Body)
			if err := c.Retry(ctx, m, 2); err != nil { // after 2 s; level mq.RetryLater takes the third at first
				return err
			}
		} else {
			fmt.Fprintf(out, "%s: ringing, attempt %d\n", m.Body, m.ReconsumeTimes+1)
			done++
		}
		if err := c.CommitSync(ctx); err != nil {
			return err
		}
	}
	return nil
}
