package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// copyStore copies the directory of an open store, which is what a kill leaves of
// it. A kill takes everything at one moment, a copy does not: nothing must be on
// its way.
func copyStore(s *store.DefaultMessageStore, dir string) error {
	ctx := context.Background()
	if err := errors.Join(s.Flush(ctx), s.WaitDispatched(ctx, s.MaxOffset())); err != nil {
		return err
	}
	for {
		err := copyInOrder(s.Dir(), dir)
		if !errors.Is(err, fs.ErrNotExist) { // else a file was renamed meanwhile
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
}

// copyInOrder copies what says how far the log was looked at before the log: while
// something runs, no kill leaves the newer of the two and the older log.
func copyInOrder(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	rank := func(e fs.DirEntry) int { return slices.Index([]string{"pocketmq", "config"}, e.Name()) }
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return rank(b) - rank(a) })
	for _, e := range entries {
		path := filepath.Join(from, e.Name())
		if e.IsDir() {
			err = os.CopyFS(filepath.Join(to, e.Name()), os.DirFS(path))
		} else {
			var b []byte
			if b, err = os.ReadFile(path); err == nil {
				err = errors.Join(os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, e.Name()), b, 0o600))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rollFrom has half messages rolled forward earlier than in a large log.
func rollFrom(b *Broker, least message.LogOffset) {
	b.transactions.mu.Lock()
	defer b.transactions.mu.Unlock()
	b.transactions.rollLeast = least
	b.transactions.watchFirst()
}

// outcomes are what a database would say: what became of each transaction.
var outcomes = map[byte]protocol.TransactionState{
	'c': protocol.TransactionCommit, 'r': protocol.TransactionRollback, 'u': protocol.TransactionUnknown,
}

// resolver is a client that knows the outcomes, by the first letter of the body.
func resolver(t *testing.T, b *Broker) {
	t.Helper()
	a := &questioned{began: time.Now(), refuse: func(m *message.MessageExt) error {
		q := protocol.CheckTransactionStateRequest{Group: "g", Message: m}
		go func() { // the clock stands still: a question is asked once
			for err := errors.New("begin"); err != nil && !errors.Is(err, message.ErrClosed); time.Sleep(time.Millisecond) {
				err = b.EndTransaction(context.Background(), answerTo(q, outcomes[m.Body[0]]))
			}
		}()
		return nil
	}}
	require.NoError(t, b.RegisterClient(t.Context(), protocol.RegisterClientRequest{ClientID: "resolver", ProducerGroups: []string{"g"}, Client: a}))
}

// TestTransactionsAfterCrash copies the directory before and after every record
// that is made from a half message, and at every moment between, with progress that
// is saved late and early. In each copy it goes on: clients end again what they
// were not told had ended, or a client is asked. Nothing is committed twice, nothing
// is forgotten, and what nobody knows stays open.
func TestTransactionsAfterCrash(t *testing.T) {
	t.Run("late", func(t *testing.T) { testTransactionsAfterCrash(t, store.FlushSync, false) })
	t.Run("early", func(t *testing.T) { testTransactionsAfterCrash(t, store.FlushAsync, true) })
}

// kills copies a store, and notes what was acknowledged by then.
type kills struct {
	t     *testing.T
	s     *store.DefaultMessageStore
	root  string
	mu    sync.Mutex
	acked map[string]bool
	dirs  []string
	keep  []map[string]bool // by copy: bodies whose half message was acknowledged
}

func (k *kills) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	dir := filepath.Join(k.root, fmt.Sprint(len(k.dirs)))
	if err := copyStore(k.s, dir); err != nil {
		k.t.Error(err)
	}
	acked := map[string]bool{}
	for body := range k.acked {
		acked[body] = true
	}
	k.dirs, k.keep = append(k.dirs, dir), append(k.keep, acked)
}

func testTransactionsAfterCrash(t *testing.T, mode store.FlushMode, early bool) {
	var clock atomic.Int64
	clock.Store(1e12)
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	cfg := store.Config{Flush: mode, Now: now, NoIndex: true}
	s := openDelayStore(t, t.TempDir(), cfg)
	k := &kills{t: t, s: s, root: t.TempDir(), acked: map[string]bool{}}
	b := openBroker(t, Config{Store: s, Now: now})
	createTopic(t, b, "orders", 1)
	saveNow := func() {
		if early {
			require.NoError(t, b.transactions.read(t.Context()))
			require.NoError(t, b.transactions.saveChanges(t.Context()))
		}
	}
	b.transactions.put = func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
		k.kill() // local transaction done, end lost; or committed, and op message missing
		defer k.kill()
		return s.PutMessage(ctx, m)
	}
	var requests []protocol.EndTransactionRequest
	names := []string{"c0", "r1", "u2", "c3", "u4", "c5"}
	for _, body := range names {
		requests = append(requests, sendHalf(t, b, "orders", body))
		k.acked[body] = true
		k.kill() // half written
	}
	saveNow()
	for _, i := range []int{3, 1, 0, 5} {
		require.NoError(t, b.EndTransaction(t.Context(), as(requests[i], outcomes[names[i][0]])))
		saveNow()
		if early {
			k.kill() // progress saved
		}
	}
	// The rest is rolled forward, and at last given up.
	rollFrom(b, 1)
	require.NoError(t, b.transactions.read(t.Context()))
	require.NoError(t, b.transactions.rollOld(t.Context()))
	saveNow()
	k.kill()
	require.NoError(t, b.Close())
	require.Equal(t, []string{"c3", "c0", "c5"}, bodies(t, s, "orders", 0))
	require.NoError(t, s.Close())
	require.Greater(t, len(k.dirs), 20)

	clock.Add(7000)
	for i, dir := range k.dirs {
		s := openDelayStore(t, dir, cfg)
		b := openBroker(t, Config{Store: s, Now: now})
		for j, req := range requests { // half of the clients say it again
			if i%2 == 0 && j%2 == i/2%2 && k.keep[i][names[j]] && names[j][0] != 'u' {
				require.NoError(t, b.EndTransaction(t.Context(), as(req, outcomes[names[j][0]])))
			}
		}
		resolver(t, b)
		var committed, unknown []string
		for _, body := range names {
			switch {
			case !k.keep[i][body]:
			case body[0] == 'c':
				committed = append(committed, body)
			case body[0] == 'u':
				unknown = append(unknown, body)
			}
		}
		require.Eventually(t, func() bool {
			open := openBodies(t, b)
			slices.Sort(open)
			return slices.Equal(open, unknown)
		}, time.Minute, time.Millisecond, "copy %d: open are not %v", i, unknown)
		got := bodies(t, s, "orders", 0)
		require.ElementsMatch(t, committed, got, "copy %d", i)
		require.NoError(t, b.Close())

		b = openBroker(t, Config{Store: s, Now: now}) // and once more, after a clean stop
		require.ElementsMatch(t, unknown, openBodies(t, b))
		for j, req := range requests {
			if k.keep[i][names[j]] && names[j][0] == 'u' {
				require.NoError(t, b.EndTransaction(t.Context(), req), "as it was sent, though it may have been rolled forward")
				committed = append(committed, names[j])
			}
		}
		require.ElementsMatch(t, committed, bodies(t, s, "orders", 0), "copy %d", i)
		require.Empty(t, openBodies(t, b))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	}
}

