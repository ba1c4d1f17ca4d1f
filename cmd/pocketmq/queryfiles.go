package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
)

// viewFiles finds the message of an id in the files of a store.
func viewFiles(dir string, id message.OffsetMessageID) ([]*message.MessageExt, error) {
	settings, err := inspect.ReadSettings(dir)
	if err != nil {
		return nil, err
	}
	m, err := inspect.MessageAt(dir, id.Offset)
	if err == nil && m.LogOffset < settings.DeletedBefore(m.Topic) {
		err = message.ErrOffsetNotFound
	}
	if err == nil && m.OffsetMessageID() != id {
		err = fmt.Errorf("is of the store %v, the message there of %v", id.Host, m.StoreHost)
	}
	if err == nil {
		err = inflate(&m)
	}
	if err != nil {
		return nil, fmt.Errorf("id %v: %w", id, err)
	}
	return []*message.MessageExt{&m}, nil
}

func inflate(m *message.MessageExt) (err error) {
	m.Body, err = message.Inflate(m.SysFlag, m.Body, mq.DefaultMaxInflatedBody)
	return err
}

// queryFiles finds messages by key, going through the log.
func queryFiles(ctx context.Context, dir string, req protocol.QueryMessageRequest) ([]*message.MessageExt, error) {
	settings, err := inspect.ReadSettings(dir)
	if err != nil {
		return nil, err
	}
	if _, ok := settings.Topic(req.Topic); !ok {
		return nil, fmt.Errorf("topic %s does not exist in %s", req.Topic, dir)
	}
	var found []*message.MessageExt
	for v, err := range inspect.Log(dir) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, message.ErrCorrupt) {
			continue // verify tells of it
		}
		if err != nil {
			return nil, err
		}
		if string(v.Topic()) != req.Topic || v.LogOffset() < settings.DeletedBefore(req.Topic) || !matches(v, req) {
			continue
		}
		m := v.Message()
		if err := inflate(&m); err != nil {
			return nil, err
		}
		if found = append(found, &m); req.Unique {
			break
		}
		if len(found) > req.MaxNum {
			found = found[1:]
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no message with key %s in topic %s", req.Key, req.Topic)
	}
	return found, nil
}

// matches reports whether a message has the key, and was stored in time.
func matches(v message.View, req protocol.QueryMessageRequest) bool {
	stored := v.StoreTimestamp()
	if !req.Unique && (stored < req.Begin || req.End > 0 && stored > req.End) {
		return false
	}
	if req.Unique {
		unique, _ := v.Property(message.PropertyUniqueKey)
		return string(unique) == req.Key
	}
	keys, _ := v.Property(message.PropertyKeys)
	return slices.Contains(strings.Split(string(keys), " "), req.Key)
}
