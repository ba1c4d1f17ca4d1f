package main

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDisks has a clock of its own: by that of the machine, a disk or a processor that is slow for half a second gets no
// messages for the next ones, and so it is not full when it should be.
func TestDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), t.TempDir(), &out))
		require.Equal(t, `one is missing
  large: works
  small: works
  missing: not open
2000 messages later
  large: works
  small: is full
  missing: not open
the missing one is there, and used
  large: works
  small: is full
  missing: works
all of it received
there is room, and it is used
  large: works
  small: works
  missing: works
all of it received
`, out.String())
	})
}
