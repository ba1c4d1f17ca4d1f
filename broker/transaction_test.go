package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// questioned is a client that notes what it is asked, and answers as a test wants.
type questioned struct {
	protocol.Client

	mu     sync.Mutex
	asked  []protocol.CheckTransactionStateRequest
	times  []time.Duration // since the test began
	began  time.Time
	refuse func(*message.MessageExt) error
}

func (a *questioned) CheckTransactionState(_ context.Context, req protocol.CheckTransactionStateRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, req)
	a.times = append(a.times, time.Since(a.began))
	if a.refuse != nil {
		return a.refuse(req.Message)
	}
	return nil
}

// take returns the questions since it was called last.
func (a *questioned) take() []protocol.CheckTransactionStateRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked, a.times = nil, nil
	return asked
}

func (a *questioned) bodies() (texts []string) {
	for _, q := range a.take() {
		texts = append(texts, string(q.Message.Body))
	}
	return texts
}

// join registers a client of the group g.
func join(t *testing.T, b *Broker, id string) *questioned {
	t.Helper()
	a := &questioned{began: time.Now()}
	require.NoError(t, b.RegisterClient(t.Context(), protocol.RegisterClientRequest{ClientID: id, ProducerGroups: []string{"g"}, Client: a}))
	return a
}

// sendHalf stores a half message of the group g and returns how to end it.
func sendHalf(t *testing.T, b *Broker, topic, body string, properties ...string) protocol.EndTransactionRequest {
	t.Helper()
	p, err := message.NewProperties(append(properties, "TRAN_MSG", "true", "PGROUP", "g", "UNIQ_KEY", "K-"+body)...)
	require.NoError(t, err)
	resp, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
		Message: message.Message{Topic: topic, Body: []byte(body), Properties: p}, BornTimestamp: b.transactions.now().UnixMilli(),
	})
	require.NoError(t, err)
	return protocol.EndTransactionRequest{
		Group: "g", LogOffset: resp.MessageID.Offset, QueueOffset: resp.QueueOffset, UniqueKey: "K-" + body, State: protocol.TransactionCommit,
	}
}

// as is the request with another state.
func as(r protocol.EndTransactionRequest, s protocol.TransactionState) protocol.EndTransactionRequest {
	r.State = s
	return r
}

// answerTo is the request that answers a question.
func answerTo(q protocol.CheckTransactionStateRequest, s protocol.TransactionState) protocol.EndTransactionRequest {
	return protocol.EndTransactionRequest{
		Group: q.Group, LogOffset: q.Message.LogOffset, QueueOffset: q.Message.QueueOffset, State: s, FromCheck: true, UniqueKey: q.Message.UniqueKey(),
	}
}

// records are those of queue 0 of a topic.
func records(t *testing.T, s *store.DefaultMessageStore, topic string) (ms []message.MessageExt) {
	t.Helper()
	require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
	for v, err := range s.Messages(t.Context(), store.GetQuery{Topic: topic, Verify: true}) {
		require.NoError(t, err)
		ms = append(ms, v.Message())
	}
	return ms
}

// openBodies are those of the transactions that are open.
func openBodies(t *testing.T, b *Broker) (texts []string) {
	t.Helper()
	require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
	open, err := b.OpenTransactions(t.Context())
	require.NoError(t, err)
	for _, o := range open {
		texts = append(texts, o.UniqueKey[len("K-"):])
	}
	return texts
}

