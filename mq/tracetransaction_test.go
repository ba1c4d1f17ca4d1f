package mq

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// TestTraceOfTransactions has the bytes that RocketMQ's EndTransactionTraceHookImpl
// gives, for what a producer ends by itself and for the answers to a broker. A
// checker can not change what is told of a message.
func TestTraceOfTransactions(t *testing.T) {
	h := openHouse(t)
	h.quickChecks(t, 20*time.Millisecond)
	h.createTopic(t, "shop%orders", 1)
	at := time.UnixMilli(1_700_000_000_123)
	ended := make(chan struct{}, 100)
	p := h.transactionProducer(t, TransactionProducerConfig{
		ProducerConfig: ProducerConfig{Namespace: "shop", CompressOver: 100, Trace: &TraceConfig{}, Now: func() time.Time { return at }},
		Check: func(_ context.Context, m *message.MessageExt) (TransactionState, error) {
			answer := TransactionCommit
			switch m.Body[0] {
			case 'b':
				answer = TransactionRollback
			case 'c':
				ended <- struct{}{}
			}
			m.Topic, m.Properties, m.LogOffset, m.StoreHost = "changed", "", 0, message.Host{}
			return answer, nil
		},
	})
	returns := func(s TransactionState) LocalTransaction {
		return func(context.Context, *message.Message) (TransactionState, error) { return s, nil }
	}
	var sent []TransactionSendResult
	send := func(m *message.Message, s TransactionState) {
		t.Helper()
		r, err := p.SendInTransaction(soon(t), m, returns(s))
		require.NoError(t, err)
		require.NoError(t, r.EndErr)
		sent = append(sent, r)
	}
	send(text(t, "orders", "a", "TAGS", "red", "KEYS", "k1 k2"), TransactionCommit)
	send(text(t, "orders", "b", "MSG_REGION", "north"), TransactionRollback)
	send(text(t, "orders", string(bytes.Repeat([]byte("c"), 200)), "KEYS", "k3"), TransactionUnknown)
	select {
	case <-ended:
	case <-soon(t).Done():
		t.Fatal("not asked")
	}
	require.NoError(t, p.Close(), "and what is on its way goes out before")
	require.Zero(t, p.TracesDropped())

	records, ms := h.traces(t, protocol.TraceTopic)
	var got, want []string
	for i := range records {
		if records[i].Type == TraceEndTransaction {
			got = append(got, string(AppendTrace(nil, &records[i])))
		}
	}
	host := sent[0].OffsetMsgID.Host.String()
	for _, e := range []struct {
		of                        int
		region, tags, keys, state string
		fromCheck                 bool
	}{
		{0, "DefaultRegion", "red", "k1 k2", "COMMIT_MESSAGE", false},
		{1, "north", "null", "null", "ROLLBACK_MESSAGE", false},
		{2, "DefaultRegion", "null", "k3", "UNKNOW", false},
		{2, "DefaultRegion", "null", "k3", "COMMIT_MESSAGE", true},
	} {
		id := sent[e.of].MsgID
		want = append(want, fmt.Sprintf("EndTransaction\x011700000000123\x01%s\x01senders\x01orders\x01%s\x01%s\x01%s\x01%s\x012\x01%s\x01%s\x01%v\x02",
			e.region, id, e.tags, e.keys, host, id, e.state, e.fromCheck))
	}
	require.Len(t, records, 3+len(got))
	require.Subset(t, got, want)
	for _, record := range got { // the clock of the producer is so late that the broker may ask about the others, too
		require.True(t, slices.Contains(want, record) || strings.HasSuffix(record, "\x01true\x02"), record)
	}
	var keys []string
	for _, m := range ms {
		keys = append(keys, m.Keys()...)
	}
	for _, r := range sent {
		require.Contains(t, keys, r.MsgID)
	}
	require.Subset(t, keys, []string{"k1", "k2", "k3"})
}

// TestTraceOfTransactionsIsNotTraced: neither messages of the trace topic nor, when
// there are no traces, anything.
func TestTraceOfTransactionsIsNotTraced(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "my_traces", 1)
	commit := func(context.Context, *message.Message) (TransactionState, error) { return TransactionCommit, nil }
	own := string(AppendTrace(nil, &TraceRecord{Type: TraceSubAfter, MsgID: "own"}))
	p := h.transactionProducer(t, TransactionProducerConfig{ProducerConfig: ProducerConfig{Trace: &TraceConfig{Topic: "my_traces"}}})
	_, err := p.SendInTransaction(soon(t), text(t, "my_traces", own), commit)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	p = h.transactionProducer(t, TransactionProducerConfig{})
	_, err = p.SendInTransaction(soon(t), text(t, "orders", "x"), commit)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	records, _ := h.traces(t, "my_traces")
	require.Len(t, records, 1)
	require.Equal(t, "own", records[0].MsgID)
}

// TestChecksAfterClose are refused, so that the broker asks another one at once.
func TestChecksAfterClose(t *testing.T) {
	h := openHouse(t)
	p := h.transactionProducer(t, TransactionProducerConfig{})
	require.NoError(t, p.Close())
	err := p.accept(t.Context(), protocol.CheckTransactionStateRequest{})
	require.ErrorIs(t, err, message.ErrClosed)
	require.Equal(t, protocol.ServiceNotAvailable, protocol.CodeOf(err))
}
