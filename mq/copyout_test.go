package mq

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// TestFaultWhileCopying has somebody cut the log while records of it are about
// to be copied: each is an error, and the process lives.
func TestFaultWhileCopying(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	h.sendN(t, h.producer(t), queue("orders", 0), 0, 3)
	resp, err := h.broker.PullMessage(t.Context(), protocol.PullMessageRequest{Topic: "orders"})
	require.NoError(t, err)
	defer resp.Release()
	require.Len(t, resp.Messages, 3)
	require.NoError(t, os.Truncate(filepath.Join(h.store.Dir(), "commitlog", "00000000000000000000"), 0))
	c := copier{maxBody: 100}
	for i, v := range resp.Messages {
		off, m, err := c.copyOut(v, message.QueueOffset(i))
		require.ErrorIs(t, err, message.ErrCorrupt)
		require.Nil(t, m)
		require.EqualValues(t, i, off)
	}
}

func TestOtherPanicsGoOn(t *testing.T) {
	require.PanicsWithValue(t, "mine", func() {
		var err error
		defer message.CatchFault(false, &err)
		panic("mine")
	})
}

// TestWrongTagsAreNotCopied counts what a filter costs for a message that it
// refuses.
func TestWrongTagsAreNotCopied(t *testing.T) {
	m := message.MessageExt{Message: *text(t, "orders", fmt.Sprintf("%0*d", 1000, 1), "TAGS", "red")}
	b := make([]byte, m.RecordSize())
	m.PutRecord(b)
	v, _, err := message.ReadRecord(b)
	require.NoError(t, err)
	c := copier{tags: parseTags("green || blue")}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = c.copyOut(v, 0) }))
}