// TestRecordsOfATransaction are RocketMQ's.
func TestRecordsOfATransaction(t *testing.T) {
	b := openBroker(t, Config{Now: fixed(1e12 + 7)})
	createTopic(t, b, "orders", 4)
	p := message.Properties("TAGS\x01red\x02WAIT\x01false\x02TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01U")
	host, err := message.ParseHost("192.0.2.7:4711")
	require.NoError(t, err)
	resp, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
		Message: message.Message{Topic: "orders", Body: []byte("m"), Flag: 9, Properties: p}, QueueID: 3,
		SysFlag: message.TransactionPrepared | message.FlagCompressed, BornTimestamp: 1e12, BornHost: host,
	})
	require.NoError(t, err)
	require.EqualValues(t, 3, resp.QueueID)
	require.EqualValues(t, 0, resp.QueueOffset)

	want := message.Properties("TAGS\x01red\x02TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01U\x02CLUSTER\x01DefaultCluster\x02REAL_TOPIC\x01orders\x02REAL_QID\x013")
	half := records(t, b.store, message.HalfTopic)
	require.Len(t, half, 1)
	require.Equal(t, message.Message{Topic: "RMQ_SYS_TRANS_HALF_TOPIC", Body: []byte("m"), Flag: 9, Properties: want}, half[0].Message)
	require.Equal(t, message.FlagCompressed, half[0].SysFlag)
	require.Equal(t, resp.MessageID.Offset, half[0].LogOffset)
	require.Empty(t, bodies(t, b.store, "orders", 3))

	require.NoError(t, b.EndTransaction(t.Context(), protocol.EndTransactionRequest{
		Group: "g", LogOffset: resp.MessageID.Offset, State: protocol.TransactionCommit,
	}))
	require.Equal(t, []string{"m"}, bodies(t, b.store, "orders", 3))
	_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders", QueueID: 3, TagExpression: "red"})
	require.Len(t, ms, 1)
	require.Equal(t, message.Message{Topic: "orders", Body: []byte("m"), Flag: 9, Properties: want}, ms[0].Message)
	require.Equal(t, message.FlagCompressed|message.TransactionCommit, ms[0].SysFlag)
	require.Equal(t, half[0].LogOffset, ms[0].PreparedTransactionOffset)
	require.Equal(t, host, ms[0].BornHost)
	require.EqualValues(t, 1e12, ms[0].BornTimestamp)
	require.Equal(t, half[0].StoreHost, ms[0].StoreHost)

	op := records(t, b.store, "RMQ_SYS_TRANS_OP_HALF_TOPIC")
	require.Len(t, op, 1)
	require.Equal(t, message.Message{Topic: "RMQ_SYS_TRANS_OP_HALF_TOPIC", Body: []byte("0"), Properties: "WAIT\x01true\x02TAGS\x01d"}, op[0].Message)
	require.EqualValues(t, 1e12+7, op[0].BornTimestamp)
	require.Equal(t, b.host, op[0].BornHost)

	require.NoError(t, b.Close())
	text := progressText(t, b.store)
	require.Contains(t, text, `"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1`)
	require.Contains(t, text, `"RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1`)
	require.Contains(t, text, fmt.Sprintf(`"transactionLogOffset":%d`, b.store.MaxOffset()))
}

func progressText(t *testing.T, s *store.DefaultMessageStore) string {
	t.Helper()
	text, err := s.ReadConfig(offsetsFile, func([]byte) error { return nil })
	require.NoError(t, err)
	return string(text)
}

