package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// indexModel is what the index is: a list of messages with their keys. It walks
// through the life of a store beside it.
type indexModel struct {
	t    *testing.T
	rand *rand.Rand
	cfg  Config // without a file system
	fs   *crashfs.FS
	dir  string
	now  atomic.Int64 // ms

	store    *DefaultMessageStore
	messages []keyedMessage // in the order of the log
	met      map[string]int // what happened, by name
}

type keyedMessage struct {
	topic  string
	keys   []string
	offset message.LogOffset
	time   int64
}

// TestIndexMatchesTheModel: random puts, questions, closes, crashes and losses.
func TestIndexMatchesTheModel(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			met := runIndexModel(t, seed, 300)
			for _, what := range []string{"put", "batch", "found", "found in time", "more than asked for", "reopen"} {
				require.Positive(t, met[what], what)
			}
		})
	}
}

func runIndexModel(t *testing.T, seed uint64, steps int) (met map[string]int) {
	t.Helper()
	m := &indexModel{t: t, rand: rand.New(rand.NewPCG(seed, 77)), met: make(map[string]int)}
	m.cfg = smallConfig(bothModes[seed%2])
	m.cfg.IndexSlots, m.cfg.IndexEntries = 1+m.rand.Int32N(9), 3+m.rand.Int32N(40)
	m.now.Store(1_700_000_000_000)
	m.cfg.Now = func() time.Time { return time.UnixMilli(m.now.Load()) }
	m.cfg.MaxQueryResults = 1 + m.rand.IntN(20)
	m.fs, m.dir = newCrashFS(t)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, %d slots, %d entries", seed, m.cfg.IndexSlots, m.cfg.IndexEntries)
		}
	}()
	m.open()
	for range steps {
		m.step()
	}
	m.close()
	m.open()
	for range steps / 3 {
		m.ask()
	}
	m.close()
	return m.met
}

func (m *indexModel) open() {
	var err error
	m.store, err = Open(m.t.Context(), m.dir, withFS(m.cfg, m.fs))
	require.NoError(m.t, err)
}

func (m *indexModel) close() { require.NoError(m.t, m.store.Close()) }

func (m *indexModel) step() {
	m.now.Add(m.rand.Int64N(700))
	switch n := m.rand.IntN(100); {
	case n < 45:
		m.put()
	case n < 55:
		m.batch()
	case n < 90:
		m.ask()
	case n < 93:
		m.close()
		m.open()
		m.met["reopen"]++
	case n < 95:
		m.close()
		m.lose()
		m.open()
	case n < 97:
		m.leaveAlone()
	default:
		m.crash()
	}
}

// draw makes a message's topic and keys. Few keys, so that they meet; Aa and BB
// have one hash.
func (m *indexModel) draw() (topic string, keys []string, properties message.Properties) {
	topic = []string{"t", "u", "topic-Aa", "topic-BB"}[m.rand.IntN(4)]
	unique := ""
	if m.rand.IntN(3) > 0 {
		unique = fmt.Sprint("u", len(m.messages)%50)
		keys = append(keys, unique)
	}
	var words []string
	for range m.rand.IntN(4) {
		words = append(words, []string{"Aa", "BB", "AaAa", "BBBB", "AaBB", "k", "", strconv.Itoa(m.rand.IntN(9))}[m.rand.IntN(8)])
	}
	for _, w := range words {
		if w != "" {
			keys = append(keys, w)
		}
	}
	return topic, keys, keyProperties(unique, strings.Join(words, " "))
}

func (m *indexModel) put() {
	topic, keys, properties := m.draw()
	msg := inner(topic, m.rand.Int32N(2), strings.Repeat("b", m.rand.IntN(500)))
	msg.Properties = properties
	if m.rand.IntN(10) == 0 {
		msg.SysFlag, keys = message.TransactionRollback, nil
	}
	r, err := m.store.PutMessage(m.t.Context(), msg)
	require.NoError(m.t, err)
	m.messages = append(m.messages, keyedMessage{topic, keys, r.LogOffset, r.StoreTimestamp})
	m.met["put"]++
}

