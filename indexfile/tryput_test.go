package indexfile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestTryPutDoesNotWait: it leaves what needs a file, or comes while another one is
// at work, and changes nothing then.
func TestTryPutDoesNotWait(t *testing.T) {
	w := newWorld(t, 10, 6)
	try := func(r *message.DispatchRequest) bool {
		t.Helper()
		files, next := len(w.index.Files()), w.index.NextLogOffset()
		done, err := w.index.TryPut(r)
		require.NoError(t, err)
		require.Len(t, w.index.Files(), files, "no file is made")
		if !done {
			require.Equal(t, next, w.index.NextLogOffset())
			require.NoError(t, w.index.Put(r))
		}
		require.Equal(t, w.end, w.index.NextLogOffset())
		return done
	}
	require.False(t, try(w.record("topic", "u1", "a", 0)), "there is no file yet")
	require.True(t, try(w.record("topic", "u2", "", 0)))
	require.False(t, try(w.record("topic", "u3", " b  c   d ", 0)), "it may not have room")
	require.Len(t, w.index.Files(), 2)
	r := w.record("topic", "u4", "", 0)
	w.index.mu.Lock()
	done, err := w.index.TryPut(r)
	w.index.mu.Unlock()
	require.NoError(t, err)
	require.False(t, done, "somebody else is at work")
	require.True(t, try(r))
	for _, key := range []string{"u1", "a", "u2", "u3", "b", "c", "d", "u4"} {
		require.Len(t, w.query("topic", key), 1, key)
	}
	require.NoError(t, w.index.Close())
	done, err = w.index.TryPut(w.record("topic", "u5", "", 0))
	require.False(t, done)
	if err != nil {
		require.ErrorIs(t, err, message.ErrClosed)
	}
}

// TestTryPutIsPut: files that both have written are those that Put alone writes.
func TestTryPutIsPut(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	w, alone := newWorld(t, 10, 12), newWorld(t, 10, 12)
	tried := 0
	for i := range 300 {
		unique, keys := "", strings.Repeat(fmt.Sprintf("k%d ", rnd.IntN(40)), rnd.IntN(4))
		if rnd.IntN(3) > 0 {
			unique = fmt.Sprint("u", i)
		}
		flag := []message.SysFlag{message.TransactionNone, message.TransactionPrepared, message.TransactionRollback}[rnd.IntN(3)]
		done, err := w.index.TryPut(w.record("topic", unique, keys, flag))
		require.NoError(t, err)
		if done {
			tried++
		} else {
			r := w.log[w.order[i]]
			require.NoError(t, w.index.Put(&r))
		}
		require.NoError(t, alone.index.Put(alone.record("topic", unique, keys, flag)))
		w.clock, alone.clock = w.clock+7, alone.clock+7
	}
	require.Greater(t, tried, 100)
	require.Greater(t, len(w.index.Files()), 5)
	require.Equal(t, names(t, alone.cfg.Dir), names(t, w.cfg.Dir), "seed %d", seed)
	require.Equal(t, images(t, alone.cfg.Dir), images(t, w.cfg.Dir), "seed %d", seed)
}