// TestGivenUpAfterCrash: between the copy for those given up and the op message a
// crash leaves no second copy.
func TestGivenUpAfterCrash(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1e12)
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	cfg := store.Config{Flush: store.FlushAsync, Now: now, NoIndex: true}
	s := openDelayStore(t, t.TempDir(), cfg)
	k := &kills{t: t, s: s, root: t.TempDir(), acked: map[string]bool{}}
	b := openBroker(t, Config{Store: s, Now: now, TransactionMaxAge: time.Second})
	createTopic(t, b, "orders", 1)
	b.transactions.put = func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
		k.kill()
		defer k.kill()
		return s.PutMessage(ctx, m)
	}
	sendHalf(t, b, "orders", "m")
	require.Equal(t, []string{"m"}, openBodies(t, b))
	clock.Add(10_000)
	b.transactions.wake()
	require.Eventually(t, func() bool { return len(openBodies(t, b)) == 0 }, time.Minute, time.Millisecond)
	require.NoError(t, b.Close())
	require.NoError(t, s.Close())
	require.Len(t, k.dirs, 4)
	for i, dir := range k.dirs {
		s := openDelayStore(t, dir, cfg)
		b := openBroker(t, Config{Store: s, Now: now, TransactionMaxAge: time.Second})
		require.Len(t, openBodies(t, b), map[bool]int{true: 1}[i == 0], "copy %d", i)
		clock.Add(100_000)
		b.transactions.wake()
		require.Eventually(t, func() bool { return len(openBodies(t, b)) == 0 }, time.Minute, time.Millisecond)
		require.NoError(t, b.Close())
		require.Len(t, bodies(t, s, protocol.TransactionCheckMaxTopic, 0), 1, "copy %d", i)
		require.NoError(t, s.Close())
	}
}

