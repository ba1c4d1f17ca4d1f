package main

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRequestReply has a clock of its own, which stands still while a disk is busy: a slow one makes no question time out.
func TestRequestReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), t.TempDir(), &out))
		require.Equal(t, `1 + 2 = 3
20 + 22 = 42
one and one = not a sum
50 questions at once: 50 right answers
3 + 4 = nobody answers
`, out.String())
	})
}
