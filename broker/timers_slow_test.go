//go:build slow

package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// TestMillionTimers is TestManyTimers with a million.
func TestMillionTimers(t *testing.T) { testManyTimers(t, 1_000_000) }

// TestTimersModelLong is TestTimersModel with more of all.
func TestTimersModelLong(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTimersModel(t, 100+seed, 400) })
		})
	}
}
