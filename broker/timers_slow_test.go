//go:build slow

package broker

import "testing"

// TestMillionTimers is TestManyTimers with a million.
func TestMillionTimers(t *testing.T) { testManyTimers(t, 1_000_000) }
