package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// keyed is a message with a unique key and words.
func keyed(topic, body, unique, words string) *message.MessageExtBrokerInner {
	m := inner(topic, 0, body)
	m.Properties = keyProperties(unique, words)
	return m
}

func keyProperties(unique, words string) message.Properties {
	var p []string
	if unique != "" {
		p = append(p, "UNIQ_KEY\x01"+unique)
	}
	if words != "" {
		p = append(p, "KEYS\x01"+words)
	}
	return message.Properties(strings.Join(p, "\x02"))
}

func putKeyed(t testing.TB, s *DefaultMessageStore, m *message.MessageExtBrokerInner) PutMessageResult {
	t.Helper()
	r, err := s.PutMessage(context.Background(), m)
	require.NoError(t, err)
	return r
}

// find gives the bodies of the answer, of a store that has indexed everything.
func find(t testing.TB, s *DefaultMessageStore, q KeyQuery) []string {
	t.Helper()
	indexed(t, s)
	r, err := s.QueryMessage(context.Background(), q)
	require.NoError(t, err)
	defer r.Release()
	bodies, bytes := []string{}, 0
	for i, v := range r.Messages {
		bodies, bytes = append(bodies, string(v.Body())), bytes+v.Size()
		require.True(t, i == 0 || r.Messages[i-1].LogOffset() < v.LogOffset())
	}
	require.Equal(t, bytes, r.Bytes)
	return bodies
}

func TestQueryByKey(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	putKeyed(t, s, keyed("t", "one", "u1", "order a b"))
	putKeyed(t, s, keyed("t", "two", "u2", "  order   b "))
	putKeyed(t, s, keyed("other", "elsewhere", "u3", "order"))
	putKeyed(t, s, keyed("t", "Aa", "", "Aa"))
	putKeyed(t, s, keyed("t", "BB", "", "BB"))
	putKeyed(t, s, keyed("t", "both", "", "Aa BB Aa"))
	putKeyed(t, s, keyed("t", "again", "u1", "u1"))
	putKeyed(t, s, inner("t", 0, "none"))
	_, err := s.PutMessages(t.Context(), batchOf(t, "batch", 1,
		message.Message{Body: []byte("b0"), Properties: keyProperties("e0", "all")},
		message.Message{Body: []byte("b1")},
		message.Message{Body: []byte("b2"), Properties: keyProperties("e2", "all")}))
	require.NoError(t, err)
	for _, c := range []struct {
		topic, key string
		want       []string
	}{
		{"t", "u1", []string{"one", "again"}},
		{"t", "u2", []string{"two"}},
		{"t", "order", []string{"one", "two"}},
		{"t", "b", []string{"one", "two"}},
		{"t", "a", []string{"one"}},
		{"t", "order a", []string{}},
		{"t", "ord", []string{}},
		{"t", "ORDER", []string{}},
		{"t", "", []string{}},
		{"", "order", []string{}},
		{"nowhere", "order", []string{}},
		{"other", "order", []string{"elsewhere"}},
		{"other", "u1", []string{}},
		{"t", "Aa", []string{"Aa", "both"}},
		{"t", "BB", []string{"BB", "both"}},
		{"batch", "all", []string{"b0", "b2"}},
		{"batch", "e2", []string{"b2"}},
	} {
		require.Equal(t, c.want, find(t, s, KeyQuery{Topic: c.topic, Key: c.key}), "%s %s", c.topic, c.key)
	}
	require.Equal(t, message.JavaHash([]byte("t#Aa")), message.JavaHash([]byte("t#BB")))
}

