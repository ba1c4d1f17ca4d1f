package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// copies collects copies of a store's directory, as a kill would leave it.
type copies struct {
	root string
	dirs []string
}

// take copies the directory. A kill takes everything at one moment, a copy does
// not: nothing must be on its way.
func (c *copies) take(ctx context.Context, s *store.DefaultMessageStore) error {
	ctx = context.WithoutCancel(ctx)
	if err := errors.Join(s.Flush(ctx), s.WaitDispatched(ctx, s.MaxOffset())); err != nil {
		return err
	}
	dir := filepath.Join(c.root, fmt.Sprint(len(c.dirs)))
	c.dirs = append(c.dirs, dir)
	return copyOpen(dir, s.Dir())
}

// copyOpen copies the directory of a store that is in use.
func copyOpen(to, from string) error {
	err := os.CopyFS(to, os.DirFS(from))
	for errors.Is(err, fs.ErrNotExist) { // a file was renamed meanwhile
		if err = os.RemoveAll(to); err == nil {
			err = os.CopyFS(to, os.DirFS(from))
		}
	}
	return err
}

// TestTimersAfterCrash copies the directory before and after every record that
// delivers, cancels or reschedules, with a file that is written now and then, and
// goes on in each copy: what was cancelled stays so once its record is there, all
// others come, and none comes twice. In half of the cases all messages have the
// same content.
func TestTimersAfterCrash(t *testing.T) {
	for _, mode := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		for _, same := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, " same bodies ", same), func(t *testing.T) { testTimersAfterCrash(t, mode, same) })
		}
	}
}

func testTimersAfterCrash(t *testing.T, mode store.FlushMode, same bool) {
	const n, cancelled, later = 6, 2, 4
	body := func(i int) string {
		if same {
			return "m"
		}
		return fmt.Sprint("m", i)
	}
	var clock atomic.Int64
	clock.Store(1e12)
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	cfg := store.Config{Flush: mode, Now: now, NoIndex: true}
	s := openDelayStore(t, t.TempDir(), cfg)
	b := openBroker(t, Config{Store: s, Now: now})
	setTail(b, 300)
	taken := copies{root: t.TempDir()}
	var cancelledFrom int // the first copy that has the record
	put := func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
		if err := taken.take(ctx, s); err != nil {
			t.Error(err)
		}
		res, err := s.PutMessage(ctx, m)
		if _, ok := m.Properties.Get(message.PropertyTimerDeleteKey); ok {
			cancelledFrom = len(taken.dirs)
		}
		if err := taken.take(ctx, s); err != nil {
			t.Error(err)
		}
		return res, err
	}
	createTopic(t, b, "orders", 1)
	for i := range n {
		p, err := message.NewProperties(message.PropertyUniqueKey, fmt.Sprint("k", i))
		require.NoError(t, err)
		_, err = sendTimed(t, b, body(i), p.DeliverAt(now().Add(time.Second)))
		require.NoError(t, err)
	}
	require.Len(t, waiting(t, b), n)
	b.timers.put = put
	require.NoError(t, cancelTimer(t, b, fmt.Sprint("k", cancelled)))
	require.NoError(t, reschedule(t, b, fmt.Sprint("k", later), now().Add(2*time.Second)))
	clock.Add(2000)
	b.timers.wake()
	require.Eventually(t, func() bool { return s.MaxOffsetInQueue("orders", 0) == n-1 }, time.Minute, time.Millisecond)
	require.NoError(t, b.Close())
	require.NoError(t, s.Close())
	require.Len(t, taken.dirs, 2*(n+1))

	states := map[int]bool{}
	for i, dir := range taken.dirs {
		s := openDelayStore(t, dir, cfg)
		states[len(bodies(t, s, "orders", 0))] = true
		b := openBroker(t, Config{Store: s, Now: now})
		waitForAll(t, b)
		require.NoError(t, b.Close())
		want := map[string]int{}
		for j := range n {
			if j != cancelled || i < cancelledFrom {
				want[body(j)]++
			}
		}
		got := map[string]int{}
		for _, text := range bodies(t, s, "orders", 0) {
			got[text]++
		}
		require.Equal(t, want, got, "copy %d", i)
		require.NoError(t, s.Close())
	}
	require.Greater(t, len(states), n/2, "the copies have different numbers of messages")
}

// waitForAll waits until all is delivered: what is not in the list may just be on
// its way.
func waitForAll(t *testing.T, b *Broker) {
	t.Helper()
	require.Eventually(t, func() bool {
		_ = waiting(t, b) // all that was parked is known
		b.timers.mu.Lock()
		defer b.timers.mu.Unlock()
		return b.timers.state.index.len() == 0
	}, time.Minute, time.Millisecond)
}

// TestRollsAfterCrash: a message that was put further on comes once, with and
// without the file, whatever copy counts.
func TestRollsAfterCrash(t *testing.T) {
	const n = 4
	var clock atomic.Int64
	clock.Store(1e12)
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	cfg := store.Config{Flush: store.FlushAsync, Now: now, NoIndex: true}
	s := openDelayStore(t, t.TempDir(), cfg)
	b := openBroker(t, Config{Store: s, Now: now})
	createTopic(t, b, "orders", 1)
	for i := range n {
		sendAt(t, b, fmt.Sprint("m", i), now().Add(time.Hour))
	}
	require.Len(t, waiting(t, b), n)
	taken := copies{root: t.TempDir()}
	b.timers.put = func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
		if err := taken.take(ctx, s); err != nil {
			t.Error(err)
		}
		return s.PutMessage(ctx, m)
	}
	for range 2 {
		end := s.MaxOffsetInQueue(message.TimerTopic, 0)
		b.timers.heldBack(s.MaxOffset())
		require.Eventually(t, func() bool { return s.MaxOffsetInQueue(message.TimerTopic, 0) == end+n }, time.Minute, time.Millisecond)
		require.Eventually(t, func() bool { return len(waiting(t, b)) == n }, time.Minute, time.Millisecond, "pages of a list that moves")
	}
	require.NoError(t, taken.take(t.Context(), s))
	require.NoError(t, b.Close())
	require.NoError(t, s.Close())
	clock.Add(time.Hour.Milliseconds())
	for i, dir := range taken.dirs {
		s := openDelayStore(t, dir, cfg)
		b := openBroker(t, Config{Store: s, Now: now})
		waitForAll(t, b)
		require.NoError(t, b.Close())
		require.ElementsMatch(t, numbered(0, n), bodies(t, s, "orders", 0), "copy %d", i)
		require.NoError(t, s.Close())
	}
}
