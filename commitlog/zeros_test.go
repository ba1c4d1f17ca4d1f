package commitlog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestLastRecordIsNeverTakenForTorn, whatever zeros its properties have and
// wherever it ends, alone and as the last of a batch.
func TestLastRecordIsNeverTakenForTorn(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		for _, zeros := range []int{1, 7, 511} {
			for pad := range 520 {
				if pad%60 != 0 && (91+pad+3+zeros)%512 > 4 {
					continue // ends near a border of sectors are worth it
				}
				cfg := config(t, staged)
				cfg.FileSize = 4096
				l := start(t, cfg)
				m := &message.MessageExt{Message: message.Message{Topic: "T", Body: []byte(strings.Repeat("b", pad)),
					Properties: message.Properties("k\x01v" + strings.Repeat("\x00", zeros))}}
				p, err := l.Append(t.Context(), m, NewCounter(0))
				require.NoError(t, err)
				require.NoError(t, l.Flush())
				require.NoError(t, l.Close())
				got := recoverLog(t, load(t, cfg), RecoverConfig{})
				require.Equal(t, p.End(), got.End, "%d zeros behind %d bytes", zeros, pad)
			}
		}
	})
}

// TestPropertiesKeepTheirValues: only a separator is added, and only where they
// end in a zero.
func TestPropertiesKeepTheirValues(t *testing.T) {
	for given, want := range map[message.Properties]message.Properties{
		"": "", "k\x01v": "k\x01v", "k\x01v\x02": "k\x01v\x02", "k\x01\x00v": "k\x01\x00v",
		"k\x01v\x00": "k\x01v\x00\x02", "\x00": "\x00\x02", "k\x01v\x02a\x01\x00\x00": "k\x01v\x02a\x01\x00\x00\x02",
	} {
		got, err := legible(given)
		require.NoError(t, err)
		require.Equal(t, want, got)
		for name, v := range given.All() {
			kept, ok := got.Get(name)
			require.True(t, ok)
			require.Equal(t, v, kept)
		}
	}
}