// TestEndTransactionAnswers goes through what can be wrong.
func TestEndTransactionAnswers(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 1)
	plain := send(t, b, "orders", 0, "plain")
	first, good := sendHalf(t, b, "orders", "first"), sendHalf(t, b, "orders", "m")
	require.NoError(t, b.EndTransaction(t.Context(), as(first, protocol.TransactionRollback)))
	require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
	change := func(f func(*protocol.EndTransactionRequest)) protocol.EndTransactionRequest {
		req := good
		f(&req)
		return req
	}
	type r = protocol.EndTransactionRequest
	for name, test := range map[string]struct {
		req  protocol.EndTransactionRequest
		code protocol.ResponseCode
		text string
	}{
		"no record":          {change(func(q *r) { q.LogOffset = 1 << 40 }), protocol.SystemError, "Find prepared transaction message failed"},
		"inside of a record": {change(func(q *r) { q.LogOffset++ }), protocol.SystemError, "Find prepared transaction message failed"},
		"no half message":    {change(func(q *r) { q.LogOffset, q.QueueOffset = plain.MessageID.Offset, 2 }), protocol.SystemError, "Find prepared transaction message failed"},
		"group":              {change(func(q *r) { q.Group = "other" }), protocol.SystemError, "The producer group wrong"},
		"queue offset ahead": {change(func(q *r) { q.QueueOffset = 7 }), protocol.SystemError, "The transaction state table offset wrong"},
		"that of another":    {change(func(q *r) { q.QueueOffset = 0 }), protocol.SystemError, "The transaction state table offset wrong"},
		"negative":           {change(func(q *r) { q.QueueOffset = -1 }), protocol.SystemError, "negative"},
		"log offset":         {change(func(q *r) { q.LogOffset = first.LogOffset }), protocol.SystemError, "The transaction state table offset wrong"},
		"unique key":         {change(func(q *r) { q.UniqueKey = "K" }), protocol.SystemError, "The unique key wrong"},
		"no state":           {change(func(q *r) { q.State = 4 }), protocol.SystemError, "TransactionState(4)"},
		"ended, no record":   {change(func(q *r) { q.LogOffset, q.QueueOffset = 1<<40, 0 }), protocol.SystemError, "Find prepared transaction message failed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := b.EndTransaction(t.Context(), test.req)
			require.ErrorIs(t, err, test.code)
			require.ErrorContains(t, err, test.text)
		})
	}
	require.NoError(t, b.EndTransaction(t.Context(), as(good, protocol.TransactionUnknown)))
	require.Equal(t, []string{"plain"}, bodies(t, b.store, "orders", 0))
	require.Equal(t, []string{"m"}, openBodies(t, b))
	require.Len(t, records(t, b.store, protocol.TransactionOpTopic), 1, "nothing has ended")

	require.NoError(t, b.EndTransaction(t.Context(), good))
	require.NoError(t, b.EndTransaction(t.Context(), good))
	require.NoError(t, b.EndTransaction(t.Context(), as(good, protocol.TransactionRollback)), "it has ended")
	require.NoError(t, b.EndTransaction(t.Context(), first), "it was rolled back")
	require.Equal(t, []string{"plain", "m"}, bodies(t, b.store, "orders", 0))
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.EndTransaction(t.Context(), good), message.ErrClosed)
	_, err := b.OpenTransactions(t.Context())
	require.ErrorIs(t, err, message.ErrClosed)
}

// TestCommitAtTheSameTime from many sides gives one message.
func TestCommitAtTheSameTime(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 1)
	var want []string
	for i := range 20 {
		req := sendHalf(t, b, "orders", strconv.Itoa(i))
		want = append(want, strconv.Itoa(i))
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for w := range errs {
			wg.Go(func() { errs[w] = b.EndTransaction(t.Context(), req) })
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
	}
	require.Equal(t, want, bodies(t, b.store, "orders", 0))
	require.Empty(t, openBodies(t, b))
}

// TestTransactionsAreRefused when the broker is told so; those that are there end.
func TestTransactionsAreRefused(t *testing.T) {
	s := openStore(t, t.TempDir())
	b := openBroker(t, Config{Store: s})
	createTopic(t, b, "orders", 1)
	req := sendHalf(t, b, "orders", "m")
	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: s, RejectTransactionMessage: true})
	_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
		Message: message.Message{Topic: "orders", Body: []byte("x"), Properties: "TRAN_MSG\x01true\x02PGROUP\x01g"},
	})
	require.ErrorIs(t, err, protocol.NoPermission)
	require.NoError(t, b.EndTransaction(t.Context(), req))
	require.Equal(t, []string{"m"}, bodies(t, s, "orders", 0))
}

// TestHalfMessagesAndDelays: the delay of a half message goes, and what a consumer
// sends back is a delayed message and no half message.
func TestHalfMessagesAndDelays(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 1)
	req := sendHalf(t, b, "orders", "m", "DELAY", "3")
	require.NoError(t, b.EndTransaction(t.Context(), req))
	require.Equal(t, []string{"m"}, bodies(t, b.store, "orders", 0))
	require.Len(t, records(t, b.store, message.HalfTopic), 1)

	_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders"})
	require.NoError(t, b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "readers", Offset: ms[0].LogOffset, DelayLevel: 1}))
	for _, level := range []string{"1", "0"} { // as older clients send back; into the dead letters
		topic, times := "%RETRY%readers", int32(1)
		if level == "0" {
			times = 99
		}
		_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{ReconsumeTimes: times, SysFlag: message.TransactionPrepared, Message: message.Message{
			Topic: topic, Body: []byte("old"), Properties: "TRAN_MSG\x01true\x02PGROUP\x01g\x02DELAY\x01" + message.Properties(level),
		}})
		require.NoError(t, err)
	}
	require.Len(t, records(t, b.store, message.HalfTopic), 1)
	waiting := records(t, b.store, message.ScheduleTopic)
	require.Len(t, waiting, 2)
	dead := records(t, b.store, "%DLQ%readers")
	require.Len(t, dead, 1)
	for _, m := range append(waiting, dead...) {
		_, ok := m.Properties.Get("TRAN_MSG")
		require.False(t, ok, m.Properties)
		require.True(t, m.SysFlag.Queued())
	}
	require.Eventually(t, func() bool { return len(bodies(t, b.store, "%RETRY%readers", 0)) == 2 }, time.Minute, 10*time.Millisecond)
}

