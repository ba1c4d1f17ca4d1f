package pocketmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/protocol"
)

// CreateTopic makes a topic on all disks that are open, or replaces its
// configuration, which says how many queues there are to be on each. It is on
// disk when it returns; an error names the disks where it is not. Without it,
// the first message makes its topic with four queues, and other disks get it
// soon after.
func (n *Node) CreateTopic(ctx context.Context, topic TopicConfig) error {
	disks := n.open()
	if len(disks) == 0 {
		return ErrClosed
	}
	var errs []error
	for _, d := range disks {
		if err := d.Broker.CreateTopic(ctx, topic); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.Dir, err))
		}
	}
	return errors.Join(errs...)
}

// Topics returns all topics of applications, sorted by name, each as the first
// disk has it on which it is.
func (n *Node) Topics(ctx context.Context) ([]TopicConfig, error) {
	disks := n.open()
	if len(disks) == 0 {
		return nil, ErrClosed
	}
	topics := map[string]TopicConfig{}
	for _, d := range slices.Backward(disks) {
		list, err := d.Broker.ListTopics(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Dir, err)
		}
		for _, t := range list {
			topics[t.Name] = t
		}
	}
	return slices.SortedFunc(maps.Values(topics), func(a, b TopicConfig) int { return strings.Compare(a.Name, b.Name) }), nil
}

// A topic that is on one disk alone would leave its senders no choice. So the
// disks get each other's topics: those that are there when they are opened, and
// those that first messages make. That happens behind the send, by a goroutine
// for each disk, because one disk that hangs must hold up nobody.

// startSpreading makes all topics on all disks.
func (n *Node) startSpreading() {
	if len(n.disks) < 2 {
		return
	}
	for _, d := range n.disks {
		n.wantAll(d)
		n.makeTopics(d)
		n.wg.Go(func() {
			for {
				select {
				case <-d.kick:
					n.makeTopics(d)
				case <-n.running.Done():
					return
				}
			}
		})
	}
}

// spread has the other disks get a topic that a message made on from.
func (n *Node) spread(topic TopicConfig, from *disk) {
	n.diskMu.Lock()
	defer n.diskMu.Unlock()
	for _, d := range n.disks {
		if d == from {
			continue
		}
		d.wanted[topic.Name] = topic
		d.wake()
	}
}

// wake has the disk's goroutine make topics.
func (d *disk) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// deletions are those of all disks that are open.
func (n *Node) deletions() broker.Deletions {
	all := broker.Deletions{}
	for _, d := range n.open() {
		for topic, at := range d.Broker.Deletions() {
			if at.After(all[topic]) {
				all[topic] = at
			}
		}
	}
	return all
}

// applyDeletions has the disks of a node that is being opened delete what was
// deleted on others while they were missing.
func (n *Node) applyDeletions(ctx context.Context) {
	deletions := n.deletions()
	for _, d := range n.open() {
		if err := d.Broker.ApplyDeletions(ctx, deletions); err != nil {
			n.log.Error("topics that were deleted while a disk was missing are there again", "dir", d.Dir, "err", err)
		}
	}
}

// wantAll has a disk get the topics of the others.
func (n *Node) wantAll(d *disk) {
	topics, err := n.Topics(n.running)
	if err != nil {
		return // the node is being closed
	}
	n.diskMu.Lock()
	defer n.diskMu.Unlock()
	for _, t := range topics {
		d.wanted[t.Name] = t
	}
}

// makeTopics makes those that are wanted and not there. What fails, or finds the
// disk not open, is tried again with the next topic, or when it is opened. What
// no disk has any more was deleted.
func (n *Node) makeTopics(d *disk) {
	n.diskMu.Lock()
	now, wanted := d.now, maps.Clone(d.wanted)
	n.diskMu.Unlock()
	if now.Err != nil || len(wanted) == 0 {
		return
	}
	topics, err := n.Topics(n.running)
	if err != nil {
		return // the node is being closed
	}
	for name, topic := range wanted {
		_, err := now.Broker.GetTopic(n.running, name)
		if errors.Is(err, protocol.TopicNotExist) {
			err = nil
			if slices.ContainsFunc(topics, func(t TopicConfig) bool { return t.Name == name }) {
				err = now.Broker.CreateTopic(n.running, topic)
			}
		}
		if err != nil {
			n.log.Warn("topic of another disk not made; will try again", "topic", name, "dir", now.Dir, "err", err)
			continue
		}
		n.diskMu.Lock()
		delete(d.wanted, name)
		n.diskMu.Unlock()
	}
}
