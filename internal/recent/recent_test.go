package recent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlots(t *testing.T) {
	var s Slots[int]
	seen := map[any]bool{}
	for id := range int32(len(s)) {
		slot := Slot(&s, "topic", id)
		require.Same(t, slot, Slot(&s, []byte("topic"), id), "whatever the topic is kept in")
		require.Nil(t, slot.Load())
		require.False(t, seen[slot], "queues of one topic have slots of their own")
		seen[slot] = true
	}
	for _, topic := range []string{"", "t", "other"} {
		for _, id := range []int32{-1 << 31, -1, 0, 1<<31 - 1} {
			require.NotNil(t, Slot(&s, topic, id), "%q %d", topic, id)
		}
	}
	n := 1
	Slot(&s, "topic", 7).Store(&n)
	require.Same(t, &n, Slot(&s, "topic", 7).Load())
}
