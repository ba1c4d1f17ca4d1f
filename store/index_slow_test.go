//go:build slow

package store

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// TestIndexMatchesTheModelForLong takes about a minute. It draws its first seed, or takes that of
// POCKETMQ_TEST_SEED.
func TestIndexMatchesTheModelForLong(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("POCKETMQ_TEST_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("POCKETMQ_TEST_SEED=%d", seed)
	for i := range uint64(20) {
		met := runIndexModel(t, seed+i, 600)
		t.Logf("seed %d: %v", seed+i, met)
		if t.Failed() {
			return
		}
	}
}
