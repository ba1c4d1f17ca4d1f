package commitlog

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// TestRemoveBefore removes whole files, never the one that is written to, and
// tells from where the log is there.
func TestRemoveBefore(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		l := start(t, config(t, staged))
		c := NewCounter(0)
		for i := range 9 { // two in a file of 1024
			add(t, l, c, 500, byte('A'+i))
		}
		require.EqualValues(t, 4096, l.Active())
		list := l.FileList()
		require.GreaterOrEqual(t, len(list), 5)
		for i, f := range list[:5] {
			require.EqualValues(t, i*1024, f.Base)
			require.EqualValues(t, (i+1)*1024, f.End)
			require.EqualValues(t, 1024, f.Size())
			require.FileExists(t, f.Path)
		}
		removed, err := l.RemoveBefore(2048)
		require.NoError(t, err)
		require.Empty(t, removed, "what is not synced stays")
		require.NoError(t, l.Flush())
		held := l.Acquire(0)
		defer held.Unpin()
		removed, err = l.RemoveBefore(2047)
		require.NoError(t, err)
		require.Equal(t, []string{list[0].Path}, removed)
		require.EqualValues(t, 1024, l.MinOffset())
		require.Nil(t, l.Acquire(0))
		require.NoError(t, l.View(held, 0, func(v message.View) { require.Equal(t, byte('A'), v.Body()[0]) }))
		removed, err = l.RemoveBefore(1 << 40)
		require.NoError(t, err)
		require.Len(t, removed, 3)
		require.EqualValues(t, 4096, l.MinOffset())
		require.EqualValues(t, 4596, add(t, l, c, 500, 'Z').LogOffset)
	})
}

// TestPermit decides about each new file, and is asked again.
func TestPermit(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		most := 3
		var opened atomic.Pointer[Log] // files are made before start returns
		refused := fmt.Errorf("not now: %w", segment.ErrNoSpace)
		cfg.Permit = func() error {
			if l := opened.Load(); l != nil && l.Files() >= most {
				return refused
			}
			return nil
		}
		l := start(t, cfg)
		opened.Store(l)
		c := NewCounter(0)
		for i := range 6 {
			add(t, l, c, 500, byte('A'+i))
		}
		for range 2 {
			_, err := l.Append(t.Context(), msg(500, 'G'), c)
			require.ErrorIs(t, err, refused)
		}
		require.NoError(t, l.Flush())
		_, err := l.RemoveBefore(1024)
		require.NoError(t, err)
		p := add(t, l, c, 500, 'G')
		require.EqualValues(t, 3072, p.LogOffset)
		require.EqualValues(t, 6, p.QueueOffset)
	})
}

// TestPermitWithAnotherReason is as if the file could not be made.
func TestPermitWithAnotherReason(t *testing.T) {
	cfg := config(t, false)
	cfg.Permit = func() error { return errInjected }
	l := start(t, cfg)
	_, err := l.Append(t.Context(), msg(500, 'A'), NewCounter(0))
	require.ErrorIs(t, err, ErrNoSegment)
	require.True(t, errors.Is(err, errInjected))
}

// TestRolled is told of each file but the first.
func TestRolled(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		rolled := 0
		cfg.Rolled = func() { rolled++ }
		l := start(t, cfg)
		c := NewCounter(0)
		for i := range 7 {
			add(t, l, c, 500, byte('A'+i))
			require.Equal(t, i/2, rolled)
		}
	})
}
