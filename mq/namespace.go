package mq

import (
	"fmt"
	"strings"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// namespace keeps the topics and groups of several applications apart that share
// brokers: brokers know them as "<namespace>%<name>". The zero value changes no
// name.
//
// Source: RocketMQ common/protocol/NamespaceUtil.java.
type namespace string

// systemGroupPrefix begins the names of groups that brokers have for themselves.
const systemGroupPrefix = "CID_RMQ_SYS_"

// propertyInstanceID has the namespace of who sent the message.
const propertyInstanceID = "INSTANCE_ID"

// wrap is the name of a topic or group as brokers know it. In the names of retry
// and dead letter topics the namespace stands before the group. What belongs to
// the brokers themselves, and what has the namespace already, stays as it is.
func (n namespace) wrap(name string) string {
	if n == "" || name == "" || ofBrokers(name) {
		return name
	}
	prefix, rest := cutRetryPrefix(name)
	if strings.HasPrefix(rest, string(n)+"%") {
		return name
	}
	return prefix + string(n) + "%" + rest
}

// unwrap is a name as the application knows it: names of other namespaces stay
// as they are.
func (n namespace) unwrap(name string) string {
	if n == "" || ofBrokers(name) {
		return name
	}
	prefix, rest := cutRetryPrefix(name)
	rest, ok := strings.CutPrefix(rest, string(n)+"%")
	if !ok {
		return name
	}
	return prefix + rest
}

func cutRetryPrefix(name string) (prefix, rest string) {
	for _, prefix := range []string{protocol.RetryPrefix, protocol.DeadLetterPrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return prefix, rest
		}
	}
	return "", name
}

// ofBrokers reports whether a name is one that brokers have for themselves.
// Topics of replies are among them: who replies need not know the namespace of
// who asked.
func ofBrokers(name string) bool {
	return protocol.IsSystemTopic(name) || protocol.IsReplyTopic(name) || strings.HasPrefix(name, systemGroupPrefix)
}

// queue is a queue as the application knows it.
func (n namespace) queue(q protocol.MessageQueue) protocol.MessageQueue {
	q.Topic = n.unwrap(q.Topic)
	return q
}

// validate wants a name that can stand before others, and be told from them.
func (n namespace) validate() error {
	if n == "" {
		return nil
	}
	err := protocol.CheckTopic(string(n))
	if err == nil && strings.Contains(string(n), "%") {
		err = &message.IllegalError{Field: "namespace", Value: string(n), Reason: "has a %, which ends it in the names of topics"}
	}
	if err != nil {
		return fmt.Errorf("Config.Namespace: %w", err)
	}
	return nil
}

// checkWrapped wants a group whose name with the namespace is one that brokers
// take, which is what check tells.
func (n namespace) checkWrapped(group string, check func(string) error) error {
	if n == "" {
		return nil
	}
	if err := check(n.wrap(group)); err != nil {
		return fmt.Errorf("with namespace %s: %w", n, err)
	}
	return nil
}

// checkMessage looks at what the namespace adds to a message.
func (n namespace) checkMessage(m *message.Message) error {
	if n == "" {
		return nil
	}
	if err := protocol.CheckTopic(n.wrap(m.Topic)); err != nil {
		return fmt.Errorf("with namespace %s: %w", n, err)
	}
	if size := len(m.Properties) + 1 + len(n.property()); size > MaxPropertiesLength {
		return &message.LimitError{Field: "properties with the namespace", Limit: int64(MaxPropertiesLength), Value: int64(size)}
	}
	return nil
}

// mark gives a message the namespace of its sender.
func (n namespace) mark(p message.Properties) message.Properties {
	if n == "" {
		return p
	}
	return message.JoinProperties(p.Without(propertyInstanceID), n.property())
}

func (n namespace) property() message.Properties {
	return message.Properties(propertyInstanceID + "\x01" + string(n))
}

// adds is how much longer the name of a topic is for the brokers.
func (n namespace) adds(topic string) int { return len(n.wrap(topic)) - len(topic) }