// rocketMQsOpen is what RocketMQ's check loop takes for open.
//
// Source: RocketMQ broker/transaction/queue/TransactionalMessageServiceImpl.java, check.
func rocketMQsOpen(t *testing.T, s *store.DefaultMessageStore) (texts []string) {
	t.Helper()
	text, err := s.ReadConfig(offsetsFile, func([]byte) error { return nil })
	var table map[string]queueOffsets
	if err == nil {
		_, table, err = parseOffsets(text)
		require.NoError(t, err)
	}
	from := func(topic string) message.QueueOffset {
		return max(table[offsetKey(topic, protocol.TransactionGroup)][0], s.MinOffsetInQueue(topic, 0))
	}
	ended := map[string]bool{}
	for _, op := range records(t, s, protocol.TransactionOpTopic) {
		if op.QueueOffset >= from(protocol.TransactionOpTopic) {
			opOffsets(op.Body, func(off message.QueueOffset) { ended[fmt.Sprint(off)] = true })
		}
	}
	for _, m := range records(t, s, message.HalfTopic) {
		if m.QueueOffset >= from(message.HalfTopic) && !ended[fmt.Sprint(m.QueueOffset)] {
			texts = append(texts, string(m.Body))
		}
	}
	return texts
}

// TestTransactionsAgainstModel sends, commits, rolls back, rolls forward, answers
// and restarts at random, cleanly and by kill, and compares with a map. After a
// clean stop RocketMQ would take the same transactions for open.
func TestTransactionsAgainstModel(t *testing.T) {
	testTransactionModels(t, 0, 3)
}

func testTransactionModels(t *testing.T, from, to uint64) {
	rolled := 0
	for seed := from; seed < to; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rolled += modelTransactions(t, seed) })
		})
	}
	require.Positive(t, rolled, "some were rolled forward")
}

// txModel is what must be.
type txModel struct {
	open map[string]protocol.EndTransactionRequest
	want []string
}