// TestTransactionTopicsAreNotConsumed, also when RocketMQ has put them into the
// table.
func TestTransactionTopicsAreNotConsumed(t *testing.T) {
	b := openBroker(t, Config{})
	for _, topic := range []string{message.HalfTopic, protocol.TransactionOpTopic} {
		require.NoError(t, b.topics.put(protocol.TopicConfig{Name: topic, ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermReadWrite}))
		_, err := b.PullMessage(t.Context(), protocol.PullMessageRequest{Topic: topic})
		require.ErrorIs(t, err, protocol.NoPermission)
		_, err = b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: topic, Body: []byte("x")}})
		require.ErrorIs(t, err, protocol.NoPermission)
	}
	_, err := b.SendMessageBatch(t.Context(), protocol.SendMessageBatchRequest{SendMessageRequest: protocol.SendMessageRequest{
		Message: message.Message{Topic: "orders", Properties: "TRAN_MSG\x01true"},
	}})
	require.ErrorIs(t, err, protocol.MessageIllegal)
}

// inBubble has a broker with the topic orders in a synctest bubble.
func inBubble(t *testing.T, cfg Config, f func(t *testing.T, b *Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Store = openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		b := openBroker(t, cfg)
		createTopic(t, b, "orders", 1)
		f(t, b)
		require.NoError(t, b.Close())
		require.NoError(t, cfg.Store.Close())
	})
}

// after waits for the bubble's time to pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestPausesBetweenQuestions: 6 s, 30 s, then a minute each; after the fifteenth
// the message is given up, and can be taken up again.
func TestPausesBetweenQuestions(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		a := join(t, b, "me")
		req := sendHalf(t, b, "orders", "m", "TAGS", "red")
		after(time.Hour)
		want := []time.Duration{6 * time.Second, 36 * time.Second}
		for i := range 13 {
			want = append(want, time.Duration(96+60*i)*time.Second)
		}
		require.Equal(t, want, a.times)
		q := a.take()[0]
		require.Equal(t, "g", q.Group)
		require.Equal(t, b.Name(), q.Broker)
		require.Equal(t, "orders", q.Message.Topic)
		require.EqualValues(t, 0, q.Message.QueueID)
		require.Equal(t, req.LogOffset, q.Message.OffsetMessageID().Offset)
		require.Equal(t, req.QueueOffset, q.Message.QueueOffset)

		require.Empty(t, openBodies(t, b))
		require.NoError(t, b.EndTransaction(t.Context(), req))
		require.Empty(t, bodies(t, b.store, "orders", 0))
		given := records(t, b.store, protocol.TransactionCheckMaxTopic)
		require.Len(t, given, 1)
		require.Equal(t, "m", string(given[0].Body))
		times, _ := given[0].Properties.Get("TRANSACTION_CHECK_TIMES")
		require.Equal(t, "15", times)
		_, ms := pull(t, b, protocol.PullMessageRequest{Topic: protocol.TransactionCheckMaxTopic})
		require.Len(t, ms, 1, "people can look at it")

		require.ErrorIs(t, b.ResumeTransaction(t.Context(), req.LogOffset), message.ErrIllegal)
		require.ErrorIs(t, b.ResumeTransaction(t.Context(), 1<<40), message.ErrOffsetNotFound)
		require.NoError(t, b.ResumeTransaction(t.Context(), given[0].LogOffset))
		require.ErrorIs(t, b.ResumeTransaction(t.Context(), given[0].LogOffset), message.ErrIllegal, "it is open")
		after(time.Second)
		asked := a.take()
		require.Len(t, asked, 1)
		require.NoError(t, b.EndTransaction(t.Context(), answerTo(asked[0], protocol.TransactionCommit)))
		after(time.Hour)
		require.Equal(t, []string{"m"}, bodies(t, b.store, "orders", 0))
		require.Empty(t, a.take())
	})
}

