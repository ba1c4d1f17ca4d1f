package broker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// topicModel is what a topic should be.
type topicModel struct {
	exists bool
	texts  [2][]string            // of each queue, since the topic was made last
	next   [2]message.QueueOffset // number of the next message, over all its lives
	offset [2]message.QueueOffset // of the group, -1 for none
}

// TestDeletedTopicsModel makes, deletes and fills topics at random, commits, and
// opens the directory again after a stop or a kill, with or without the files that
// are derived from the log. After each step everything is as in a simple model.
func TestDeletedTopicsModel(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	var s *store.DefaultMessageStore
	var b *Broker
	reopen := func() {
		s = openStore(t, dir)
		b = openBroker(t, Config{Store: s, NoAutoCreateTopic: true})
	}
	reopen()
	names := []string{"a", "b", "c"}
	models := map[string]*topicModel{}
	for _, name := range names {
		models[name] = &topicModel{offset: [2]message.QueueOffset{-1, -1}}
	}
	for step := range 100 {
		name := names[rng.IntN(len(names))]
		m, id := models[name], rng.Int32N(2)
		switch op := rng.IntN(10); {
		case op < 2: // make
			createTopic(t, b, name, 2)
			m.exists = true
		case op < 4: // delete
			err := b.DeleteTopic(t.Context(), name)
			if m.exists {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, protocol.TopicNotExist)
			}
			*m = topicModel{next: m.next, offset: [2]message.QueueOffset{-1, -1}}
		case op < 8 && m.exists: // send, and sometimes commit
			for range rng.IntN(5) {
				text := fmt.Sprint(name, id, " ", m.next[id])
				resp := send(t, b, name, id, text)
				require.Equal(t, m.next[id], resp.QueueOffset)
				m.next[id]++
				m.texts[id] = append(m.texts[id], text)
			}
			if rng.IntN(2) == 0 {
				m.offset[id] = m.next[id]
				require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
					Group: "g", Topic: name, Sync: true, Offsets: []protocol.QueuePosition{{QueueID: id, Offset: m.offset[id]}},
				}))
			}
		case op == 8: // stop, or kill
			if rng.IntN(2) == 0 {
				image := filepath.Join(t.TempDir(), "image")
				require.NoError(t, copyOpen(image, dir))
				dir = image
			}
			require.NoError(t, b.Close())
			require.NoError(t, s.Close())
			for _, lost := range []string{"consumequeue", "index", "checkpoint", "pocketmq/recovery.json"} {
				if rng.IntN(3) == 0 {
					require.NoError(t, os.RemoveAll(filepath.Join(dir, lost)))
				}
			}
			reopen()
		}
		for name, m := range models {
			m.check(t, b, name, step)
		}
	}
}

func (m *topicModel) check(t *testing.T, b *Broker, name string, step int) {
	t.Helper()
	_, err := b.GetTopic(t.Context(), name)
	require.Equal(t, m.exists, err == nil, "step %d, topic %s: %v", step, name, err)
	for id := range int32(2) {
		if !m.exists {
			_, err := b.GetMaxOffset(t.Context(), name, id)
			require.ErrorIs(t, err, protocol.TopicNotExist)
			continue
		}
		require.Equal(t, m.texts[id], textsOf(t, b, name, id), "step %d, queue %s/%d", step, name, id)
		off, err := b.QueryConsumerOffset(t.Context(), protocol.QueryConsumerOffsetRequest{Group: "g", Topic: name, QueueID: id})
		if m.offset[id] < 0 {
			require.ErrorIs(t, err, protocol.QueryNotFound)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, m.offset[id], off, "step %d, queue %s/%d", step, name, id)
	}
}
