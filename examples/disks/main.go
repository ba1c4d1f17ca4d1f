// Disks shows a node with three disks, of which one is missing at first and one
// fills up, while no send fails: messages go to the disks that work, and come
// back to the others when those are well again. A consumer reads all of them.
//
//	go run ./examples/disks DIR
//
// So that it needs no real disks, each is a directory under DIR; a file in the
// place of one stands for a disk that is not mounted, and a small limit for one
// that is full.
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
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/store"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: disks DIR")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, out io.Writer) (err error) {
	large, small, missing := filepath.Join(dir, "large"), filepath.Join(dir, "small"), filepath.Join(dir, "missing")
	if err := os.WriteFile(missing, nil, 0o600); err != nil {
		return err
	}
	segments := store.Config{Flush: store.FlushAsync, SegmentSize: 1 << 20, ConsumeQueueFileSize: 1000 * 20, NoIndex: true}
	limited := segments
	limited.MaxBytes = 4 << 20
	node, err := pocketmq.OpenConfig(ctx, pocketmq.Config{
		Store: segments, // of all that have none of their own
		Disks: []pocketmq.DiskConfig{{Dir: large}, {Dir: small, Store: &limited}, {Dir: missing}},

		AllowMissingDisks: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	d := demo{node: node, out: out}
	if d.producer, err = node.NewProducer(mq.ProducerConfig{
		Group:  "meters",
		Faults: mq.FaultPolicy{ProbeInterval: 10 * time.Millisecond}, // a second without it
	}); err != nil {
		return err
	}
	topic := pocketmq.TopicConfig{Name: "readings", ReadQueueNums: 2, WriteQueueNums: 2} // on each disk
	if err := node.CreateTopic(ctx, topic); err != nil {
		return err
	}
	d.say("one is missing")

	if err := d.send(ctx, 2000); err != nil {
		return err
	}
	d.say("2000 messages later")

	if err := os.Remove(missing); err != nil {
		return err
	}
	if err := node.Reopen(ctx, missing); err != nil {
		return err
	}
	if err := d.sendUntilUsed(ctx, 2); err != nil {
		return err
	}
	d.say("the missing one is there, and used")

	if err := d.receiveAll(ctx); err != nil {
		return err
	}
	// What was consumed can go. Retention.Groups would have it done without asking.
	full := node.Disks()[1].Store
	if err := full.WaitDispatched(ctx, full.MaxOffset()); err != nil {
		return err
	}
	if _, err := full.RemoveBefore(ctx, full.MaxOffset()); err != nil {
		return err
	}
	if err := d.sendUntilUsed(ctx, 1); err != nil {
		return err
	}
	d.say("there is room, and it is used")
	return d.receiveAll(ctx)
}

// demo sends, and counts what was sent and not yet received.
type demo struct {
	node     *pocketmq.Node
	producer *pocketmq.Producer
	out      io.Writer
	sent     int
}

// say prints how the disks are.
func (d *demo) say(when string) {
	fmt.Fprintln(d.out, when)
	for _, disk := range d.node.Disks() {
		state := "not open"
		if disk.Err == nil {
			state = "works"
			if disk.Store.Health().Has(store.HealthDiskFull) {
				state = "is full"
			}
		}
		fmt.Fprintf(d.out, "  %s: %s\n", filepath.Base(disk.Dir), state)
	}
}

// send sends messages, each of which must be taken.
func (d *demo) send(ctx context.Context, n int) error {
	for range n {
		if _, err := d.producer.Send(ctx, &pocketmq.Message{Topic: "readings", Body: make([]byte, 4<<10)}); err != nil {
			return err
		}
		d.sent++
	}
	return nil
}

// sendUntilUsed sends now and then until a disk has got one more message.
func (d *demo) sendUntilUsed(ctx context.Context, i int) error {
	disk := d.node.Disks()[i]
	for before, sent := disk.Store.MaxOffset(), 0; disk.Store.MaxOffset() == before; sent++ {
		if sent == 20_000 {
			return fmt.Errorf("%s is not used", disk.Dir)
		}
		if err := d.send(ctx, 1); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// receiveAll receives and commits all that was sent, from whatever disk.
func (d *demo) receiveAll(ctx context.Context) (err error) {
	consumer, err := d.node.Consumer(ctx, "billing", "readings")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consumer.Close()) }()
	for ; d.sent > 0; d.sent-- {
		if _, err := consumer.Receive(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(d.out, "all of it received")
	return consumer.CommitSync(ctx)
}
