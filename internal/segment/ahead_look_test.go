package segment

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestAheadWorksWhenItIsToLook: a writer that only moves is served when it looks, or waits.
func TestAheadWorksWhenItIsToLook(t *testing.T) {
	const window = 256 << 10
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openIn(t, dir, Config{FileSize: 64 << 20})
		defer func() { require.NoError(t, s.Close()) }()
		a := s.StartAhead(0, AheadConfig{Window: window})
		ready := func() int64 {
			synctest.Wait()
			return a.Ready()
		}
		pos := ready()
		require.Positive(t, pos)
		for range 10 {
			a.Move(pos)
			require.Equal(t, pos, ready(), "nobody has looked")
			a.Look()
			require.Greater(t, ready(), pos)
			require.LessOrEqual(t, ready(), pos+window)
			a.Look()
			pos = ready()
		}
		a.Move(pos)
		require.NoError(t, a.Wait(t.Context(), pos+1))
		require.Greater(t, ready(), pos)
	})
}
