package pocketmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// DiskConfig is one of several directories of a node, each of which is best on a
// disk of its own.
type DiskConfig struct {
	// Dir is the directory of the store. It is made when it does not exist.
	Dir string
	// Store and Broker are for this directory alone; when nil, those of Config.
	Store  *store.Config
	Broker *broker.Config
}

// Disk is one of a node's directories, as it was when it was asked for. When it
// is not open Err says why, and Store and Broker are those that were closed, nil
// if there were none. Otherwise Store.Health says how it is. The node closes both.
type Disk struct {
	Dir    string
	Store  *store.DefaultMessageStore
	Broker *broker.Broker
	Err    error
}

// disk is a directory with its configuration.
type disk struct {
	cfg DiskConfig // with nothing nil

	changing sync.Mutex // held while it is opened or closed

	// Guarded by the node's diskMu.
	now    Disk
	wanted map[string]protocol.TopicConfig // topics of other disks, to be made here
	kick   chan struct{}                   // capacity 1: there may be such topics
}

// disks are those of a configuration, with what they have in common.
func (c *Config) disks() ([]*disk, error) {
	configs := c.Disks
	switch {
	case len(configs) == 0:
		configs = []DiskConfig{{Dir: c.Dir}}
	case c.Dir != "":
		return nil, &IllegalError{Field: "Config.Dir", Value: c.Dir, Reason: "does not go with Config.Disks"}
	}
	var disks []*disk
	var errs []error
	for i, d := range configs {
		field := "Config.Dir"
		if len(c.Disks) > 0 {
			field = fmt.Sprintf("Config.Disks[%d].Dir", i)
		}
		if d.Dir == "" {
			errs = append(errs, &IllegalError{Field: field, Reason: "is empty"})
		}
		storeConfig, brokerConfig := *cmp.Or(d.Store, &c.Store), *cmp.Or(d.Broker, &c.Broker)
		if storeConfig.Logger == nil {
			storeConfig.Logger = c.Logger
		}
		if brokerConfig.Logger == nil {
			brokerConfig.Logger = c.Logger
		}
		d.Store, d.Broker = &storeConfig, &brokerConfig
		for j, other := range disks {
			errs = append(errs, distinct(field, d, other.cfg, j))
		}
		disks = append(disks, &disk{
			cfg: d, now: Disk{Dir: d.Dir, Err: ErrClosed}, wanted: map[string]protocol.TopicConfig{}, kick: make(chan struct{}, 1),
		})
	}
	return disks, errors.Join(errs...)
}

// distinct wants d to differ from an earlier disk in all that tells disks apart.
func distinct(field string, d, other DiskConfig, at int) error {
	if filepath.Clean(d.Dir) == filepath.Clean(other.Dir) {
		return &IllegalError{Field: field, Value: d.Dir, Reason: fmt.Sprintf("is that of Config.Disks[%d], too", at)}
	}
	if name := d.Broker.Name; name != "" && name == other.Broker.Name {
		return &IllegalError{
			Field: strings.TrimSuffix(field, "Dir") + "Broker.Name", Value: name,
			Reason: fmt.Sprintf("is that of Config.Disks[%d], too; names may be left out", at),
		}
	}
	return nil
}

// openAll opens the disks of a new node. Without any there is no node.
func (n *Node) openAll(ctx context.Context, allowMissing bool) error {
	var errs []error
	for _, d := range n.disks {
		if err := n.openDisk(ctx, d); err != nil {
			errs = append(errs, err)
			if !allowMissing {
				break
			}
		}
	}
	if len(errs) > 0 && (!allowMissing || len(errs) == len(n.disks)) {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		n.log.Error("a disk is missing; the node goes on without it", "err", err)
	}
	n.applyDeletions(ctx)
	n.startSpreading()
	return nil
}

// openDisk opens a disk that is not open. d.changing is held, or nobody knows
// the node yet.
func (n *Node) openDisk(ctx context.Context, d *disk) error {
	s, b, err := n.openStore(ctx, d)
	n.diskMu.Lock()
	defer n.diskMu.Unlock()
	if err != nil {
		d.now.Err = fmt.Errorf("open %s: %w", d.cfg.Dir, err)
		return d.now.Err
	}
	d.now = Disk{Dir: d.cfg.Dir, Store: s, Broker: b}
	return nil
}