func modelTransactions(t *testing.T, seed uint64) (rolled int) {
	r := rand.New(rand.NewPCG(seed, 7))
	root, copies := t.TempDir(), 0
	cfg := store.Config{Flush: store.FlushAsync, NoIndex: true}
	s := openDelayStore(t, filepath.Join(root, "first"), cfg)
	open := func() *Broker {
		b := openBroker(t, Config{Store: s, TransactionCheckMax: 1 << 20, TransactionMaxAge: 1 << 60})
		rollFrom(b, 2000)
		return b
	}
	b := open()
	createTopic(t, b, "orders", 1)
	m := txModel{open: map[string]protocol.EndTransactionRequest{}}
	var ended []protocol.EndTransactionRequest
	end := func(body string, req protocol.EndTransactionRequest) {
		state := []protocol.TransactionState{protocol.TransactionCommit, protocol.TransactionRollback}[r.IntN(2)]
		require.NoError(t, b.EndTransaction(t.Context(), as(req, state)))
		if state == protocol.TransactionCommit {
			m.want = append(m.want, body)
		}
		delete(m.open, body)
		ended = append(ended, as(req, state))
	}
	for i := range 300 {
		names := sortedKeys(m.open)
		switch n := r.IntN(100); {
		case n < 35:
			body := fmt.Sprintf("%d-%s", i, strings.Repeat("x", r.IntN(300)))
			m.open[body] = sendHalf(t, b, "orders", body)
		case n < 55 && len(names) > 0:
			body := names[r.IntN(len(names))]
			end(body, m.open[body])
		case n < 62 && len(ended) > 0: // a client that did not hear of it
			require.NoError(t, b.EndTransaction(t.Context(), ended[r.IntN(len(ended))]))
		case n < 75:
			after(time.Duration(r.IntN(8000)) * time.Millisecond)
		case n < 82: // an answer to a question
			a := join(t, b, "me")
			after(time.Minute)
			for _, q := range a.take() {
				if body := string(q.Message.Body); r.IntN(3) == 0 && m.open[body].Group != "" {
					end(body, answerTo(q, protocol.TransactionCommit))
				}
			}
			require.NoError(t, b.UnregisterClient(t.Context(), "me"))
		case n < 90:
			send(t, b, "other", 0, strings.Repeat("y", 1+r.IntN(2000)))
		case n < 95:
			require.NoError(t, b.transactions.await(t.Context())) // one that stops earlier saves nothing
			require.NoError(t, b.Close())
			require.ElementsMatch(t, sortedKeys(m.open), rocketMQsOpen(t, s))
			b = open()
		default:
			copies++
			dir := filepath.Join(root, fmt.Sprint("copy", copies))
			synctest.Wait() // a kill stops all at once, and a copy is made file by file
			require.NoError(t, copyStore(s, dir))
			require.NoError(t, b.Close())
			require.NoError(t, s.Close())
			s = openDelayStore(t, dir, cfg)
			b = open()
		}
		if i%10 == 0 {
			synctest.Wait() // one that is being rolled forward is in no list
			require.ElementsMatch(t, sortedKeys(m.open), openBodies(t, b), "step %d", i)
		}
	}
	require.ElementsMatch(t, sortedKeys(m.open), openBodies(t, b))
	require.ElementsMatch(t, m.want, bodies(t, s, "orders", 0))
	rolled = len(records(t, s, message.HalfTopic)) - len(ended) - len(m.open)
	require.NoError(t, b.Close())
	require.NoError(t, s.Close())
	return rolled
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// putRecord puts what another broker may have put.
func putRecord(t *testing.T, s *store.DefaultMessageStore, topic, body string, p message.Properties, born int64) message.QueueOffset {
	t.Helper()
	m := message.MessageExtBrokerInner{}
	m.Topic, m.Body, m.Properties, m.BornTimestamp = topic, []byte(body), p, born
	res, err := s.PutMessage(t.Context(), &m)
	require.NoError(t, err)
	return res.QueueOffset
}

// TestRocketMQsTransactions goes on where RocketMQ has stopped: properties in its
// order, op messages of 4.9.3 and of 5, half messages that it wrote again when it
// asked about them, and its progress.
func TestRocketMQsTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		born := time.Now().UnixMilli()
		half := func(body, more string) message.QueueOffset {
			return putRecord(t, s, message.HalfTopic, body, message.Properties("REAL_TOPIC\x01orders\x02PGROUP\x01g\x02WAIT\x01true\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01K-"+body+more+"\x02REAL_QID\x010"), born)
		}
		op := func(body string) { putRecord(t, s, protocol.TransactionOpTopic, body, opProperties, born) }
		half("passed", "")                                                // 0, before the progress
		half("ended4", "")                                                // 1
		half("ended5a", "")                                               // 2
		half("open", "")                                                  // 3
		half("ended5b", "")                                               // 4
		half("asked", "")                                                 // 5
		op("0")                                                           // counted
		op("1")                                                           //
		op("4,2,")                                                        //
		half("asked", "\x02TRANSACTION_CHECK_TIMES\x011")                 // 6, for 5
		half("asked", "\x02TRANSACTION_CHECK_TIMES\x012")                 // 7, for 6
		half("immune", "\x02TRAN_PREPARED_QUEUE_OFFSET\x010")             // 8, for 0
		half("last", "\x02TRANSACTION_CHECK_TIMES\x0114")                 // 9
		op("what is this")                                                //
		putRecord(t, s, "orders", "passed", "UNIQ_KEY\x01K-passed", born) //
		require.NoError(t, s.WriteConfig(offsetsFile, []byte(`{"offsetTable":{"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1},"RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1}}}`)))

		b := openBroker(t, Config{Store: s})
		require.Equal(t, []string{"open", "asked", "immune", "last"}, openBodies(t, b))
		a := join(t, b, "me")
		after(2 * time.Minute)
		require.NotContains(t, openBodies(t, b), "last", "it was asked about the fifteenth time")
		asked := map[string]protocol.CheckTransactionStateRequest{}
		for _, q := range a.take() {
			asked[string(q.Message.Body)] = q
		}
		require.Len(t, asked, 4)
		require.EqualValues(t, 7, asked["asked"].Message.QueueOffset)
		old := answerTo(asked["asked"], protocol.TransactionCommit)
		old.QueueOffset = 5 // a client that answers an earlier question
		require.NoError(t, b.EndTransaction(t.Context(), old))
		require.NoError(t, b.EndTransaction(t.Context(), answerTo(asked["asked"], protocol.TransactionCommit)))
		require.NoError(t, b.EndTransaction(t.Context(), answerTo(asked["immune"], protocol.TransactionRollback)))
		require.Equal(t, []string{"passed", "asked"}, bodies(t, s, "orders", 0))
		require.NoError(t, b.Close())
		require.Equal(t, []string{"open"}, rocketMQsOpen(t, s))
		require.NoError(t, s.Close())
	})
}

