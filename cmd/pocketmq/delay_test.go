package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
)

func TestDelay(t *testing.T) {
	dir := t.TempDir()
	node, err := pocketmq.Open(t.Context(), dir)
	require.NoError(t, err)
	p, err := node.Producer("calendar")
	require.NoError(t, err)
	at := time.UnixMilli(time.Now().Add(24 * time.Hour).UnixMilli()).UTC()
	for i, properties := range []message.Properties{
		message.Properties("UNIQ_KEY\x01second").DeliverAt(at.Add(time.Millisecond)),
		message.Properties("UNIQ_KEY\x01first").DeliverAt(at),
		"UNIQ_KEY\x01level\x02DELAY\x0118",
		"UNIQ_KEY\x01now",
	} {
		r, err := p.Send(t.Context(), &pocketmq.Message{Topic: "orders", Body: []byte("x"), Properties: properties})
		require.NoError(t, err)
		require.Equal(t, i < 2, r.RecallHandle != "")
	}
	require.NoError(t, node.Close())

	list := ok(t, "", "delay", "list", dir)
	require.Regexp(t, fmt.Sprintf(`^DELIVER AT +LEVEL +TOPIC +QUEUE +BYTES +ID\n%s +- +orders +\d +\d+ +first\n\S+ +- +orders +\d +\d+ +second\n\S+ +18 +orders +\d +\d+ +level\n$`,
		at.Format("2006-01-02T15:04:05.000Z")), list)
	require.Empty(t, ok(t, "", "delay", "cancel", dir, "first"))
	fails(t, "no timed message waits under this id", "delay", "cancel", dir, "first")
	fails(t, "no timed message waits under this id", "delay", "cancel", dir, "level")
	require.Regexp(t, fmt.Sprintf(`^{"id":"second","topic":"orders","queue":\d,"deliverAt":"%s","bytes":\d+}\n{"id":"level","topic":"orders","queue":\d,"level":18,.*}\n$`,
		at.Add(time.Millisecond).Format(time.RFC3339Nano)), ok(t, "", "delay", "list", dir, "--json"))
	fails(t, "", "delay", "list", t.TempDir())
	require.Contains(t, ok(t, "", "verify", dir), ": 0 errors, 0 notes\n")
}
