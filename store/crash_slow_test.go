//go:build slow

package store

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// TestPowerLossForLong is TestPowerLossWhileWriting and
// TestPowerLossWhileRecovering with at least 10,000 images. The seed is that of
// POCKETMQ_TEST_SEED, or drawn, and printed.
func TestPowerLossForLong(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("POCKETMQ_TEST_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("POCKETMQ_TEST_SEED=%d", seed)
	var total yield
	for round := uint64(0); total.images < 10_000 && !t.Failed(); round++ {
		for _, mode := range bothModes {
			sc := newScene(t, mode, scratch(t), seed+round)
			sc.every = 3
			sc.play(t, 40)
			y := sc.images(t, seeds(5))
			t.Logf("round %d, %v, %d moments: %+v", round, mode, len(sc.moments), y)
			total.sum(y)
			y, times := powerLossWhileRecovering(t, sc, 10, 1, 0, 2, 3)
			t.Logf("round %d, %v, %d recoveries: %+v", round, mode, times, y)
			total.sum(y)
		}
	}
	t.Logf("POCKETMQ_TEST_SEED=%d: %d images: %+v", seed, total.images, total)
}

// TestPowerLossWithManyQueuesForLong is TestPowerLossWithMoreQueuesThanFiles in
// both modes, with more messages and moments.
func TestPowerLossWithManyQueuesForLong(t *testing.T) {
	for _, mode := range bothModes {
		for seed := range uint64(3) {
			powerLossWithManyQueues(t, mode, seed, 100, 60)
		}
	}
}
