package message

import (
	"bytes"
	"compress/zlib"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func deflated(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestInflate(t *testing.T) {
	text := strings.Repeat("a", 1000)
	body := deflated(t, text)
	for _, test := range []struct {
		name  string
		flag  SysFlag
		body  []byte
		limit int
		want  string
		err   string
	}{
		{"not compressed", 0, []byte("as it is"), 1, "as it is", ""},
		{"compressor without flag", 0x300, []byte("as it is"), 1, "as it is", ""},
		{"zlib", FlagCompressed, body, 1000, text, ""},
		{"zlib, with other bits", FlagCompressed | FlagMultiTags | FlagBornHostV6, body, 1000, text, ""},
		{"zlib, named", FlagCompressed | 0x300, body, 1000, text, ""},
		{"no limit", FlagCompressed, body, math.MaxInt, text, ""},
		{"of nothing", FlagCompressed, deflated(t, ""), 0, "", ""},
		{"something behind", FlagCompressed, append(deflated(t, "x"), "more"...), 10, "x", ""},
		{"LZ4", FlagCompressed | 0x100, body, 1000, "", "compressor 1 is not known"},
		{"zstd", FlagCompressed | 0x200, body, 1000, "", "compressor 2 is not known"},
		{"too long", FlagCompressed, body, 999, "", "inflated body: 1000 bytes, limit is 999"},
		{"much too long", FlagCompressed, body, 10, "", "inflated body: 11 bytes, limit is 10"},
		{"torn", FlagCompressed, body[:len(body)-1], 1000, "", "unexpected EOF"},
		{"wrong checksum", FlagCompressed, append(body[:len(body)-1:len(body)-1], body[len(body)-1]+1), 1000, "", "invalid checksum"},
		{"not zlib", FlagCompressed, []byte("as it is"), 1000, "", "invalid header"},
		{"empty", FlagCompressed, nil, 1000, "", "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := Inflate(test.flag, test.body, test.limit)
			if test.err == "" {
				require.NoError(t, err)
				require.Equal(t, test.want, string(out))
				return
			}
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "compressed body: ")
			require.ErrorContains(t, err, test.err)
			require.Nil(t, out)
		})
	}
	_, err := Inflate(FlagCompressed, body, 999)
	require.ErrorIs(t, err, ErrLimit)
}

// TestInflateBomb wants memory for what is allowed, not for what is claimed.
func TestInflateBomb(t *testing.T) {
	bomb := deflated(t, strings.Repeat("\x00", 64<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Inflate(FlagCompressed, bomb, 64<<10)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrLimit)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}
