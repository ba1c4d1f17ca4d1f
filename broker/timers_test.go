package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// sendTimed sends what may be refused.
func sendTimed(t *testing.T, b *Broker, body string, p message.Properties) (protocol.SendMessageResponse, error) {
	t.Helper()
	return b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: "orders", Body: []byte(body), Properties: p}})
}

// sendAt sends a message with a time of delivery; its body is its unique key.
func sendAt(t *testing.T, b *Broker, id string, at time.Time) protocol.RecallHandle {
	t.Helper()
	p, err := message.NewProperties(message.PropertyUniqueKey, id)
	require.NoError(t, err)
	resp, err := sendTimed(t, b, id, p.DeliverAt(at))
	require.NoError(t, err)
	h, err := protocol.ParseRecallHandle(resp.RecallHandle)
	require.NoError(t, err)
	require.Equal(t, protocol.RecallHandle{Topic: "orders", Broker: b.Name(), DeliverAt: at.UnixMilli(), ID: id}, h)
	return h
}

func cancelTimer(t *testing.T, b *Broker, id string) error {
	t.Helper()
	return b.CancelTimer(t.Context(), protocol.CancelTimerRequest{Topic: "orders", ID: id})
}

func reschedule(t *testing.T, b *Broker, id string, at time.Time) error {
	t.Helper()
	return b.RescheduleTimer(t.Context(), protocol.RescheduleTimerRequest{
		CancelTimerRequest: protocol.CancelTimerRequest{Topic: "orders", ID: id}, DeliverAt: at.UnixMilli(),
	})
}

// setTail replaces timerTail.
func setTail(b *Broker, tail int64) {
	b.timers.mu.Lock()
	defer b.timers.mu.Unlock()
	b.timers.tail = tail
}

// waiting lists the ids of all that waits, with pages of two.
func waiting(t *testing.T, b *Broker) (ids []string) {
	t.Helper()
	page := protocol.ListTimersResponse{More: true}
	for page.More {
		var err error
		page, err = b.ListTimers(t.Context(), protocol.ListTimersRequest{From: page.Next, Max: 2})
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Timers), 2)
		for _, info := range page.Timers {
			require.Equal(t, "orders", info.Topic)
			require.Positive(t, info.Bytes)
			ids = append(ids, info.ID)
		}
	}
	return ids
}

