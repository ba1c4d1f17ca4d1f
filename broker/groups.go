package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/internal/barekeys"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

const (
	groupsFile  = "subscriptionGroup.json"
	groupsTable = "subscriptionGroupTable"
)

// groupTable is config/subscriptionGroup.json and its content. Looking up a group
// takes no lock. Its methods may be called concurrently.
//
// Source: RocketMQ broker/subscription/SubscriptionGroupManager.java.
type groupTable struct {
	store *store.DefaultMessageStore
	now   func() time.Time

	table atomic.Pointer[map[string]protocol.SubscriptionGroupConfig] // never modified once stored

	mu  sync.Mutex // serializes changes
	doc object     // the file, with all its fields
}

func openGroups(s *store.DefaultMessageStore, now func() time.Time) (*groupTable, error) {
	t := &groupTable{store: s, now: now, doc: object{}}
	table := map[string]protocol.SubscriptionGroupConfig{}
	text, err := s.ReadConfig(groupsFile, func(b []byte) error { _, _, err := parseGroups(b); return err })
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("%s (without the file, groups have the defaults): %w", groupsFile, err)
	default:
		if t.doc, table, err = parseGroups(text); err != nil {
			return nil, fmt.Errorf("%s: %w", groupsFile, err)
		}
	}
	t.table.Store(&table)
	return t, nil
}

func (t *groupTable) get(group string) (protocol.SubscriptionGroupConfig, bool) {
	cfg, ok := (*t.table.Load())[group]
	return cfg, ok
}

// put adds or replaces a group; only adds it, if add is set. It returns the
// configuration that counts. On an error nothing has changed.
func (t *groupTable) put(cfg protocol.SubscriptionGroupConfig, add bool) (protocol.SubscriptionGroupConfig, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have, ok := t.get(cfg.Name); ok && add {
		return have, nil
	}
	table := maps.Clone(*t.table.Load())
	table[cfg.Name] = cfg
	return cfg, t.replace(table, func(groups object) {
		old, _ := groups[cfg.Name].(object)
		groups[cfg.Name] = groupFields(old, cfg)
	})
}

// remove forgets a group's configuration, and reports whether there was one.
func (t *groupTable) remove(group string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.get(group); !ok {
		return false, nil
	}
	table := maps.Clone(*t.table.Load())
	delete(table, group)
	return true, t.replace(table, func(groups object) { delete(groups, group) })
}

// replace writes the file after change, and has table count. On an error nothing
// has changed.
func (t *groupTable) replace(table map[string]protocol.SubscriptionGroupConfig, change func(groups object)) error {
	doc := maps.Clone(t.doc)
	groups, err := fieldObject(doc, groupsTable)
	if err != nil {
		return err
	}
	groups = maps.Clone(groups)
	change(groups)
	doc[groupsTable] = groups
	if doc["dataVersion"], err = nextVersion(doc, t.now()); err != nil {
		return err
	}
	if err := t.store.WriteConfig(groupsFile, appendObject(nil, doc, 0)); err != nil {
		return err
	}
	t.doc = doc
	t.table.Store(&table)
	return nil
}

// groupFields keeps those fields of old that this version does not know.
func groupFields(old object, cfg protocol.SubscriptionGroupConfig) object {
	o := maps.Clone(old)
	if o == nil {
		o = object{}
	}
	o["groupName"] = cfg.Name
	o["consumeEnable"] = cfg.ConsumeEnable
	o["consumeFromMinEnable"] = cfg.ConsumeFromMinEnable
	o["consumeBroadcastEnable"] = cfg.ConsumeBroadcastEnable
	o["retryQueueNums"] = int64(cfg.RetryQueueNums)
	o["retryMaxTimes"] = int64(cfg.RetryMaxTimes)
	o["brokerId"] = cfg.BrokerID
	o["whichBrokerWhenConsumeSlowly"] = cfg.WhichBrokerWhenConsumeSlowly
	o["notifyConsumerIdsChangedEnable"] = cfg.NotifyConsumerIDsChangedEnable
	return o
}

func parseGroups(text []byte) (object, map[string]protocol.SubscriptionGroupConfig, error) {
	doc, err := barekeys.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	if _, err := nextVersion(doc, time.Time{}); err != nil {
		return nil, nil, err
	}
	groups, err := fieldObject(doc, groupsTable)
	if err != nil {
		return nil, nil, err
	}
	table := make(map[string]protocol.SubscriptionGroupConfig, len(groups))
	for name := range groups {
		fields, err := fieldObject(groups, name)
		if err != nil {
			return nil, nil, err
		}
		if table[name], err = parseGroup(name, fields); err != nil {
			return nil, nil, fmt.Errorf("group %q: %w", name, err)
		}
	}
	return doc, table, nil
}

