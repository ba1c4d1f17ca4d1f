package mq

import (
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
		{"longest", &message.Message{Topic: strings.Repeat("x", 127), Body: make([]byte, 10)}, nil, ""},
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
