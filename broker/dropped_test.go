package broker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// TestDroppedWithTheirTopic: what waits for a topic that is deleted is dropped when
// it is due, whether or not the topic was made again meanwhile, and counted. What is
// sent to the new one comes, and so does what others get.
func TestDroppedWithTheirTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := openDelayStore(t, t.TempDir(), store.Config{})
		b := openBroker(t, Config{Store: s, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for _, topic := range []string{"orders", "again", "gone"} {
			createTopic(t, b, topic, 1)
			for i := range 3 {
				send(t, b, topic, 0, topic, "DELAY", "5") // 1 minute
				_, err := sendTimedTo(t, b, topic, topic+" timed", time.Now().Add(time.Minute+time.Duration(i)))
				require.NoError(t, err)
			}
		}
		_, err := sendTimedTo(t, b, "gone", "moved", time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.NoError(t, b.DeleteTopic(t.Context(), "gone"))
		require.NoError(t, b.DeleteTopic(t.Context(), "again"))
		createTopic(t, b, "again", 1)
		send(t, b, "again", 0, "new", "DELAY", "5")
		_, err = sendTimedTo(t, b, "again", "new timed", time.Now().Add(time.Minute))
		require.NoError(t, err)

		page, err := b.ListTimers(t.Context(), protocol.ListTimersRequest{})
		require.NoError(t, err)
		require.Len(t, page.Timers, 2*(3+1), "what is gone is not listed")
		require.ErrorIs(t, cancelTimer(t, b, "moved"), protocol.ErrNotPending)
		require.ErrorIs(t, b.RescheduleTimer(t.Context(), protocol.RescheduleTimerRequest{
			CancelTimerRequest: protocol.CancelTimerRequest{ID: "moved"}, DeliverAt: time.Now().UnixMilli(),
		}), protocol.ErrNotPending)
		require.Zero(t, b.Dropped())

		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.ElementsMatch(t, []string{"orders", "orders", "orders", "orders timed", "orders timed", "orders timed"}, bodies(t, s, "orders", 0))
		require.ElementsMatch(t, []string{"new", "new timed"}, bodies(t, s, "again", 0))
		require.Empty(t, bodies(t, s, "gone", 0))
		require.EqualValues(t, 2*2*3, b.Dropped())
		for _, topic := range []string{"gone", "again"} {
			require.Equal(t, 1, strings.Count(log.String(), "message dropped that had waited: its topic was deleted; told once for each topic, and counted\" topic="+topic), log.String())
		}
		require.NotContains(t, log.String(), "passed over")

		require.NoError(t, b.DeleteTopic(t.Context(), "again"))
		createTopic(t, b, "again", 1)
		require.NoError(t, b.Close())
		b = openBroker(t, Config{Store: s})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 1, b.Dropped(), "after a restart: what is due later")
		require.Empty(t, bodies(t, s, "gone", 0))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestNotDroppedWithoutADeletion: a topic that is unknown for another reason gets
// what waits for it, and is taken up by the next broker.
func TestNotDroppedWithoutADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		send(t, b, "orders", 0, "m", "DELAY", "1")
		require.NoError(t, b.Close())
		require.NoError(t, s.WriteConfig(topicsFile, []byte("{}")))
		b = openBroker(t, Config{Store: s})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"m"}, bodies(t, s, "orders", 0))
		require.Zero(t, b.Dropped())
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestDroppedAfterKill: where some messages of a level were dropped, and nothing of
// it was saved, those that were delivered are found in the log all the same.
func TestDroppedAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{})
		b := openBroker(t, Config{Store: s, OffsetPersistInterval: 24 * time.Hour})
		createTopic(t, b, "orders", 1)
		createTopic(t, b, "gone", 1)
		for i := range 20 {
			send(t, b, "gone", 0, "x", "DELAY", "5")
			send(t, b, "orders", 0, numbered(0, 20)[i], "DELAY", "5")
		}
		require.NoError(t, b.DeleteTopic(t.Context(), "gone"))
		time.Sleep(30 * time.Second)
		before := delayFileText(t, s)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, numbered(0, 20), bodies(t, s, "orders", 0))
		marked := delayFileText(t, s) // as of the first delivery
		require.NotEqual(t, before, marked)
		require.NotContains(t, marked, "5:40", "what was delivered is not saved")
		require.NoError(t, b.Close())

		require.NoError(t, s.WriteConfig(delayFile, []byte(marked)))
		b = openBroker(t, Config{Store: s})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, numbered(0, 20), bodies(t, s, "orders", 0), "none twice")
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestDroppedInsteadOfRolled: what is gone is not put further on, so that it does
// not come back with a topic that was made again.
func TestDroppedInsteadOfRolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		sendAt(t, b, "m", time.Now().Add(time.Hour))
		require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
		createTopic(t, b, "orders", 1)
		b.timers.heldBack(s.MaxOffset())
		synctest.Wait()
		require.EqualValues(t, 1, b.Dropped())
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Empty(t, bodies(t, s, "orders", 0))
		require.EqualValues(t, 1, b.Dropped())
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

func sendTimedTo(t *testing.T, b *Broker, topic, id string, at time.Time) (protocol.SendMessageResponse, error) {
	t.Helper()
	p, err := message.NewProperties(message.PropertyUniqueKey, id)
	require.NoError(t, err)
	return b.SendMessage(t.Context(), protocol.SendMessageRequest{
		Message: message.Message{Topic: topic, Body: []byte(id), Properties: p.DeliverAt(at)},
	})
}