// parseGroup gives fields that are missing RocketMQ's defaults.
func parseGroup(name string, o object) (protocol.SubscriptionGroupConfig, error) {
	cfg := protocol.DefaultSubscriptionGroup(name)
	var errs [8]error
	for i, f := range [...]struct {
		name  string
		value *bool
	}{
		{"consumeEnable", &cfg.ConsumeEnable},
		{"consumeFromMinEnable", &cfg.ConsumeFromMinEnable},
		{"consumeBroadcastEnable", &cfg.ConsumeBroadcastEnable},
		{"notifyConsumerIdsChangedEnable", &cfg.NotifyConsumerIDsChangedEnable},
	} {
		if o[f.name] != nil {
			*f.value, errs[i] = fieldBool(o, f.name)
		}
	}
	cfg.RetryQueueNums, errs[4] = fieldInt32(o, "retryQueueNums", cfg.RetryQueueNums)
	cfg.RetryMaxTimes, errs[5] = fieldInt32(o, "retryMaxTimes", cfg.RetryMaxTimes)
	cfg.BrokerID, errs[6] = fieldInt(o, "brokerId", cfg.BrokerID)
	cfg.WhichBrokerWhenConsumeSlowly, errs[7] = fieldInt(o, "whichBrokerWhenConsumeSlowly", cfg.WhichBrokerWhenConsumeSlowly)
	return cfg, errors.Join(errs[:]...)
}

// UpdateSubscriptionGroup makes a group or replaces its configuration. It returns
// when the file is on disk.
func (b *Broker) UpdateSubscriptionGroup(_ context.Context, cfg protocol.SubscriptionGroupConfig) error {
	if err := b.open(); err != nil {
		return err
	}
	if err := protocol.CheckGroup(cfg.Name); err != nil {
		return refuse(protocol.SystemError, "", err)
	}
	if cfg.RetryQueueNums > MaxQueueNums {
		return refuse(protocol.SystemError, "group "+cfg.Name, queueNumsError("retryQueueNums", cfg.RetryQueueNums))
	}
	if cfg.RetryMaxTimes < 0 {
		return refuse(protocol.SystemError, "group "+cfg.Name, &message.LimitError{Field: "retryMaxTimes (negative)", Value: int64(cfg.RetryMaxTimes), Unit: "times"})
	}
	if _, err := b.groups.put(cfg, false); err != nil {
		return refuse(protocol.SystemError, "group "+cfg.Name+" not stored", err)
	}
	return nil
}

// GetSubscriptionGroup returns a group's configuration.
func (b *Broker) GetSubscriptionGroup(_ context.Context, group string) (protocol.SubscriptionGroupConfig, error) {
	if cfg, ok := b.groups.get(group); ok {
		return cfg, nil
	}
	return protocol.SubscriptionGroupConfig{}, groupNotExist(group)
}

// groupForRetry finds a group, or makes it.
func (b *Broker) groupForRetry(group string) (protocol.SubscriptionGroupConfig, error) {
	if err := protocol.CheckRetryGroup(group); err != nil {
		return protocol.SubscriptionGroupConfig{}, refuse(protocol.SystemError, "", err)
	}
	if cfg, ok := b.groups.get(group); ok {
		return cfg, nil
	}
	if !b.autoGroup {
		return protocol.SubscriptionGroupConfig{}, groupNotExist(group)
	}
	cfg, err := b.groups.put(protocol.DefaultSubscriptionGroup(group), true)
	if err != nil {
		return cfg, refuse(protocol.SystemError, "group "+group+" not stored", err)
	}
	return cfg, nil
}

// checkConsume wants a group that may consume. Readers have no group.
func (b *Broker) checkConsume(group string) error {
	if group == "" {
		return nil
	}
	cfg, ok := b.groups.get(group)
	switch {
	case !ok && !b.autoGroup:
		return groupNotExist(group)
	case ok && !cfg.ConsumeEnable:
		return refuse(protocol.NoPermission, "group "+group+" may not consume", nil)
	}
	return nil
}

func groupNotExist(group string) error {
	return refuse(protocol.SubscriptionGroupNotExist, "subscription group "+group+" does not exist", nil)
}
