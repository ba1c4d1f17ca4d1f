//go:build slow

package store

import "testing"

// TestEveryByte is TestOneByteAnywhere for every byte of every file, each in
// every way.
func TestEveryByte(t *testing.T) {
	r := newRotten(t)
	cases := r.cases(1, false)
	r.run(t, cases)
	t.Logf("%d cases", len(cases))
}
