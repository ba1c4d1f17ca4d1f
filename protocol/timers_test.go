package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

func TestRecallHandle(t *testing.T) {
	h := RecallHandle{Topic: "orders", Broker: "broker-a", DeliverAt: 1_700_000_000_123, ID: "7F0000010001 0000"}
	const text = "djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAxMjMgN0YwMDAwMDEwMDAxIDAwMDA="
	require.Equal(t, text, h.String())
	got, err := ParseRecallHandle(text)
	require.NoError(t, err)
	require.Equal(t, h, got)
	for _, text := range []string{"", "x", "djI=", RecallHandle{Topic: "t", Broker: "b"}.String(), "djEgdCBiIHggaWQ="} {
		_, err := ParseRecallHandle(text)
		require.ErrorIs(t, err, message.ErrIllegal, text)
	}
}