func (n *Node) openStore(ctx context.Context, d *disk) (*store.DefaultMessageStore, *broker.Broker, error) {
	s, err := store.Open(ctx, d.cfg.Dir, *d.cfg.Store)
	if err != nil {
		return nil, nil, err
	}
	var b *broker.Broker
	if err = n.ownHost(d, s); err == nil {
		b, err = n.openBroker(ctx, d, s)
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, b, nil
}

// ownHost refuses a store whose host another one has: names of brokers and ids
// of messages are made of it.
func (n *Node) ownHost(d *disk, s *store.DefaultMessageStore) error {
	for _, other := range n.open() {
		if other.Dir != d.cfg.Dir && other.Store.StoreHost() == s.StoreHost() {
			return &IllegalError{
				Field: "Store.StoreHost", Value: s.StoreHost().String(),
				Reason: "is that of " + other.Dir + ", too: one is a copy of the other, or both are configured alike",
			}
		}
	}
	return nil
}

func (n *Node) openBroker(ctx context.Context, d *disk, s *store.DefaultMessageStore) (*broker.Broker, error) {
	cfg := *d.cfg.Broker
	cfg.Store, cfg.NameService, cfg.Deletions = s, &n.names, n.deletions()
	told := cfg.TopicCreated
	cfg.TopicCreated = func(topic TopicConfig) {
		n.spread(topic, d)
		if told != nil {
			told(topic)
		}
	}
	return broker.New(ctx, cfg)
}

// Reopen closes a directory of the node and opens it again, which recovers it.
// That is what a store needs after a failed sync, and a directory that was
// missing when the node was opened. Meanwhile, and when it fails, messages go to
// the other disks; it may be called again. Clients go on: a consumer may be
// given again what it has not committed there. Topics that were deleted while the
// directory was missing are deleted there before anybody can read them, and those
// that only other disks have are made.
func (n *Node) Reopen(ctx context.Context, dir string) error {
	i := slices.IndexFunc(n.disks, func(d *disk) bool { return d.cfg.Dir == dir })
	if i < 0 {
		return &IllegalError{Field: "dir", Value: dir, Reason: "is none of the node's"}
	}
	d := n.disks[i]
	d.changing.Lock()
	defer d.changing.Unlock()
	if n.running.Err() != nil {
		return ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.running, cancel)()
	if err := n.closeDisk(d, (*store.DefaultMessageStore).Close); err != nil {
		n.log.Warn("closed before it is opened again", "dir", dir, "err", err) // mostly the reason for it
	}
	if err := n.openDisk(ctx, d); err != nil {
		return err
	}
	n.wantAll(d)
	n.makeTopics(d)
	for _, other := range n.disks { // it may have topics that they have not
		n.wantAll(other)
		other.wake()
	}
	return nil
}

// closeDisk closes a disk if it is open. d.changing is held.
func (n *Node) closeDisk(d *disk, closeStore func(*store.DefaultMessageStore) error) error {
	n.diskMu.Lock()
	now, wasOpen := d.now, d.now.Err == nil
	if wasOpen {
		d.now.Err = ErrClosed
	}
	n.diskMu.Unlock()
	if !wasOpen {
		return nil
	}
	if err := errors.Join(now.Broker.Close(), closeStore(now.Store)); err != nil {
		return fmt.Errorf("close %s: %w", now.Dir, err)
	}
	return nil
}

// closeAll closes all disks at once, so that one which hangs keeps no other from
// being closed.
func (n *Node) closeAll(closeStore func(*store.DefaultMessageStore) error) error {
	errs := make([]error, len(n.disks))
	var wg sync.WaitGroup
	for i, d := range n.disks {
		wg.Go(func() {
			d.changing.Lock()
			defer d.changing.Unlock()
			errs[i] = n.closeDisk(d, closeStore)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Disks are the node's directories, in the order of its configuration.
func (n *Node) Disks() []Disk {
	n.diskMu.Lock()
	defer n.diskMu.Unlock()
	disks := make([]Disk, len(n.disks))
	for i, d := range n.disks {
		disks[i] = d.now
	}
	return disks
}

// open are the disks that are.
func (n *Node) open() []Disk {
	return slices.DeleteFunc(n.Disks(), func(d Disk) bool { return d.Err != nil })
}

// maxBody is the size in bytes of a message body that all disks which are open take.
func (n *Node) maxBody() int {
	smallest := 0
	for _, d := range n.open() {
		if size := d.Store.MaxBodySize(); smallest == 0 || size < smallest {
			smallest = size
		}
	}
	return smallest
}

// first is the first disk that is open, else the first.
func (n *Node) first() Disk {
	disks := n.Disks()
	return disks[max(0, slices.IndexFunc(disks, func(d Disk) bool { return d.Err == nil }))]
}
