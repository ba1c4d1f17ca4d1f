package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// endsAfter is a context that ends when it was looked at so often.
type endsAfter struct {
	context.Context

	looks int
	done  chan struct{}
}

func (c *endsAfter) Done() <-chan struct{} { return c.done }

func (c *endsAfter) Err() error {
	c.looks--
	if c.looks == 0 {
		close(c.done)
	}
	if c.looks <= 0 {
		return context.Canceled
	}
	return nil
}

// TestClosedBeforeCaughtUp closes a broker at each point of finding out which
// transactions are open, again and again, with new half messages in between. What is
// on disk stays right: in the end all that are open are known, each is asked about
// once, and what was committed is there once.
func TestClosedBeforeCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		x := b.transactions
		sendHalf(t, b, "orders", "a")
		committed, rolled := sendHalf(t, b, "orders", "committed"), sendHalf(t, b, "orders", "rolled")
		sendHalf(t, b, "orders", "b")
		require.NoError(t, b.EndTransaction(t.Context(), as(sendHalf(t, b, "orders", "gone"), protocol.TransactionRollback)))
		require.Len(t, openBodies(t, b), 4)
		h, _ := x.tryClaim(rolled.QueueOffset)
		require.NoError(t, x.roll(t.Context(), h))
		x.put = func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
			if m.Topic == protocol.TransactionOpTopic {
				return store.PutMessageResult{Status: store.PutServiceNotAvailable}, message.ErrDiskFull
			}
			return s.PutMessage(ctx, m)
		}
		require.NoError(t, b.EndTransaction(t.Context(), committed), "the op message comes later")
		require.NoError(t, b.Close())
		want := []string{"a", "b", "rolled"}

		cfg := Config{Store: s}.withDefaults()
		early := 0
		for looks := 1; ; looks++ {
			b := openBroker(t, cfg)
			require.NoError(t, b.stopTxRun())
			before := progressText(t, s)
			var err error
			b.transactions, err = openTransactions(b, cfg)
			require.NoError(t, err)
			b.stopTxRun = func() error { return nil }
			if looks <= 4 { // each makes the way longer
				body := numbered(looks, looks+1)[0]
				sendHalf(t, b, "orders", body)
				want = append(want, body)
			}
			x := b.transactions
			require.NoError(t, deliveryLoop(&endsAfter{Context: t.Context(), looks: looks, done: make(chan struct{})}, x, x.kick, "transactions", b.log))
			select {
			case <-x.ready:
				require.NoError(t, b.Close())
			default:
				early++
				_, err := b.OpenTransactions(withTimeout(t, time.Second))
				require.ErrorIs(t, err, context.DeadlineExceeded, "nobody is told before all is known")
				require.NoError(t, b.Close())
				require.Equal(t, before, progressText(t, s))
				continue
			}
			break
		}
		require.GreaterOrEqual(t, early, 4)

		b = openBroker(t, Config{Store: s})
		me := join(t, b, "me")
		after(10 * time.Second)
		require.ElementsMatch(t, want, openBodies(t, b))
		require.ElementsMatch(t, want, me.bodies(), "each is asked about once")
		require.Equal(t, []string{"committed"}, bodies(t, s, "orders", 0))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
