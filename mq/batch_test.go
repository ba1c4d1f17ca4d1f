package mq

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func TestSendBatch(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	for _, test := range []struct {
		name     string
		messages int
		body     int
		wait     string
	}{
		{"one", 1, 10, ""},
		{"small", 10, 10, ""},
		{"not waiting", 3, 10, "false"},
		{"several parts", 20, 20_000, ""},
		{"as large as can be", 3, 64 << 10, "true"},
		{"many", 5000, 20, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var ms []*message.Message
			for i := range test.messages {
				m := text(t, "orders", fmt.Sprintf("%0*d", test.body, i), "TAGS", "red")
				m.Flag = int32(i)
				if test.wait != "" {
					var err error
					m.Properties, err = m.Properties.With("WAIT", test.wait)
					require.NoError(t, err)
				}
				ms = append(ms, m)
			}
			before := *ms[0]
			results, err := p.SendBatch(t.Context(), ms)
			require.NoError(t, err)
			require.Equal(t, before, *ms[0])
			require.Len(t, results, len(ms))
			ids := map[string]bool{}
			for i, r := range results {
				require.Equal(t, SendOK, r.Status)
				require.Equal(t, results[0].Queue, r.Queue)
				require.Equal(t, results[0].QueueOffset+message.QueueOffset(i), r.QueueOffset)
				ids[r.MsgID] = true
				stored, err := h.store.LookMessageByOffset(t.Context(), r.OffsetMsgID.Offset)
				require.NoError(t, err)
				require.Equal(t, ms[i].Body, stored.Body)
				require.Equal(t, ms[i].Flag, stored.Flag)
				require.Equal(t, r.MsgID, stored.UniqueKey())
				require.Equal(t, r.QueueOffset, stored.QueueOffset)
				require.Equal(t, "red", stored.Tags())
				_, wait := stored.Properties.Get("WAIT")
				require.False(t, wait, "WAIT is not stored")
			}
			require.Len(t, ids, len(ms))
		})
	}
}

func TestSendBatchToQueue(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 3)
	var ms []*message.Message
	for i := range 20 { // several parts
		ms = append(ms, text(t, "orders", fmt.Sprintf("%020000d", i)))
	}
	results, err := p.SendBatchToQueue(t.Context(), ms, queue("orders", 2))
	require.NoError(t, err)
	require.Len(t, results, len(ms))
	for i, r := range results {
		require.Equal(t, queue("orders", 2), r.Queue)
		require.EqualValues(t, i, r.QueueOffset)
	}
	results, err = p.SendBatchToQueue(t.Context(), ms, queue("orders", 3))
	require.ErrorIs(t, err, message.ErrLimit)
	require.Empty(t, results)
	_, err = p.SendBatchToQueue(t.Context(), ms, queue("letters", 0))
	require.ErrorIs(t, err, message.ErrIllegal)
}

func TestSendBatchNothingStored(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	long := text(t, "orders", "x")
	long.Properties = message.Properties("a\x01" + string(make([]byte, 32766)))
	results, err := p.SendBatch(t.Context(), []*message.Message{text(t, "orders", "x"), long})
	require.ErrorIs(t, err, message.ErrLimit)
	require.ErrorContains(t, err, "message 1 of the batch")
	require.Empty(t, results)

	require.NoError(t, h.broker.Close())
	results, err = p.SendBatch(t.Context(), []*message.Message{text(t, "orders", "x"), text(t, "orders", "y")})
	require.Error(t, err)
	require.Empty(t, results)
	require.Empty(t, h.store.Queues())
}

// TestSendBatchInPart has a broker store the first part and answer the second
// one otherwise. All parts are for one queue.
func TestSendBatchInPart(t *testing.T) {
	for _, test := range []struct {
		code    protocol.ResponseCode
		results int
		last    SendStatus
	}{
		{protocol.MessageIllegal, 2, SendOK},
		{protocol.FlushDiskTimeout, 4, SendFlushDiskTimeout},
	} {
		t.Run(test.code.String(), func(t *testing.T) {
			p, a, b := twoBrokers(t, protocol.Success, protocol.Success)
			p.maxSize = 1500 // two of the messages below
			var queues []int32
			a.batch = func(req protocol.SendMessageBatchRequest) (protocol.SendMessageBatchResponse, error) {
				queues = append(queues, req.QueueID)
				resp := protocol.SendMessageBatchResponse{Offsets: []message.LogOffset{100, 200}, QueueOffset: 7}
				if len(queues) == 1 {
					return resp, nil
				}
				resp.Code = test.code
				return resp, &protocol.Error{Code: test.code}
			}
			b.batch = a.batch
			var ms []*message.Message
			for range 6 {
				ms = append(ms, text(t, "t", string(make([]byte, 350))))
			}
			results, err := p.SendBatch(t.Context(), ms)
			require.ErrorIs(t, err, test.code)
			require.Len(t, results, test.results)
			require.Equal(t, test.last, results[len(results)-1].Status)
			require.Equal(t, SendOK, results[1].Status)
			require.EqualValues(t, 8, results[1].QueueOffset)
			require.EqualValues(t, 200, results[1].OffsetMsgID.Offset)
			require.Len(t, queues, 2)
			require.Equal(t, queues[0], queues[1])
		})
	}
}
