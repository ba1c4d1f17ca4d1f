package broker

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// asker is a client that waits for replies.
type asker struct {
	protocol.Client

	got      []*message.MessageExt
	deadline time.Time
	err      error
}

func (a *asker) PushReplyMessage(ctx context.Context, req protocol.PushReplyMessageRequest) error {
	a.deadline, _ = ctx.Deadline()
	a.got = append(a.got, req.Message)
	return a.err
}

func reply(properties message.Properties) protocol.SendMessageRequest {
	return protocol.SendMessageRequest{
		Group:         "clerks",
		Message:       message.Message{Topic: "DefaultCluster_REPLY_TOPIC", Body: []byte("answer"), Properties: properties},
		BornTimestamp: 1234,
	}
}

// TestSendReply has every outcome, with and without a copy in the reply topic.
func TestSendReply(t *testing.T) {
	const good = message.Properties("MSG_TYPE\x01reply\x02CORRELATION_ID\x011\x02REPLY_TO_CLIENT\x01me")
	errOwn := errors.New("own")
	for name, test := range map[string]struct {
		properties message.Properties
		refuses    error
		pushed     bool
		text       string // of the error; empty for none
	}{
		"taken":       {good, nil, true, ""},
		"not taken":   {good, errOwn, true, "push reply message to me fail: own"},
		"nobody":      {"REPLY_TO_CLIENT\x01you", nil, false, "push reply message fail, channel of <you> not found"},
		"no property": {"MSG_TYPE\x01reply", nil, false, `property REPLY_TO_CLIENT "": is missing`},
	} {
		for _, stores := range []bool{true, false} {
			t.Run(name+", stored "+strconv.FormatBool(stores), func(t *testing.T) {
				b := openBroker(t, Config{NoStoreReply: !stores, NoAutoCreateTopic: true, Now: fixed(42)})
				client := &asker{err: test.refuses}
				require.NoError(t, b.RegisterClient(t.Context(), protocol.RegisterClientRequest{ClientID: "me", Client: client}))
				req := reply(test.properties)
				resp, err := b.SendReplyMessage(t.Context(), req)
				if test.text == "" {
					require.NoError(t, err)
					require.Equal(t, protocol.Success, resp.Code)
				} else {
					require.ErrorIs(t, err, protocol.SystemError)
					require.Equal(t, protocol.SystemError, resp.Code)
					require.ErrorContains(t, err, test.text)
				}
				if test.refuses != nil {
					require.ErrorIs(t, err, test.refuses)
				}
				if test.pushed {
					require.Len(t, client.got, 1)
					m := client.got[0]
					require.Equal(t, "answer", string(m.Body))
					require.NotSame(t, &req.Message.Body[0], &m.Body[0], "the body is the client's")
					require.Equal(t, test.properties+"\x02PUSH_REPLY_TIME\x0142", m.Properties)
					require.EqualValues(t, 1234, m.BornTimestamp)
					require.EqualValues(t, 42, m.StoreTimestamp)
					require.Equal(t, b.host, m.BornHost)
					require.Equal(t, b.host, m.StoreHost)
					require.LessOrEqual(t, time.Until(client.deadline), 10*time.Second)
					require.False(t, client.deadline.IsZero(), "a client has no more than ten seconds")
				} else {
					require.Empty(t, client.got)
				}
				if !stores {
					require.Zero(t, resp.MessageID)
					require.Empty(t, b.store.Queues())
					return
				}
				stored, err := b.store.LookMessageByOffset(t.Context(), resp.MessageID.Offset)
				require.NoError(t, err)
				require.Equal(t, "DefaultCluster_REPLY_TOPIC", stored.Topic)
				require.Equal(t, test.properties+"\x02CLUSTER\x01DefaultCluster", stored.Properties, "as it was sent")
			})
		}
	}
}

