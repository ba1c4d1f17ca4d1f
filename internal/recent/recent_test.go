package recent

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestSlots(t *testing.T) {
	var s Slots[int]
	require.Same(t, Slot(&s, "topic", 7), Slot(&s, "other", -1), "there is one to begin with")
	for _, queues := range []int{1, 64, 65, 1000, most} {
		s.Grow(queues)
		slots := max(fewest, queues)
		seen := map[any]bool{}
		for id := range int32(slots) {
			slot := Slot(&s, "topic", id)
			require.Same(t, slot, Slot(&s, []byte("topic"), id), "whatever the topic is kept in")
			require.Nil(t, slot.Load())
			require.False(t, seen[slot], "queues of one topic have slots of their own")
			seen[slot] = true
		}
	}
	for _, topic := range []string{"", "t", "seven77", "eight888", "nine99999", "much longer than that"} {
		for _, id := range []int32{-1 << 31, -1, 0, 1<<31 - 1} {
			require.NotNil(t, Slot(&s, topic, id), "%q %d", topic, id)
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { Slot(&s, "topic", 7) }))
	topic := []byte("topic")
	require.Zero(t, testing.AllocsPerRun(100, func() { Slot(&s, topic, 7) }))
	n := 1
	Slot(&s, "topic", 7).Store(&n)
	s.Grow(most + 1)
	require.Same(t, &n, Slot(&s, "topic", 7).Load(), "there are no more than these")
}

// TestSlotsOfTopics: topics that are numbered share few slots, whatever their length.
func TestSlotsOfTopics(t *testing.T) {
	for _, form := range []string{"%d", "t%d", "topic-%d", "topic-%08d", "%d-of-the-orders", "orders-%d-retry"} {
		var s Slots[int]
		s.Grow(1000)
		seen := map[any]bool{}
		for i := range 1000 {
			seen[Slot(&s, fmt.Sprintf(form, i), 0)] = true
		}
		require.Greater(t, len(seen), 500, form) // 1,024 slots, taken by chance, would be 640
	}
}

func TestNames(t *testing.T) {
	var n Names
	buf := []byte("orders, and much more")
	part := unsafe.String(&buf[0], 6)
	own := n.Of(part)
	require.Equal(t, "orders", own)
	require.NotSame(t, unsafe.StringData(part), unsafe.StringData(own))
	clear(buf)
	require.Equal(t, "orders", own)
	require.Same(t, unsafe.StringData(own), unsafe.StringData(n.Of("orders")))
	require.Equal(t, "", n.Of(""))
}
