package consumequeue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
)

// TestPutAllOverTheEndOfAFile: units of several files become visible together.
func TestPutAllOverTheEndOfAFile(t *testing.T) {
	q := queue(t, config(t)) // files of 10 units
	require.NoError(t, q.PutAll(0, wanted(0, 7)))
	require.Equal(t, bounds{0, 7}, boundsOf(q))
	require.NoError(t, q.PutAll(7, wanted(7, 32)))
	require.Equal(t, bounds{0, 32}, boundsOf(q))
	require.Equal(t, wanted(0, 32), units(t, q, 0))
}

// TestPutAllAgainAndBeyond: what is there already stays, and a gap becomes blanks,
// as with Put.
func TestPutAllAgainAndBeyond(t *testing.T) {
	q := queue(t, config(t))
	put(t, q, 0, 15)
	require.NoError(t, q.PutAll(12, wanted(12, 18)))
	require.Equal(t, wanted(0, 18), units(t, q, 0))
	require.NoError(t, q.PutAll(20, wanted(20, 22)))
	require.Equal(t, append(append(wanted(0, 18), Blank, Blank), wanted(20, 22)...), units(t, q, 0))
}

// TestPutAllOnAFullDisk shows nothing of the batch, and succeeds later.
func TestPutAllOnAFullDisk(t *testing.T) {
	cfg := config(t)
	fsys := &faultFS{FS: segment.OS}
	cfg.FS = fsys
	q := queue(t, cfg)
	put(t, q, 0, 8)
	fsys.set(failing("create", 1, segment.ErrNoSpace))
	require.ErrorIs(t, q.PutAll(8, wanted(8, 15)), segment.ErrNoSpace)
	require.Equal(t, bounds{0, 8}, boundsOf(q))
	require.Equal(t, wanted(0, 8), units(t, q, 0))
	fsys.set(nil)
	require.NoError(t, q.PutAll(8, wanted(8, 15)))
	require.Equal(t, wanted(0, 15), units(t, q, 0))
}