// TestTimerProperties: which of them counts, what is refused, and with which code.
func TestTimerProperties(t *testing.T) {
	const day = int64(24 * 60 * 60 * 1000)
	now := int64(1_700_000_000_123)
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	for name, test := range map[string]struct {
		properties []string
		due        int64 // 0: at once
		code       protocol.ResponseCode
		refused    error
		limit      int64 // of a LimitError
		stored     message.Properties
	}{
		"none":                         {stored: "a\x01b"},
		"absolute":                     {properties: []string{"TIMER_DELIVER_MS", text(now + 1)}, due: now + 1, stored: message.Properties("a\x01b\x02TIMER_DELIVER_MS\x01" + text(now+1) + "\x02TIMER_OUT_MS\x01" + text(now+1) + "\x02REAL_TOPIC\x01orders\x02REAL_QID\x010")},
		"ms":                           {properties: []string{"TIMER_DELAY_MS", "1999"}, due: now + 1999},
		"seconds":                      {properties: []string{"TIMER_DELAY_SEC", "7"}, due: now + 7000},
		"seconds before ms":            {properties: []string{"TIMER_DELAY_MS", "5", "TIMER_DELAY_SEC", "7"}, due: now + 7000},
		"ms before absolute":           {properties: []string{"TIMER_DELIVER_MS", text(now + 9), "TIMER_DELAY_MS", "5"}, due: now + 5},
		"all":                          {properties: []string{"TIMER_DELIVER_MS", "x", "TIMER_DELAY_MS", "y", "TIMER_DELAY_SEC", "1"}, due: now + 1000},
		"now":                          {properties: []string{"TIMER_DELIVER_MS", text(now)}, stored: message.Properties("a\x01b\x02TIMER_DELIVER_MS\x01" + text(now))},
		"no delay":                     {properties: []string{"TIMER_DELAY_MS", "0"}},
		"past":                         {properties: []string{"TIMER_DELIVER_MS", "1"}},
		"before the epoch":             {properties: []string{"TIMER_DELIVER_MS", "-9223372036854775808"}},
		"negative":                     {properties: []string{"TIMER_DELAY_SEC", "-9223372036854775808"}},
		"level before timer":           {properties: []string{"TIMER_DELIVER_MS", "x", "TIMER_DELAY_MS", "y", "TIMER_DELAY_SEC", "z", "DELAY", "3"}, due: now + 10_000, stored: "a\x01b\x02DELAY\x013\x02REAL_TOPIC\x01orders\x02REAL_QID\x010"},
		"level 0":                      {properties: []string{"TIMER_DELAY_MS", "5", "DELAY", "0"}, due: now + 5},
		"no number, absolute":          {properties: []string{"TIMER_DELIVER_MS", "soon"}, code: protocol.MessageIllegal, refused: message.ErrIllegal},
		"no number, ms":                {properties: []string{"TIMER_DELAY_MS", "1.5"}, code: protocol.MessageIllegal, refused: message.ErrIllegal},
		"no number, seconds":           {properties: []string{"TIMER_DELAY_SEC", "9223372036854775808"}, code: protocol.MessageIllegal, refused: message.ErrIllegal},
		"horizon":                      {properties: []string{"TIMER_DELAY_MS", text(40 * day)}, due: now + 40*day},
		"beyond the horizon":           {properties: []string{"TIMER_DELAY_MS", text(40*day + 1)}, code: protocol.MessageIllegal, refused: message.ErrLimit, limit: 40*day + 1},
		"beyond the horizon, absolute": {properties: []string{"TIMER_DELIVER_MS", text(now + 40*day + 1)}, code: protocol.MessageIllegal, refused: message.ErrLimit, limit: 40*day + 1},
		"overflow":                     {properties: []string{"TIMER_DELAY_SEC", "9223372036854775807"}, code: protocol.MessageIllegal, refused: message.ErrLimit, limit: 1<<63 - 1 - now},
		"overflow, ms":                 {properties: []string{"TIMER_DELAY_MS", "9223372036854775807"}, code: protocol.MessageIllegal, refused: message.ErrLimit, limit: 1<<63 - 1 - now},
		"recall by a message":          {properties: []string{"TIMER_DELAY_MS", "5", "TIMER_DEL_UNIQKEY", "k"}, code: protocol.MessageIllegal, refused: message.ErrIllegal},
	} {
		t.Run(name, func(t *testing.T) {
			b := openBroker(t, Config{Now: fixed(now), NoClusterProperty: true})
			createTopic(t, b, "orders", 1)
			p, err := message.NewProperties(append([]string{"a", "b"}, test.properties...)...)
			require.NoError(t, err)
			resp, err := sendTimed(t, b, "x", p)
			require.Equal(t, test.code, resp.Code)
			if test.refused != nil {
				require.ErrorIs(t, err, test.refused)
				var limit *message.LimitError
				if errors.As(err, &limit) {
					require.Equal(t, 40*day, limit.Limit)
					require.Equal(t, test.limit, limit.Value)
				}
				require.Zero(t, b.store.MaxOffset())
				return
			}
			require.NoError(t, err)
			require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
			m, err := b.store.LookMessageByOffset(t.Context(), 0)
			require.NoError(t, err)
			if test.stored != "" {
				require.Equal(t, test.stored, m.Properties)
			}
			page, err := b.ListTimers(t.Context(), protocol.ListTimersRequest{})
			require.NoError(t, err)
			if test.due == 0 {
				require.Equal(t, "orders", m.Topic)
				require.Empty(t, page.Timers)
				require.Empty(t, resp.RecallHandle)
				return
			}
			require.Len(t, page.Timers, 1)
			want := protocol.TimerInfo{ID: m.ID(), Topic: "orders", DeliverAt: test.due, Bytes: int(m.StoreSize), Level: page.Timers[0].Level}
			if m.Topic == message.ScheduleTopic {
				want.DeliverAt = m.StoreTimestamp + 10_000
			} else {
				require.Equal(t, message.TimerTopic, m.Topic)
				require.Zero(t, want.Level)
			}
			require.Equal(t, want, page.Timers[0])
		})
	}
}

// TestTimersDoNotGoWithBatches, neither for all nor for one of the messages.
func TestTimersDoNotGoWithBatches(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 1)
	for _, name := range []string{"TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC"} {
		for _, common := range []bool{false, true} {
			timed, err := message.NewProperties(name, "1")
			require.NoError(t, err)
			of := message.Message{Body: []byte("x")}
			req := protocol.SendMessageBatchRequest{}
			req.Message.Topic = "orders"
			if common {
				req.Message.Properties = timed
			} else {
				of.Properties = timed
			}
			req.Message.Body, err = message.AppendBatchElement(nil, &of)
			require.NoError(t, err)
			resp, err := b.SendMessageBatch(t.Context(), req)
			require.Equal(t, protocol.MessageIllegal, resp.Code)
			require.ErrorIs(t, err, message.ErrIllegal)
		}
	}
	require.Zero(t, b.store.MaxOffset())
}

