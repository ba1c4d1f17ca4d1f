package store

import (
	"io/fs"
	"os"
	"path/filepath"
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
			var told []message.LogOffset
			s.SetHeldBack(func(to message.LogOffset) { told = append(told, to) })
			consumed := map[string]message.QueueOffset{"t": 60}
			s.SetConsumed(func(topic string, _ int32) (message.QueueOffset, bool) {
				off, ok := consumed[topic]
				return off, ok || topic == message.TimerTopic
			})
			remove := func() {
				told = nil
				_, err := s.RemoveBefore(t.Context(), s.MaxOffset())
				require.NoError(t, err)
			}
			remove()
			require.Less(t, s.MinOffset(), timed)
			require.Positive(t, s.MinOffset())
			require.NotEmpty(t, told)
			require.Equal(t, s.log.FileStart(s.MaxOffset()), told[len(told)-1])
			if rule != IgnoreGroups {
				consumed["t"] = 0
				remove()
				require.Empty(t, told, "a group holds it, too")
				consumed["t"] = 60
			}
			start := s.MinOffset()
			s.SetHeldBack(nil)
			remove()
			require.Equal(t, start, s.MinOffset())
			require.Empty(t, told)
			consumed[message.TimerTopic] = 1
			remove()
			require.Greater(t, s.MinOffset(), timed)
			require.Empty(t, told)
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