func (m *indexModel) batch() {
	topic, _, _ := m.draw()
	var elements []message.Message
	var added []keyedMessage
	for range 1 + m.rand.IntN(5) {
		_, keys, properties := m.draw()
		elements = append(elements, message.Message{Body: []byte("b"), Properties: properties})
		added = append(added, keyedMessage{topic: topic, keys: keys})
	}
	r, err := m.store.PutMessages(m.t.Context(), batchOf(m.t, topic, 0, elements...))
	require.NoError(m.t, err)
	for i := range added {
		added[i].offset, added[i].time = r.Offsets[i], r.StoreTimestamp
	}
	m.messages = append(m.messages, added...)
	m.met["batch"]++
}

// ask compares an answer with what the list gives.
func (m *indexModel) ask() {
	topic, keys, _ := m.draw()
	q := KeyQuery{Topic: topic, Key: append(keys, "k")[0], MaxNum: m.rand.IntN(10)}
	if len(m.messages) > 0 && m.rand.IntN(2) == 0 {
		at := func() int64 { return m.messages[m.rand.IntN(len(m.messages))].time + m.rand.Int64N(3) - 1 }
		q.Begin, q.End = at(), at()
	}
	var want []message.LogOffset
	for _, msg := range m.messages {
		if msg.topic == topic && slices.Contains(msg.keys, q.Key) && q.Begin <= msg.time && (q.End == 0 || msg.time <= q.End) {
			want = append(want, msg.offset)
		}
	}
	limit := m.cfg.MaxQueryResults
	if q.MaxNum > 0 {
		limit = min(limit, q.MaxNum)
	}
	if len(want) > limit {
		want = want[len(want)-limit:]
		m.met["more than asked for"]++
	}
	if len(want) > 0 {
		m.met["found"]++
		if q.End > 0 {
			m.met["found in time"]++
		}
	}
	indexed(m.t, m.store)
	got, err := offsetsOf(m.store, q)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "%+v", q)
}

// leaveAlone puts while the store has no index.
func (m *indexModel) leaveAlone() {
	m.close()
	m.cfg.NoIndex = true
	m.open()
	for range m.rand.IntN(20) {
		m.put()
	}
	if m.rand.IntN(2) == 0 {
		m.crash()
	}
	m.close()
	m.cfg.NoIndex = false
	m.open()
	m.met["left alone"]++
}

// lose takes away something that is derived.
func (m *indexModel) lose() {
	names := append(indexNames(m.t, m.dir), filepath.Join(m.dir, "index"), filepath.Join(m.dir, ownDir, pointFile), filepath.Join(m.dir, "checkpoint"))
	name := names[m.rand.IntN(len(names))]
	require.NoError(m.t, os.RemoveAll(name))
	m.met["lost"]++
	if m.rand.IntN(2) == 0 {
		require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, abortFile), nil, 0o600))
	}
	m.move(func(to string) error { return os.CopyFS(to, os.DirFS(filepath.Dir(m.dir))) }) // the double does not know what was done behind its back
}

// crash goes on with what a disk may hold after a loss of power.
func (m *indexModel) crash() {
	if m.rand.IntN(2) == 0 {
		_ = m.store.WaitIndexed(context.Background(), m.store.MaxOffset())
	}
	shot, err := m.fs.Snapshot()
	require.NoError(m.t, err)
	m.close()
	m.move(func(to string) error {
		_, err := shot.Image(m.rand.Uint64N(1000), to)
		return err
	})
	m.open()
	m.met["crash"]++
	end := m.store.MaxOffset()
	for len(m.messages) > 0 && m.messages[len(m.messages)-1].offset >= end {
		require.Equal(m.t, FlushAsync, m.cfg.Flush, "an acknowledged message is lost")
		m.messages = m.messages[:len(m.messages)-1]
	}
}

// move puts a new double over a new directory that fill fills.
func (m *indexModel) move(fill func(to string) error) {
	root := scratch(m.t)
	require.NoError(m.t, os.Remove(root))
	require.NoError(m.t, fill(root))
	require.NoError(m.t, m.fs.Close())
	m.fs, m.dir = crashFSOver(m.t, root)
}