// TestTimedMessages come at their millisecond, in the order of their times, and at
// one time in that of their sends.
func TestTimedMessages(t *testing.T) {
	for _, mode := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openDelayStore(t, t.TempDir(), store.Config{Flush: mode})
				b := openBroker(t, Config{Store: s})
				createTopic(t, b, "orders", 1)
				began := time.Now()
				at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
				sendAt(t, b, "last", at(86_400_007))
				sendAt(t, b, "second", at(1001))
				sendAt(t, b, "third", at(1001))
				sendAt(t, b, "first", at(1000))
				require.Equal(t, []string{"first", "second", "third", "last"}, waiting(t, b))
				for _, step := range []struct {
					until int
					want  []string
				}{
					{999, nil},
					{1000, []string{"first"}},
					{1001, []string{"first", "second", "third"}},
					{86_400_006, []string{"first", "second", "third"}},
					{86_400_007, []string{"first", "second", "third", "last"}},
				} {
					time.Sleep(time.Until(at(step.until)))
					synctest.Wait()
					require.Equal(t, step.want, bodies(t, s, "orders", 0), "at %d ms", step.until)
				}
				require.Empty(t, waiting(t, b))
				require.NoError(t, b.Close())
				require.NoError(t, s.Close())
			})
		})
	}
}

// TestIdleTimersDoNothing: neither file nor clock is touched when nothing waits,
// and no file when what waits is not due.
func TestIdleTimersDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{})
		var looks atomic.Int64
		b := openBroker(t, Config{Store: s, Now: func() time.Time { looks.Add(1); return time.Now() }})
		createTopic(t, b, "orders", 1)
		path := filepath.Join(s.Dir(), "pocketmq", timerFile)
		send(t, b, "orders", 0, "now")
		synctest.Wait()
		before := looks.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, before, looks.Load())
		require.NoFileExists(t, path)

		sendAt(t, b, "later", time.Now().Add(30*24*time.Hour))
		time.Sleep(DefaultOffsetPersistInterval + time.Millisecond)
		synctest.Wait()
		first, err := os.Stat(path)
		require.NoError(t, err)
		time.Sleep(29 * 24 * time.Hour)
		synctest.Wait()
		again, err := os.Stat(path)
		require.NoError(t, err)
		require.True(t, os.SameFile(first, again), "the file was not replaced while a message waits")

		time.Sleep(2 * 24 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"now", "later"}, bodies(t, s, "orders", 0))
		before = looks.Load()
		time.Sleep(30 * 24 * time.Hour)
		synctest.Wait()
		require.Equal(t, before, looks.Load())
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestCancelAndReschedule, also what was sent before a restart.
func TestCancelAndReschedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openDelayStore(t, dir, store.Config{})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		for _, id := range []string{"kept", "cancelled", "earlier", "later", "at once", "cancelled after restart", "later after restart"} {
			sendAt(t, b, id, in(time.Hour))
		}
		require.NoError(t, cancelTimer(t, b, "cancelled"))
		require.NoError(t, reschedule(t, b, "earlier", in(time.Minute)))
		require.NoError(t, reschedule(t, b, "later", in(2*time.Hour)))
		require.NoError(t, reschedule(t, b, "at once", in(-time.Minute)))
		synctest.Wait()
		require.Equal(t, []string{"at once"}, bodies(t, s, "orders", 0))
		for _, id := range []string{"cancelled", "at once", "unknown", ""} {
			require.ErrorIs(t, cancelTimer(t, b, id), protocol.ErrNotPending, id)
			require.ErrorIs(t, reschedule(t, b, id, in(time.Hour)), protocol.QueryNotFound, id)
		}
		require.ErrorIs(t, b.CancelTimer(t.Context(), protocol.CancelTimerRequest{Topic: "others", ID: "kept"}), protocol.ErrNotPending)
		err := reschedule(t, b, "kept", in(DefaultTimerHorizon+time.Millisecond))
		require.ErrorIs(t, err, message.ErrLimit)
		require.Equal(t, protocol.MessageIllegal, protocol.CodeOf(err))
		require.Equal(t, []string{"earlier", "kept", "cancelled after restart", "later after restart", "later"}, waiting(t, b))

		require.NoError(t, b.Close())
		require.Error(t, cancelTimer(t, b, "kept"))
		b = openBroker(t, Config{Store: s})
		require.NoError(t, cancelTimer(t, b, "cancelled after restart"))
		require.NoError(t, reschedule(t, b, "later after restart", in(3*time.Hour)))
		require.NoError(t, reschedule(t, b, "later after restart", in(4*time.Hour)))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"at once", "earlier", "kept"}, bodies(t, s, "orders", 0))
		require.ErrorIs(t, cancelTimer(t, b, "kept"), protocol.ErrNotPending)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"at once", "earlier", "kept", "later", "later after restart"}, bodies(t, s, "orders", 0))

		_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders", Offset: 3})
		due := strconv.FormatInt(time.Now().Add(-2*time.Hour).UnixMilli(), 10)
		require.Equal(t, message.Properties("UNIQ_KEY\x01later\x02CLUSTER\x01DefaultCluster\x02TIMER_OUT_MS\x01"+due+"\x02REAL_TOPIC\x01orders\x02REAL_QID\x010\x02TIMER_DELIVER_MS\x01"+due), ms[0].Properties)
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestCancelWithoutUniqueKey goes by the id that the send returned, and where
// several have one key, all are cancelled.
func TestCancelWithoutUniqueKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBroker(t, Config{})
		createTopic(t, b, "orders", 1)
		resp, err := sendTimed(t, b, "x", message.Properties("").DeliverAfter(time.Hour))
		require.NoError(t, err)
		sendAt(t, b, "twice", time.Now().Add(time.Hour))
		sendAt(t, b, "twice", time.Now().Add(time.Minute))
		require.NoError(t, cancelTimer(t, b, "twice"))
		require.NoError(t, cancelTimer(t, b, resp.MessageID.String()))
		require.Empty(t, waiting(t, b))
		require.NoError(t, b.Close())
		require.NoError(t, b.store.Close())
	})
}