// TestProgressOutsideOfTheQueue is corrected, and saved at once.
func TestProgressOutsideOfTheQueue(t *testing.T) {
	s := openStore(t, t.TempDir())
	require.NoError(t, s.WriteConfig(offsetsFile, []byte(
		`{"offsetTable":{"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:77},"RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:99}},"transactionLogOffset":123456789}`)))
	b := openBroker(t, Config{Store: s})
	createTopic(t, b, "orders", 1)
	require.Empty(t, openBodies(t, b))
	require.Contains(t, progressText(t, s), `"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:0`)
	require.Contains(t, progressText(t, s), `"RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:0`)
	require.NotContains(t, progressText(t, s), "123456789")
	sendHalf(t, b, "orders", "m")
	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: s})
	require.Equal(t, []string{"m"}, openBodies(t, b))
	require.NoError(t, b.Close())
	require.NoError(t, s.WriteConfig(offsetsFile, []byte(`{"offsetTable":{},"transactionLogOffset":"x"}`)))
	_, err := New(t.Context(), Config{Store: s})
	require.ErrorContains(t, err, "transactionLogOffset")
}

// TestOpenTransactionsAreKept whatever retention says, and do not hold the log for
// ever: they are rolled forward.
func TestOpenTransactionsAreKept(t *testing.T) {
	for _, rule := range []store.GroupRule{store.IgnoreGroups, store.KeepUnconsumed, store.RemoveConsumed} {
		t.Run(rule.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync, Retention: store.Retention{Groups: rule}})
				b := openBroker(t, Config{Store: s})
				createTopic(t, b, "orders", 1)
				createTopic(t, b, "others", 1)
				commit := func(topic string, off message.QueueOffset) {
					require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
						Group: "g", Topic: topic, Offsets: []protocol.QueuePosition{{Offset: off}}, Sync: true,
					}))
				}
				clean := func() {
					_, err := s.RemoveBefore(t.Context(), s.MaxOffset())
					require.NoError(t, err)
				}
				commit("orders", 0)
				req := sendHalf(t, b, "orders", "m")
				for i := range 20 {
					send(t, b, "others", 0, strings.Repeat("x", 4000))
					commit("others", message.QueueOffset(i+1))
				}
				clean()
				require.Zero(t, s.MinOffset(), "it is held")
				after(time.Second)
				rollFrom(b, 20_000)
				for i := range 100 {
					send(t, b, "others", 0, strings.Repeat("x", 4000))
					commit("others", message.QueueOffset(i+21))
					synctest.Wait()
					if i%20 == 19 {
						clean()
						require.Less(t, s.MaxOffset()-s.MinOffset(), message.LogOffset(300_000))
					}
				}
				require.Less(t, len(records(t, s, message.HalfTopic)), 60)
				require.Equal(t, []string{"m"}, openBodies(t, b))
				require.NoError(t, b.EndTransaction(t.Context(), req), "whose record is gone")
				require.Equal(t, []string{"m"}, bodies(t, s, "orders", 0))
				commit("orders", 1)
				after(time.Minute)
				for i := range 20 {
					send(t, b, "others", 0, strings.Repeat("x", 4000))
					commit("others", message.QueueOffset(i+121))
				}
				clean()
				require.Greater(t, s.MinOffset(), s.MaxOffset()-2*32<<10)
				require.NoError(t, b.EndTransaction(t.Context(), req), "it has ended")
				require.NoError(t, b.Close())
				require.NoError(t, s.Close())
			})
		})
	}
}
