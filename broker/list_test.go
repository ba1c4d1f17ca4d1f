package broker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// TestListWhileTimersMove: what is put further on, or gets another time, is listed
// all the while.
func TestListWhileTimersMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		var want []string
		base := time.Now().Add(time.Hour)
		for i := range 5 {
			want = append(want, fmt.Sprint("m", i))
			sendAt(t, b, want[i], base.Add(time.Duration(i)*time.Second))
		}
		put, looked := b.timers.put, 0
		b.timers.put = func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
			assert.Equal(t, want, waiting(t, b), "before the record is put")
			res, err := put(ctx, m)
			assert.NoError(t, s.WaitDispatched(ctx, s.MaxOffset()))
			assert.Subset(t, waiting(t, b), want, "when it is in the log, and nobody was told yet") // it may come twice
			looked++
			return res, err
		}
		b.timers.heldBack(s.MaxOffset())
		time.Sleep(time.Second) // each is dispatched when it is synced
		synctest.Wait()
		require.Equal(t, 5, looked, "all are put further on")
		require.Equal(t, want, waiting(t, b))
		require.NoError(t, reschedule(t, b, "m1", base.Add(time.Second))) // the same time
		require.Equal(t, want, waiting(t, b))
		require.Equal(t, 6, looked)
		b.timers.put = put
		requireNoneHidden(t, b)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, want, bodies(t, s, "orders", 0))
		require.Empty(t, waiting(t, b))
		requireNoneHidden(t, b)
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

func requireNoneHidden(t *testing.T, b *Broker) {
	t.Helper()
	b.timers.mu.Lock()
	defer b.timers.mu.Unlock()
	require.Empty(t, b.timers.state.index.hidden)
}

// TestHiddenTimers: what is claimed, or was replaced by a record that was not read
// yet, is listed in its order, and nothing stays behind.
func TestHiddenTimers(t *testing.T) {
	x := newTimerIndex()
	offsets := func() (found []message.QueueOffset) {
		for _, d := range x.listFrom(dueTimer{0, 0}, 10) {
			found = append(found, d.offset)
		}
		return found
	}
	a, b, c := timer{1, 30, 0}, timer{2, 10, 0}, timer{3, 20, 0}
	for _, e := range []timer{a, b, c} {
		x.add(e)
	}
	require.True(t, x.claim(b))
	require.True(t, x.claim(a))
	require.Equal(t, []message.QueueOffset{2, 3, 1}, offsets())
	require.Equal(t, []dueTimer{{20, 3}}, x.listFrom(dueTimer{10, 3}, 1), "a page of one, behind the first")
	x.unclaim(a)
	require.True(t, x.replaced(b))
	require.Equal(t, []message.QueueOffset{2, 3, 1}, offsets())
	require.False(t, x.end(2), "the record that replaces it was read")
	x.add(timer{4, 10, 0})
	require.Equal(t, []message.QueueOffset{4, 3, 1}, offsets())
	require.True(t, x.end(3))
	require.False(t, x.replaced(c), "it was read before who put it could say so")
	require.Equal(t, []message.QueueOffset{4, 1}, offsets())
	require.Empty(t, x.hidden)
}

// TestListWhileHalfMessagesMove: one that was rolled forward is listed before it was
// read at its new place, and where the old record is gone while the list is made.
func TestListWhileHalfMessagesMove(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		sendHalf(t, b, "orders", "a")
		sendHalf(t, b, "orders", "b")
		require.Equal(t, []string{"a", "b"}, openBodies(t, b))
		x := b.transactions
		before := x.copyOpen()
		h, _ := x.tryClaim(0)
		require.NotNil(t, h)
		require.NoError(t, x.roll(t.Context(), h))
		now := x.copyOpen()
		require.Len(t, now, 2)
		require.EqualValues(t, 1, now[0].offset)
		require.EqualValues(t, 2, now[1].offset)

		before[0].log = 7 // where nothing is
		m, err := x.lookOpen(t.Context(), &before[0])
		require.NoError(t, err)
		require.Equal(t, "a", string(m.Body))
		require.Equal(t, now[1].log, before[0].log)
		x.wake() // it is read again
		synctest.Wait()
		now[1].log = 7
		x.mu.Lock()
		x.open[2].log = 7
		x.mu.Unlock()
		_, err = x.lookOpen(t.Context(), &now[1])
		require.Error(t, err, "it has not moved")
		x.mu.Lock()
		x.open[2].log = before[0].log
		x.mu.Unlock()
		require.Equal(t, []string{"b", "a"}, openBodies(t, b))
	})
}
