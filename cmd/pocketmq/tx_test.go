package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
)

// leaveOpen leaves transactions open, and returns the unique keys of the messages.
func leaveOpen(t *testing.T, dir string, texts ...string) (keys []string) {
	t.Helper()
	node, err := pocketmq.Open(t.Context(), dir)
	require.NoError(t, err)
	unknown := func(context.Context, *message.MessageExt) (mq.TransactionState, error) {
		return mq.TransactionUnknown, nil
	}
	p, err := node.NewTransactionProducer(mq.TransactionProducerConfig{ProducerConfig: mq.ProducerConfig{Group: "shop"}, Check: unknown})
	require.NoError(t, err)
	for _, text := range texts {
		r, err := p.SendInTransaction(t.Context(), &pocketmq.Message{Topic: defaultTopic, Body: []byte(text)},
			func(context.Context, *message.Message) (mq.TransactionState, error) {
				return mq.TransactionUnknown, errors.New("power")
			})
		require.ErrorIs(t, err, mq.ErrLocalTransaction)
		keys = append(keys, r.MsgID)
	}
	require.NoError(t, node.Close())
	return keys
}

func TestTx(t *testing.T) {
	dir := t.TempDir()
	keys := leaveOpen(t, dir, "a", "b", "c", "d")
	var lines []txLine
	require.NoError(t, json.Unmarshal([]byte(ok(t, "", "tx", "list", dir, "--json")), &lines))
	require.Len(t, lines, 4)
	require.Equal(t, "shop", lines[1].Group)
	require.Equal(t, defaultTopic, lines[1].Topic)
	require.Equal(t, keys[1], lines[1].UniqueKey)
	require.EqualValues(t, 1, lines[1].HalfOffset)

	require.Equal(t, "3 COMMIT_MESSAGE\n"+keys[0]+" COMMIT_MESSAGE\n", ok(t, "", "tx", "commit", dir, "3", keys[0]))
	fails(t, "no open transaction 3", "tx", "rollback", dir, "1", "3")
	require.Equal(t, "1 ROLLBACK_MESSAGE\n", ok(t, "", "tx", "rollback", dir, "1"))
	text := ok(t, "", "tx", "list", dir)
	require.Regexp(t, `^HALF OFFSET +LOG OFFSET +TOPIC +GROUP +UNIQUE KEY +AGE +CHECKS +NEXT CHECK\n2 +\d+ +lines +shop +`+keys[2]+` +\d+s +0 +20.*\n$`, text)
	require.ElementsMatch(t, []byte("ad"), []byte(ok(t, "", "tail", dir, "--raw")), "of several queues")
	require.Contains(t, ok(t, "", "verify", dir), ": 0 errors, 0 notes\n")

	require.NoError(t, json.Unmarshal([]byte(ok(t, "", "tx", "list", dir, "--json")), &lines))
	fails(t, "given up", "tx", "resume", dir, strconv.Itoa(int(lines[0].LogOffset)))
	fails(t, "no number", "tx", "resume", dir, "x")
	fails(t, "no store", "tx", "list", t.TempDir())
}