// TestWhatIsIndexedOfTransactionsAndDelays: all but rolled-back messages, each
// under the topic that it is stored with.
func TestWhatIsIndexedOfTransactionsAndDelays(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	for body, flag := range map[string]message.SysFlag{
		"prepared": message.TransactionPrepared, "commit": message.TransactionCommit, "rollback": message.TransactionRollback,
	} {
		m := keyed("t", body, body, "")
		m.SysFlag = flag
		putKeyed(t, s, m)
	}
	levels, err := message.ParseDelayLevels(message.DefaultDelayLevels)
	require.NoError(t, err)
	delayed := keyed("t", "delayed", "late", "")
	delayed.Properties += "\x02DELAY\x013"
	parked, err := levels.Park(*delayed)
	require.NoError(t, err)
	putKeyed(t, s, &parked)

	require.Equal(t, []string{"prepared"}, find(t, s, KeyQuery{Topic: "t", Key: "prepared"}))
	require.Equal(t, []string{"commit"}, find(t, s, KeyQuery{Topic: "t", Key: "commit"}))
	require.Empty(t, find(t, s, KeyQuery{Topic: "t", Key: "rollback"}))
	require.Empty(t, find(t, s, KeyQuery{Topic: "t", Key: "late"}))
	require.Equal(t, []string{"delayed"}, find(t, s, KeyQuery{Topic: parked.Topic, Key: "late"}))
}

// TestQueryWithinTimes: both ends belong to the window, to the millisecond,
// though entries have whole seconds.
func TestQueryWithinTimes(t *testing.T) {
	var now clock
	now.ms.Store(1_700_000_000_123)
	cfg := smallConfig(FlushAsync)
	cfg.Now = now.now
	s := openStore(t, scratch(t), cfg)
	const step, n = 337, 50
	var times []int64
	for i := range n {
		r := putKeyed(t, s, keyed("t", strconv.Itoa(i), "", "key"))
		times = append(times, r.StoreTimestamp)
		indexed(t, s) // before the clock moves: it names files, too
		now.advance(step * time.Millisecond)
	}
	require.Greater(t, len(s.index.files.Files()), 1)
	all := find(t, s, KeyQuery{Topic: "t", Key: "key"})
	require.Len(t, all, n)
	for i := range n {
		for j := range n {
			for _, d := range []int64{-1, 0, 1} {
				begin, end := times[i]+d, times[j]+d
				var want []string
				for k, at := range times {
					if begin <= at && at <= end {
						want = append(want, all[k])
					}
				}
				got, err := offsetsOf(s, KeyQuery{Topic: "t", Key: "key", Begin: begin, End: end})
				require.NoError(t, err)
				require.Len(t, got, len(want), "%d to %d", begin, end)
				if len(want) > 0 {
					require.Equal(t, want, find(t, s, KeyQuery{Topic: "t", Key: "key", Begin: begin, End: end}))
				}
			}
		}
	}
	for maxNum := range n + 2 {
		want := all
		if maxNum > 0 {
			want = all[max(0, n-maxNum):]
		}
		require.Equal(t, want, find(t, s, KeyQuery{Topic: "t", Key: "key", MaxNum: maxNum}), "the newest")
	}
	require.Equal(t, all[10:20], find(t, s, KeyQuery{Topic: "t", Key: "key", MaxNum: 10, End: times[19]}))
}

// TestQueryIsBounded: by Config.MaxQueryResults, whatever is asked for.
func TestQueryIsBounded(t *testing.T) {
	cfg := smallConfig(FlushAsync)
	cfg.MaxQueryResults = 5
	s := openStore(t, scratch(t), cfg)
	for i := range 20 {
		putKeyed(t, s, keyed("t", strconv.Itoa(i), "", "key"))
	}
	for _, maxNum := range []int{0, 5, 6, math.MaxInt32, -1} {
		require.Equal(t, []string{"15", "16", "17", "18", "19"}, find(t, s, KeyQuery{Topic: "t", Key: "key", MaxNum: maxNum}))
	}
}

// TestQuerySaysHowFarTheIndexIs in every answer.
func TestQuerySaysHowFarTheIndexIs(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	ask := func() *QueryMessageResult {
		indexed(t, s)
		r, err := s.QueryMessage(t.Context(), KeyQuery{Topic: "t", Key: "nothing"})
		require.NoError(t, err)
		require.Empty(t, r.Messages)
		r.Release()
		r.Release() // harmless
		return r
	}
	require.Zero(t, ask().IndexedTimestamp)
	put(t, s, "t", 0, "without keys")
	require.Zero(t, ask().IndexedTimestamp)
	p := putKeyed(t, s, keyed("t", "x", "u", ""))
	put(t, s, "t", 0, "without keys")
	require.Equal(t, p.LogOffset, ask().IndexedOffset)
	require.Equal(t, p.StoreTimestamp, ask().IndexedTimestamp)
}

