package main

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOrdered has a clock of its own, which stands still while a disk is busy: a slow one lets no time run out.
func TestOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), t.TempDir(), &out))
		require.Equal(t, `order-1: created, paid, packed, shipped
order-2: created, paid, packed, shipped
order-3: created, paid, packed, shipped
order-4: created, paid, packed, shipped
order-5: created, paid, packed, shipped
order-6: created, paid, packed, shipped
`, out.String())
	})
}
