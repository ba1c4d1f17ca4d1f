package mq

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// TestCheckMessage is in the order of the checks: each message has everything
// wrong that comes after its row.
func TestCheckMessage(t *testing.T) {
	for _, test := range []struct {
		name string
		m    *message.Message
		want error
		text string
	}{
		{"nil", nil, message.ErrIllegal, "message"},
		{"blank topic", &message.Message{Topic: " \t"}, message.ErrIllegal, "blank"},
		{"long topic", &message.Message{Topic: strings.Repeat("!", 128)}, message.ErrLimit, "topic: 128 bytes, limit is 127"},
		{"illegal topic", &message.Message{Topic: "a!"}, message.ErrIllegal, "character"},
		{"reserved topic", &message.Message{Topic: "SCHEDULE_TOPIC_XXXX"}, message.ErrIllegal, "reserved"},
		{"no body", &message.Message{Topic: "t"}, message.ErrIllegal, `body "": is empty`},
		{"empty body", &message.Message{Topic: "t", Body: []byte{}}, message.ErrIllegal, `body "": is empty`},
		{"long body", &message.Message{Topic: "t", Body: make([]byte, 11)}, message.ErrLimit, "body: 11 bytes, limit is 10"},
		{"long properties", &message.Message{Topic: "t", Body: make([]byte, 10), Properties: propertiesOf(32590)},
			message.ErrLimit, "properties: 32590 bytes, limit is 32589"},
		{"longest", &message.Message{Topic: strings.Repeat("x", 127), Body: make([]byte, 10), Properties: propertiesOf(32589)}, nil, ""},
		{"all characters", &message.Message{Topic: "%RETRY%a_B-9|", Body: make([]byte, 1)}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkMessage(test.m, 10)
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
		})
	}
}

// propertiesOf is one property that takes n bytes, encoded.
func propertiesOf(n int) message.Properties {
	return message.Properties("a\x01" + strings.Repeat("x", n-2))
}

// TestLongestProperties stores what is just allowed, under the longest name of
// a cluster, and refuses what is not before there is a topic for it.
func TestLongestProperties(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "other", 1)
	p := h.producer(t)
	topics := filepath.Join(h.store.Dir(), "config", "topics.json")
	before, err := os.ReadFile(topics)
	require.NoError(t, err)

	m := &message.Message{Topic: "orders", Body: []byte("x"), Properties: propertiesOf(MaxPropertiesLength + 1)}
	for name, send := range map[string]func() error{
		"send":          func() error { _, err := p.Send(t.Context(), m); return err },
		"send to queue": func() error { _, err := p.SendToQueue(t.Context(), m, queue("orders", 0)); return err },
		"batch": func() error {
			_, err := p.SendBatch(t.Context(), []*message.Message{text(t, "orders", "x"), m})
			return err
		},
		"batch of one": func() error { _, err := p.SendBatch(t.Context(), []*message.Message{m}); return err },
		"batch to queue": func() error {
			_, err := p.SendBatchToQueue(t.Context(), []*message.Message{m}, queue("orders", 0))
			return err
		},
	} {
		var limit *message.LimitError
		require.ErrorAs(t, send(), &limit, name)
		require.Equal(t, message.LimitError{Field: "properties", Limit: int64(MaxPropertiesLength), Value: int64(MaxPropertiesLength) + 1}, *limit, name)
	}
	_, err = h.broker.GetTopic(t.Context(), "orders")
	require.ErrorIs(t, err, protocol.TopicNotExist)
	after, err := os.ReadFile(topics)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	m.Properties = propertiesOf(MaxPropertiesLength)
	r, err := p.Send(t.Context(), m)
	require.NoError(t, err)
	stored, err := h.store.LookMessageByOffset(t.Context(), r.OffsetMsgID.Offset)
	require.NoError(t, err)
	require.Len(t, stored.Properties, message.MaxPropertiesLength)
	_, err = p.SendBatch(t.Context(), []*message.Message{m, text(t, "orders", "x")})
	require.NoError(t, err)
}

func TestCheckGroup(t *testing.T) {
	for group, want := range map[string]error{
		"":                       message.ErrIllegal,
		"DEFAULT_PRODUCER":       message.ErrIllegal,
		"a@b":                    message.ErrIllegal,
		strings.Repeat("g", 256): message.ErrLimit,
		strings.Repeat("g", 255): nil,
	} {
		require.ErrorIs(t, checkGroup(group, defaultProducerGroup), want, group)
	}
}

func TestCheckBatch(t *testing.T) {
	good := text(t, "t", "x")
	for _, test := range []struct {
		name string
		ms   []*message.Message
		text string
	}{
		{"empty", nil, "batch"},
		{"nil element", []*message.Message{good, nil}, "message 1 of the batch"},
		{"empty body", []*message.Message{good, {Topic: "t"}}, "message 1 of the batch: body"},
		{"other topic", []*message.Message{good, text(t, "u", "x")}, "not the batch's, which is t"},
		{"retry topic", []*message.Message{text(t, protocol.RetryPrefix+"g", "x")}, "retry"},
		{"delayed", []*message.Message{good, text(t, "t", "x", "DELAY", "2")}, "DELAY"},
		{"waiting and not", []*message.Message{good, text(t, "t", "x", "WAIT", "false")}, "WAIT"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkBatch(test.ms, 10)
			require.ErrorIs(t, err, message.ErrIllegal)
			require.ErrorContains(t, err, test.text)
		})
	}
	require.NoError(t, checkBatch([]*message.Message{good, text(t, "t", "x", "WAIT", "true", "DELAY", "0")}, 10))
}
