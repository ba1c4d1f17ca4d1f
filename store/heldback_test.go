package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestHeldBack: timed messages keep files whatever removes them, and who asked for
// it is told up to where they were kept; not where something else holds them.
func TestHeldBack(t *testing.T) {
	for _, rule := range []GroupRule{IgnoreGroups, KeepUnconsumed, RemoveConsumed} {
		t.Run(rule.String(), func(t *testing.T) {
			cfg, _, _ := tinyConfig(FlushAsync)
			cfg.Retention.Groups = rule
			s := openStore(t, scratch(t), cfg)
			putTiny(t, s, "t", 20)
			put(t, s, message.TimerTopic, 0, "timed")
			timed := s.MaxOffset()
			putTiny(t, s, "t", 40)
			settle(t, s)
			var mu sync.Mutex
			var lately []message.LogOffset
			s.SetHeldBack(func(to message.LogOffset) {
				mu.Lock()
				defer mu.Unlock()
				lately = append(lately, to)
			})
			consumed := map[string]message.QueueOffset{"t": 60}
			consume := func(topic string, to message.QueueOffset) {
				mu.Lock()
				defer mu.Unlock()
				consumed[topic] = to
			}
			s.SetConsumed(func(topic string, _ int32) (message.QueueOffset, bool) {
				mu.Lock()
				defer mu.Unlock()
				off, ok := consumed[topic]
				return off, ok || topic == message.TimerTopic
			})
			remove := func() (told []message.LogOffset) {
				settle(t, s) // what it looks at by itself
				mu.Lock()
				lately = nil
				mu.Unlock()
				_, err := s.RemoveBefore(t.Context(), s.MaxOffset())
				require.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				return lately
			}
			told := remove()
			require.Less(t, s.MinOffset(), timed)
			require.Positive(t, s.MinOffset())
			require.NotEmpty(t, told)
			require.Equal(t, s.log.FileStart(s.MaxOffset()), told[len(told)-1])
			if rule != IgnoreGroups {
				consume("t", 0)
				require.Empty(t, remove(), "a group holds it, too")
				consume("t", 60)
			}
			start := s.MinOffset()
			s.SetHeldBack(nil)
			require.Empty(t, remove())
			require.Equal(t, start, s.MinOffset())
			consume(message.TimerTopic, 1)
			require.Empty(t, remove())
			require.Greater(t, s.MinOffset(), timed)
			closeStore(t, s)
		})
	}
}

// TestDerivedFiles are of use with the log that they were made from, and only whole.
func TestDerivedFiles(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	path := filepath.Join(s.Dir(), ownDir, "made")
	_, err := s.ReadDerived("made")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, s.WriteDerived("made", []byte("of this")))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "6JlF\x04B\xb2\x90\x00\x00\x00\x00\x00\x00\x00\x00of this", string(b))
	got, err := s.ReadDerived("made")
	require.NoError(t, err)
	require.Equal(t, "of this", string(got))
	require.NoError(t, s.WriteDerived("made", nil))
	got, err = s.ReadDerived("made")
	require.NoError(t, err)
	require.Empty(t, got)

	require.NoError(t, s.newGeneration())
	_, err = s.ReadDerived("made")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "generation 0, the log of 1")
	for _, spoilt := range []string{"", string(b[:15]), string(b[:len(b)-1]), string(b) + "x"} {
		require.NoError(t, os.WriteFile(path, []byte(spoilt), 0o600))
		_, err = s.ReadDerived("made")
		require.ErrorIs(t, err, message.ErrCorrupt)
		require.ErrorContains(t, err, path)
	}
	closeStore(t, s)
	require.ErrorIs(t, s.WriteDerived("made", nil), message.ErrClosed)
}