// TestQuestionsAboutOpenTransactionsOnly.
func TestQuestionsAboutOpenTransactionsOnly(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		a := join(t, b, "me")
		var odd []string
		for i := range 100 {
			req := sendHalf(t, b, "orders", strconv.Itoa(i))
			if i%2 == 0 {
				require.NoError(t, b.EndTransaction(t.Context(), req))
			} else {
				odd = append(odd, strconv.Itoa(i))
			}
		}
		after(7 * time.Second)
		asked := a.take()
		var got []string
		for _, q := range asked {
			got = append(got, string(q.Message.Body))
			require.NoError(t, b.EndTransaction(t.Context(), answerTo(q, protocol.TransactionRollback)))
		}
		require.ElementsMatch(t, odd, got)
		after(time.Hour)
		require.Empty(t, a.take())
		require.Len(t, bodies(t, b.store, "orders", 0), 50)
		require.Empty(t, openBodies(t, b))
	})
}

// TestImmunity: nobody is asked before it is over, and then at once; from then on
// only answers count.
func TestImmunity(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		a := join(t, b, "me")
		late, soon := sendHalf(t, b, "orders", "late", "CHECK_IMMUNITY_TIME_IN_SECONDS", "20"), sendHalf(t, b, "orders", "soon", "CHECK_IMMUNITY_TIME_IN_SECONDS", "20")
		sendHalf(t, b, "orders", "word", "CHECK_IMMUNITY_TIME_IN_SECONDS", "x")
		after(20*time.Second - time.Millisecond)
		require.Equal(t, []string{"word"}, a.bodies())
		require.NoError(t, b.EndTransaction(t.Context(), soon))
		after(time.Millisecond)
		require.Equal(t, []string{"late"}, a.bodies())
		after(time.Millisecond)
		require.ErrorIs(t, b.EndTransaction(t.Context(), late), protocol.IllegalOperation)
		late.FromCheck = true
		require.NoError(t, b.EndTransaction(t.Context(), late))
		require.Equal(t, []string{"soon", "late"}, bodies(t, b.store, "orders", 0))
	})
}

// TestClientsThatFail: refusals and panics about one message keep no other from
// being asked about, and do not count.
func TestClientsThatFail(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		a := join(t, b, "me")
		a.mu.Lock()
		a.refuse = func(m *message.MessageExt) error {
			if string(m.Body) == "3" {
				panic("no")
			}
			return nil
		}
		a.mu.Unlock()
		for i := range 10 {
			sendHalf(t, b, "orders", strconv.Itoa(i))
		}
		after(7 * time.Second)
		for _, q := range a.take() {
			if body := string(q.Message.Body); body != "3" {
				require.NoError(t, b.EndTransaction(t.Context(), answerTo(q, protocol.TransactionCommit)))
			}
		}
		require.Equal(t, []string{"3"}, openBodies(t, b))
		after(time.Hour)
		require.Greater(t, len(a.take()), 100)
		require.Equal(t, []string{"3"}, openBodies(t, b))
		a.mu.Lock()
		a.refuse = nil
		a.mu.Unlock()
		after(time.Hour)
		require.Len(t, a.take(), 15)
		require.Empty(t, openBodies(t, b))
		require.Len(t, bodies(t, b.store, protocol.TransactionCheckMaxTopic, 0), 1)
	})
}

// TestNobodyToAsk does not count; when a client comes it is asked at once. The one
// that sent the message is preferred.
func TestNobodyToAsk(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		sendHalf(t, b, "orders", "m")
		p := message.Properties("TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01K-n")
		_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
			ClientID: "second", Message: message.Message{Topic: "orders", Body: []byte("n"), Properties: p}, BornTimestamp: time.Now().UnixMilli(),
		})
		require.NoError(t, err)
		after(time.Hour)
		first := join(t, b, "first")
		synctest.Wait()
		require.ElementsMatch(t, []string{"m", "n"}, first.bodies(), "a client of the group")
		second := join(t, b, "second")
		join(t, b, "third")
		for range 5 {
			after(time.Minute)
		}
		require.NotContains(t, first.bodies(), "n")
		require.Contains(t, second.bodies(), "n")
		require.Len(t, openBodies(t, b), 2)
	})
}

