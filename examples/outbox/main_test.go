package main

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOutbox has a clock of its own, which stands still while a disk is busy: on that of the machine a slow disk makes the
// broker ask once more about what is being answered.
func TestOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), t.TempDir(), &out))
		require.Equal(t, `order-1: COMMIT_MESSAGE
order-2: ROLLBACK_MESSAGE
order-3: UNKNOW
order-4: UNKNOW
the program starts again
the broker asks about order-3: COMMIT_MESSAGE
the broker asks about order-4: ROLLBACK_MESSAGE
order-1 shipped: true
order-2 shipped: false
order-3 shipped: true
order-4 shipped: false
`, out.String())
	})
}
