package main

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReminders has a clock of its own: on that of the machine, what is a second apart may be due at once when its disk
// or its processor is slow, and then it comes in another order.
func TestReminders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), t.TempDir(), &out))
		require.Equal(t, `4 reminders are on disk, and one was cancelled
wake up: ringing, attempt 1
have tea: the bell is broken
go home: ringing, attempt 1
have tea: ringing, attempt 2
call home: ringing, attempt 1
`, out.String())
	})
}