// TestReplyRefused is checked as a send is; nobody gets it then.
func TestReplyRefused(t *testing.T) {
	b := openBroker(t, Config{})
	client := &asker{}
	require.NoError(t, b.RegisterClient(t.Context(), protocol.RegisterClientRequest{ClientID: "me", Client: client}))
	const me = message.Properties("REPLY_TO_CLIENT\x01me")
	for name, test := range map[string]struct {
		change func(*protocol.SendMessageRequest)
		code   protocol.ResponseCode
	}{
		"topic":     {func(r *protocol.SendMessageRequest) { r.Message.Topic = "a!" }, protocol.SystemError},
		"forbidden": {func(r *protocol.SendMessageRequest) { r.Message.Topic = "SCHEDULE_TOPIC_XXXX" }, protocol.NoPermission},
		"queue":     {func(r *protocol.SendMessageRequest) { r.QueueID = 1 }, protocol.SystemError},
		"body":      {func(r *protocol.SendMessageRequest) { r.Message.Body = make([]byte, 1<<20) }, protocol.MessageIllegal},
	} {
		t.Run(name, func(t *testing.T) {
			req := reply(me)
			test.change(&req)
			resp, err := b.SendReplyMessage(t.Context(), req)
			require.ErrorIs(t, err, test.code)
			require.Equal(t, test.code, resp.Code)
		})
	}
	require.Empty(t, client.got)
	req := reply(me)
	req.QueueID = -1
	resp, err := b.SendReplyMessage(t.Context(), req)
	require.NoError(t, err)
	require.Zero(t, resp.QueueID)
	require.Len(t, client.got, 1)

	require.NoError(t, b.Close())
	_, err = b.SendReplyMessage(t.Context(), reply(me))
	require.ErrorIs(t, err, message.ErrClosed)
}

// TestReplyTakenButNotStored has the store closed.
func TestReplyTakenButNotStored(t *testing.T) {
	s := openStore(t, t.TempDir())
	b := openBroker(t, Config{Store: s})
	client := &asker{}
	require.NoError(t, b.RegisterClient(t.Context(), protocol.RegisterClientRequest{ClientID: "me", Client: client}))
	_, err := b.SendReplyMessage(t.Context(), reply("REPLY_TO_CLIENT\x01me"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	resp, err := b.SendReplyMessage(t.Context(), reply("REPLY_TO_CLIENT\x01me"))
	require.NoError(t, err, "who asked has the reply")
	require.Equal(t, protocol.Success, resp.Code)
	require.Zero(t, resp.MessageID)
	require.Len(t, client.got, 2)
}

// TestReplyTopic is there for everybody, and in the file when a reply is.
func TestReplyTopic(t *testing.T) {
	var names NameService
	b := openBroker(t, Config{NameService: &names, NoAutoCreateTopic: true})
	route, err := names.RouteOfTopic(t.Context(), "DefaultCluster_REPLY_TOPIC")
	require.NoError(t, err)
	want := []protocol.QueueData{{BrokerName: b.name, ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermReadWrite}}
	require.Equal(t, want, route.Queues)
	_, err = b.GetTopic(t.Context(), "DefaultCluster_REPLY_TOPIC")
	require.ErrorIs(t, err, protocol.TopicNotExist)

	_, err = b.SendReplyMessage(t.Context(), reply("REPLY_TO_CLIENT\x01me"))
	require.ErrorContains(t, err, "not found")
	_, err = b.GetTopic(t.Context(), "DefaultCluster_REPLY_TOPIC")
	require.NoError(t, err)
	route, err = names.RouteOfTopic(t.Context(), "DefaultCluster_REPLY_TOPIC")
	require.NoError(t, err)
	require.Equal(t, want, route.Queues)
	topics, err := b.ListTopics(t.Context())
	require.NoError(t, err)
	require.Empty(t, topics, "it is the broker's own")
}

// TestOrderConfOfRoutes is refused when it can not be read.
func TestOrderConfOfRoutes(t *testing.T) {
	var names NameService
	b := openBroker(t, Config{NameService: &names})
	createTopic(t, b, "orders", 4)
	changed := make(chan struct{}, 1)
	defer names.WatchRoutes(changed)()
	require.NoError(t, names.SetOrderConf("orders", "a:2;b:3"))
	<-changed
	route, err := names.RouteOfTopic(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, "a:2;b:3", route.OrderConf)
	require.ErrorIs(t, names.SetOrderConf("orders", "a:2;b"), message.ErrIllegal)
	require.NoError(t, names.SetOrderConf("orders", ""))
	route, err = names.RouteOfTopic(t.Context(), "orders")
	require.NoError(t, err)
	require.Empty(t, route.OrderConf)
	require.NoError(t, names.SetOrderConf("nothing", "a:1"))
	_, err = names.RouteOfTopic(t.Context(), "nothing")
	require.ErrorIs(t, err, protocol.TopicNotExist, "an order makes no topic")
}