func TestQueryErrors(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	putKeyed(t, s, keyed("t", "x", "u", ""))
	indexed(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.QueryMessage(ctx, KeyQuery{Topic: "t", Key: "u"})
	require.ErrorIs(t, err, context.Canceled)
	r, err := s.QueryMessage(t.Context(), KeyQuery{Topic: "t", Key: "u"})
	require.NoError(t, err)
	closeStore(t, s)
	require.Equal(t, "x", string(r.Messages[0].Body()), "memory stays valid until it is released")
	r.Release()
	_, err = s.QueryMessage(t.Context(), KeyQuery{Topic: "t", Key: "u"})
	require.ErrorIs(t, err, message.ErrClosed)
	require.ErrorIs(t, s.WaitIndexed(t.Context(), 1<<40), message.ErrClosed)
}

// TestIndexFollowsByItself: nobody waits for it.
func TestIndexFollowsByItself(t *testing.T) {
	for _, mode := range bothModes {
		bubble(t, smallConfig(mode), func(t *testing.T, _ *crashfs.FS, s *DefaultMessageStore) {
			for i := range 3 {
				putKeyed(t, s, keyed("t", strconv.Itoa(i), "u"+strconv.Itoa(i), ""))
				rest(s)
				require.Equal(t, s.MaxOffset(), s.Stats().IndexedEnd)
				require.Zero(t, s.Stats().IndexLag)
				got, err := offsetsOf(s, KeyQuery{Topic: "t", Key: "u" + strconv.Itoa(i)})
				require.NoError(t, err)
				require.Len(t, got, 1)
			}
		})
	}
}

// TestQueriesDuringPuts: an answer has only messages with the key, in order, and
// all that were indexed before the question.
func TestQueriesDuringPuts(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	const writers, each, keys = 2, 300, 5
	var mu sync.Mutex
	known := make(map[string][]message.LogOffset)
	var writing, asking sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				key := strconv.Itoa(i % keys)
				r, err := s.PutMessage(context.Background(), keyed("t", key, fmt.Sprint(w, "-", i), key+" Aa"))
				if err == nil && i%20 == 0 {
					err = s.WaitIndexed(context.Background(), r.LogOffset+message.LogOffset(r.Bytes))
					mu.Lock()
					known[key] = append(known[key], r.LogOffset)
					mu.Unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	for range 2 {
		asking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := askAmidPuts(s, strconv.Itoa(n%keys), &mu, known); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	asking.Wait()
	for key := range keys {
		require.Len(t, find(t, s, KeyQuery{Topic: "t", Key: strconv.Itoa(key)}), DefaultMaxQueryResults)
	}
}

func askAmidPuts(s *DefaultMessageStore, key string, mu *sync.Mutex, known map[string][]message.LogOffset) error {
	mu.Lock()
	before := slices.Clone(known[key])
	mu.Unlock()
	r, err := s.QueryMessage(context.Background(), KeyQuery{Topic: "t", Key: key})
	if err != nil {
		return err
	}
	defer r.Release()
	at := message.LogOffset(-1)
	for _, v := range r.Messages {
		if string(v.Body()) != key || v.LogOffset() <= at {
			return fmt.Errorf("asked for %s: %q at %d, after %d", key, v.Body(), v.LogOffset(), at)
		}
		i := slices.Index(before, v.LogOffset())
		if at = v.LogOffset(); i >= 0 {
			before = slices.Delete(before, i, i+1)
		}
	}
	for _, off := range before {
		if len(r.Messages) < DefaultMaxQueryResults || off > r.Messages[0].LogOffset() {
			return fmt.Errorf("asked for %s: %d was indexed and is not in the answer", key, off)
		}
	}
	return nil
}