// TestQuestionsPerSecond are bounded for each client.
func TestQuestionsPerSecond(t *testing.T) {
	inBubble(t, Config{TransactionCheckRate: 5}, func(t *testing.T, b *Broker) {
		a := join(t, b, "me")
		for i := range 23 {
			sendHalf(t, b, "orders", strconv.Itoa(i))
		}
		for range 6 {
			after(time.Second)
		}
		total := 0
		for range 5 {
			n := len(a.take())
			require.LessOrEqual(t, n, 10, "two seconds of the clock may meet")
			total += n
			after(time.Second)
		}
		require.Equal(t, 23, total)
	})
}

// TestOldTransactionsAreGivenUp, but not for the time in which no broker ran.
func TestOldTransactionsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		sendHalf(t, b, "orders", "m")
		after(71 * time.Hour)
		require.Equal(t, []string{"m"}, openBodies(t, b))
		require.NoError(t, b.Close())
		after(1000 * time.Hour)
		b = openBroker(t, Config{Store: s})
		after(71 * time.Hour)
		require.Equal(t, []string{"m"}, openBodies(t, b))
		after(2 * time.Hour)
		require.Empty(t, openBodies(t, b))
		require.Len(t, bodies(t, s, protocol.TransactionCheckMaxTopic, 0), 1)
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestIdleTransactionsDoNothing: without open transactions nothing is written, and
// the clock is not looked at.
func TestIdleTransactionsDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{})
		var looks atomic.Int64
		b := openBroker(t, Config{Store: s, Now: func() time.Time { looks.Add(1); return time.Now() }})
		createTopic(t, b, "orders", 1)
		join(t, b, "me")
		after(time.Hour)
		_, err := s.ReadConfig(offsetsFile, func([]byte) error { return nil })
		require.Error(t, err, "there is no file")

		require.NoError(t, b.EndTransaction(t.Context(), sendHalf(t, b, "orders", "m")))
		after(DefaultOffsetPersistInterval + time.Second)
		text, before := progressText(t, s), looks.Load()
		require.Contains(t, text, `"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1`)
		after(240 * time.Hour)
		require.Equal(t, before, looks.Load())
		require.Equal(t, text, progressText(t, s))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestListOfTransactions.
func TestListOfTransactions(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		join(t, b, "me")
		began := time.Now().UnixMilli()
		requests := []protocol.EndTransactionRequest{sendHalf(t, b, "orders", "a"), sendHalf(t, b, "orders", "b"), sendHalf(t, b, "orders", "c")}
		require.NoError(t, b.EndTransaction(t.Context(), requests[1]))
		after(10 * time.Second)
		open, err := b.OpenTransactions(t.Context())
		require.NoError(t, err)
		require.Len(t, open, 2)
		require.Equal(t, protocol.OpenTransaction{
			Topic: "orders", Group: "g", UniqueKey: "K-c", LogOffset: requests[2].LogOffset, QueueOffset: 2,
			BornTimestamp: began, StoreTimestamp: began, Checks: 1, NextCheck: began + 36_000,
		}, open[1])
	})
}

