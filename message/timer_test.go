package message

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeliverAt(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	p := Properties("a\x01b\x02TIMER_DELAY_SEC\x015\x02TIMER_DELAY_MS\x016")
	require.Equal(t, Properties("a\x01b\x02TIMER_DELIVER_MS\x011700000000123"), p.DeliverAt(at))
	require.Equal(t, Properties("a\x01b\x02TIMER_DELAY_MS\x011500"), p.DeliverAt(at).DeliverAfter(1500*time.Millisecond+time.Microsecond))
	require.Equal(t, Properties("a\x01b"), p.WithoutTimer())
	require.Equal(t, Properties("TIMER_DELIVER_MS\x01-1"), Properties("").DeliverAt(time.UnixMilli(-1)))
}

func TestParkTimer(t *testing.T) {
	m := MessageExtBrokerInner{}
	m.Topic, m.QueueID, m.Properties = "orders", 3, "a\x01b\x02TIMER_OUT_MS\x017"
	waiting, err := ParkTimer(m, 1234)
	require.NoError(t, err)
	require.Equal(t, "rmq_sys_wheel_timer", waiting.Topic)
	require.Zero(t, waiting.QueueID)
	require.Equal(t, Properties("a\x01b\x02TIMER_OUT_MS\x011234\x02REAL_TOPIC\x01orders\x02REAL_QID\x013"), waiting.Properties)
	m.Properties = Properties("a\x01" + string(make([]byte, MaxPropertiesLength-20)))
	_, err = ParkTimer(m, 1234)
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, "properties")
}