// TestListDelayLevels: behind timed messages, level by level, without what was
// delivered.
func TestListDelayLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBroker(t, Config{})
		createTopic(t, b, "orders", 1)
		for i, level := range []string{"5", "1", "3", "3", "18", "5"} {
			send(t, b, "orders", 0, "x", "DELAY", level, "UNIQ_KEY", fmt.Sprint(level, "-", i))
		}
		sendAt(t, b, "timed", time.Now().Add(time.Hour))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"timed", "3-2", "3-3", "5-0", "5-5", "18-4"}, waiting(t, b))
		require.ErrorIs(t, b.CancelTimer(t.Context(), protocol.CancelTimerRequest{ID: "3-2"}), protocol.ErrNotPending)
		require.NoError(t, b.Close())
		require.NoError(t, b.store.Close())
	})
}

// TestSentBackTimedMessages wait for their level, not for their time.
func TestSentBackTimedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBroker(t, Config{})
		createTopic(t, b, "orders", 1)
		_, err := sendTimed(t, b, "x", message.Properties("").DeliverAfter(time.Hour))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		synctest.Wait()
		at, ok := b.store.CommitLogOffsetInQueue("orders", 0, 0)
		require.True(t, ok)
		for level, topic := range map[int]string{1: "%RETRY%g", -1: "%DLQ%g"} {
			require.NoError(t, b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "g", Offset: at, DelayLevel: level}))
			time.Sleep(1001 * time.Millisecond)
			synctest.Wait()
			require.Equal(t, []string{"x"}, bodies(t, b.store, topic, 0), topic)
		}
		require.NoError(t, b.Close())
		require.NoError(t, b.store.Close())
	})
}

// TestFailedTimers are tried again, ever more seldom, and what can not be delivered
// at all is ended for good.
func TestFailedTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		began, failures := time.Now(), 0
		b.timers.put = func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
			if string(m.Body) == "m1" && time.Since(began) < time.Hour {
				failures++
				return store.PutMessageResult{Status: store.PutServiceNotAvailable}, message.ErrDiskFull
			}
			if string(m.Body) == "m2" {
				return store.PutMessageResult{Status: store.PutMessageIllegal}, fmt.Errorf("x: %w", message.ErrIllegal)
			}
			return s.PutMessage(ctx, m)
		}
		for i := range 4 {
			sendAt(t, b, fmt.Sprint("m", i), began.Add(time.Duration(i+1)*time.Second))
		}
		time.Sleep(10 * time.Second)
		require.NoError(t, cancelTimer(t, b, "m3"), "one that is overdue")
		time.Sleep(time.Hour + delayMaxBackoff)
		synctest.Wait()
		require.Equal(t, []string{"m0", "m1"}, bodies(t, s, "orders", 0))
		require.Less(t, failures, 400)
		require.Empty(t, waiting(t, b))
		require.NoError(t, b.Close())
		require.NoError(t, os.Remove(filepath.Join(s.Dir(), "pocketmq", timerFile)))
		b = openBroker(t, Config{Store: s})
		require.Empty(t, waiting(t, b), "the log says so, too")
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestTimerClockSet: forwards, messages come within a minute; backwards, they wait
// for their time.
func TestTimerClockSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		s := openDelayStore(t, t.TempDir(), store.Config{Now: now})
		b := openBroker(t, Config{Store: s, Now: now})
		createTopic(t, b, "orders", 1)
		sendAt(t, b, "m0", now().Add(time.Hour))
		sendAt(t, b, "m1", now().Add(3*time.Hour))
		synctest.Wait()
		ahead.Store(int64(2 * time.Hour))
		time.Sleep(delayLookAgain)
		synctest.Wait()
		require.Equal(t, []string{"m0"}, bodies(t, s, "orders", 0))
		ahead.Store(-int64(time.Hour))
		require.NoError(t, b.Close())
		b = openBroker(t, Config{Store: s, Now: now})
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"m0"}, bodies(t, s, "orders", 0), "m0 is not delivered again, though it is not due")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"m0", "m1"}, bodies(t, s, "orders", 0))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestTimersModel sends, cancels, reschedules, lets time pass, restarts and
// crashes at random, and compares what is delivered and what waits with a map.
func TestTimersModel(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTimersModel(t, seed, 150) })
		})
	}
}

