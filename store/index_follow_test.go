package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// TestIndexRollsWhileItFollows: files of few entries are filled by what the
// dispatcher of the queues gives to the index, and by the index itself where it has
// to make another one. Nobody waits for it. Every key is found, before and after
// the store was open again.
func TestIndexRollsWhileItFollows(t *testing.T) {
	for _, mode := range bothModes {
		bubble(t, smallConfig(mode), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
			const n = 400
			for i := range n {
				body := fmt.Sprint(i)
				putKeyed(t, s, keyed("k", body, "u"+body, strings.Repeat("w"+body+" ", i%5)))
				if i%7 == 0 {
					time.Sleep(time.Duration(i) * 10 * time.Microsecond)
				}
			}
			rest(s)
			require.Equal(t, s.MaxOffset(), s.index.dispatcher.Position())
			require.Greater(t, len(s.index.files.Files()), n/testIndexEntries)
			requireHealthy(t, s)
			check := func(s *DefaultMessageStore) {
				for i := range n {
					body := fmt.Sprint(i)
					require.Equal(t, []string{body}, find(t, s, KeyQuery{Topic: "k", Key: "u" + body}))
					want := []string{body}
					if i%5 == 0 {
						want = []string{}
					}
					require.Equal(t, want, find(t, s, KeyQuery{Topic: "k", Key: "w" + body}))
				}
			}
			check(s)
			dir := s.dir
			closeStore(t, s)
			s = openStore(t, dir, withFS(smallConfig(mode), fs))
			check(s)
			closeStore(t, s)
		})
	}
}

// TestIndexBehindDoesNotHoldUpQueues: while a file of the index can not be made,
// messages are put and read; then the index has all of them.
func TestIndexBehindDoesNotHoldUpQueues(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		const n = 3 * testIndexEntries
		open := hold(fs, crashfs.OpCreate, "store/index/*")
		defer open()
		var last message.LogOffset
		var all []string
		for i := range n {
			body := fmt.Sprint(i)
			last = putKeyed(t, s, keyed("k", body, "u"+body, "")).LogOffset
			all = append(all, body)
			dispatched(t, s)
		}
		require.Equal(t, all, bodies(t, s, "k", 0))
		require.Less(t, s.index.dispatcher.Position(), last)
		open()
		rest(s)
		for _, body := range all {
			require.Equal(t, []string{body}, find(t, s, KeyQuery{Topic: "k", Key: "u" + body}))
		}
	})
}
