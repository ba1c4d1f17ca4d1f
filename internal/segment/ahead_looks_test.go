package segment

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestAheadFollowsTheStride: what is kept ready follows what is written between two calls of Look, which alone has the
// goroutine work.
func TestAheadFollowsTheStride(t *testing.T) {
	const least, window, looks = 128 << 10, 1 << 20, 8
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openIn(t, dir, Config{FileSize: 64 << 20})
		defer func() { require.NoError(t, s.Close()) }()
		a := s.StartAhead(0, AheadConfig{Window: window, Looks: looks, Least: least})
		pos := int64(0)
		ahead := func() int64 {
			synctest.Wait()
			return a.Ready() - pos
		}
		write := func(n int64) {
			require.NoError(t, a.Wait(t.Context(), pos+n))
			pos += n
			a.Move(pos)
		}
		// strides writes n bytes before each Look, and returns the least and the most that was ready in the second half.
		strides := func(count int, n int64) (lowest, highest int64) {
			lowest = window
			for i := range count {
				write(n / 2)
				write(n / 2)
				a.Look()
				if ready := ahead(); i >= count/2 {
					lowest, highest = min(lowest, ready), max(highest, ready)
				}
			}
			return lowest, highest
		}
		require.Positive(t, ahead())
		require.LessOrEqual(t, ahead(), int64(least))

		lowest, highest := strides(64, 64<<10)
		require.GreaterOrEqual(t, lowest, int64(looks*64<<10/2))
		require.LessOrEqual(t, highest, int64(looks*64<<10+minSpan))

		lowest, highest = strides(64, 512<<10)
		require.GreaterOrEqual(t, lowest, int64(window/2))
		require.LessOrEqual(t, highest, int64(window+minSpan), "never more than the window")

		_, highest = strides(1000, 2<<10)
		require.LessOrEqual(t, highest, int64(least+minSpan), "a slow writer gets less again")

		ready := a.Ready()
		pos = ready
		a.Move(pos)
		require.Zero(t, ahead(), "nobody has looked")
		a.Look()
		require.Positive(t, ahead())
	})
}