func testTimersModel(t *testing.T, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 15))
	root := t.TempDir()
	cfg := store.Config{Flush: []store.FlushMode{store.FlushSync, store.FlushAsync}[seed%2], NoIndex: true}
	dir := filepath.Join(root, "0")
	s := openDelayStore(t, dir, cfg)
	open := func() *Broker {
		b := openBroker(t, Config{Store: s, OffsetPersistInterval: time.Duration(1+r.IntN(20)) * time.Second})
		setTail(b, int64(r.IntN(5000)))
		return b
	}
	b := open()
	createTopic(t, b, "orders", 1)
	pending := map[string]int64{}
	delivered := map[string]int64{} // and when
	pass := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
		for id, due := range pending {
			if due <= time.Now().UnixMilli() {
				delivered[id] = due
				delete(pending, id)
			}
		}
	}
	draw := func() string { // one that waits, or else any
		ids := slices.Sorted(maps.Keys(pending))
		if len(ids) == 0 || r.IntN(8) == 0 {
			return fmt.Sprint("m", r.IntN(200))
		}
		return ids[r.IntN(len(ids))]
	}
	sent := 0
	for step := range steps {
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			id, at := fmt.Sprint("m", sent), time.Now().Add(time.Duration(1+r.IntN(20_000))*time.Millisecond)
			sent++
			sendAt(t, b, id, at)
			pending[id] = at.UnixMilli()
		case 4:
			id := draw()
			_, ok := pending[id]
			err := cancelTimer(t, b, id)
			require.Equal(t, ok, err == nil, "cancel %s: %v", id, err)
			delete(pending, id)
		case 5:
			id, at := draw(), time.Now().Add(time.Duration(1+r.IntN(20_000))*time.Millisecond)
			_, ok := pending[id]
			err := reschedule(t, b, id, at)
			require.Equal(t, ok, err == nil, "reschedule %s: %v", id, err)
			if ok {
				pending[id] = at.UnixMilli()
			}
		case 6, 7:
			pass(time.Duration(r.IntN(4000)) * time.Millisecond)
		case 8:
			send(t, b, "others", 0, strings.Repeat("x", 1+r.IntN(2000)))
		case 9:
			switch r.IntN(5) {
			case 0: // restart
				require.NoError(t, b.Close())
				b = open()
			case 1: // without the file
				require.NoError(t, b.Close())
				_ = os.Remove(filepath.Join(s.Dir(), "pocketmq", timerFile))
				b = open()
			case 2: // crash: what the files are now
				synctest.Wait()
				require.NoError(t, s.Flush(t.Context()))
				next := filepath.Join(root, fmt.Sprint(step+1))
				require.NoError(t, os.CopyFS(next, os.DirFS(s.Dir())))
				require.NoError(t, b.Close())
				require.NoError(t, s.Close())
				s = openDelayStore(t, next, cfg)
				b = open()
			}
		}
		pass(0)
		require.ElementsMatch(t, slices.Collect(maps.Keys(pending)), waiting(t, b), "step %d", step)
		require.ElementsMatch(t, slices.Collect(maps.Keys(delivered)), bodies(t, s, "orders", 0), "step %d", step)
	}
	pass(time.Minute)
	require.NoError(t, b.Close())
	require.ElementsMatch(t, slices.Collect(maps.Keys(delivered)), bodies(t, s, "orders", 0))
	require.NoError(t, s.Close())
}