// TestFailedEnds: what is not stored has not ended, and when only the op message
// is missing it is written later.
func TestFailedEnds(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		var broken atomic.Value // the topic that takes nothing
		broken.Store("")
		b.transactions.put = func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
			if broken.Load() == m.Topic {
				return store.PutMessageResult{Status: store.PutServiceNotAvailable}, message.ErrDiskFull
			}
			return b.store.PutMessage(ctx, m)
		}
		req, other := sendHalf(t, b, "orders", "m"), sendHalf(t, b, "orders", "n")
		broken.Store("orders")
		require.ErrorIs(t, b.EndTransaction(t.Context(), req), message.ErrDiskFull)
		require.ErrorIs(t, b.EndTransaction(t.Context(), req), protocol.ServiceNotAvailable)
		require.Equal(t, []string{"m", "n"}, openBodies(t, b))
		broken.Store(protocol.TransactionOpTopic)
		require.ErrorIs(t, b.EndTransaction(t.Context(), as(other, protocol.TransactionRollback)), message.ErrDiskFull)
		require.NoError(t, b.EndTransaction(t.Context(), req), "the message counts")
		require.NoError(t, b.EndTransaction(t.Context(), req))
		require.Equal(t, []string{"n"}, openBodies(t, b))
		after(time.Minute)
		require.Empty(t, records(t, b.store, protocol.TransactionOpTopic))
		require.LessOrEqual(t, b.transactions.mark, records(t, b.store, "orders")[0].LogOffset, "a restart looks for it")
		broken.Store("")
		after(delayMaxBackoff)
		require.Len(t, records(t, b.store, protocol.TransactionOpTopic), 1)
		require.Equal(t, []string{"m"}, bodies(t, b.store, "orders", 0))
		require.Equal(t, []string{"n"}, openBodies(t, b))
	})
}

// TestDamagedHalfMessages are passed over, and keep no other from being asked
// about.
func TestDamagedHalfMessages(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		damage := func(at message.LogOffset) {
			f, err := os.OpenFile(filepath.Join(b.store.Dir(), "commitlog", fmt.Sprintf("%020d", 0)), os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte{0xff}, int64(at)+88) // the body
			require.NoError(t, errors.Join(err, f.Close()))
		}
		a := join(t, b, "me")
		requests := []protocol.EndTransactionRequest{sendHalf(t, b, "orders", "early"), sendHalf(t, b, "orders", "late"), sendHalf(t, b, "orders", "good")}
		damage(requests[0].LogOffset)
		after(2 * time.Second)
		damage(requests[1].LogOffset)
		after(5 * time.Second)
		require.Equal(t, []string{"good"}, a.bodies())
		require.ErrorIs(t, b.EndTransaction(t.Context(), requests[0]), message.ErrCorrupt)
		require.Equal(t, []string{"good"}, openBodies(t, b))
		require.NoError(t, b.EndTransaction(t.Context(), requests[2]))
		after(time.Minute)
		require.EqualValues(t, 3, b.transactions.saved.Load())
	})
}

// TestWhenToAsk goes through clocks of producers, and pauses.
func TestWhenToAsk(t *testing.T) {
	r := checkRules{timeout: 6 * time.Second, interval: time.Minute}
	for _, test := range []struct {
		born, stored int64
		properties   message.Properties
		want         int64
	}{
		{1e12, 1e12, "", 1e12 + 6000},
		{1e12 - 4000, 1e12, "", 1e12 + 2000},
		{1e12 + 99_000, 1e12, "", 1e12 + 6000},
		{0, 1e12, "", 1e12 + 6000},
		{1e12, 1e12, "CHECK_IMMUNITY_TIME_IN_SECONDS\x010", 1e12},
		{1e12, 1e12, "CHECK_IMMUNITY_TIME_IN_SECONDS\x01100", 1e12 + 100_000},
		{1e12, 1e12, "CHECK_IMMUNITY_TIME_IN_SECONDS\x01-1", 1e12 + 6000},
		{1e12, 1e12, "CHECK_IMMUNITY_TIME_IN_SECONDS\x0199999999999", 1e12 + 6000},
	} {
		require.Equal(t, test.want, r.first(test.born, test.stored, test.properties), test)
	}
	for _, test := range []struct {
		timeout, interval time.Duration
		want              []time.Duration
	}{
		{6 * time.Second, time.Minute, []time.Duration{6 * time.Second, 30 * time.Second, time.Minute, time.Minute}},
		{time.Second, time.Hour, []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 125 * time.Second, 625 * time.Second, 3125 * time.Second, time.Hour}},
		{time.Minute, time.Second, []time.Duration{time.Minute, time.Second, time.Second}},
		{1 << 62, 1<<63 - 1, []time.Duration{1 << 62, 1<<63 - 1, 1<<63 - 1}},
	} {
		r := checkRules{timeout: test.timeout, interval: test.interval}
		for asked, want := range test.want {
			require.Equal(t, want, r.pause(asked), "%v after %d", test.timeout, asked)
		}
	}
}
