package barekeys_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/barekeys"
)

func TestParse(t *testing.T) {
	o, err := barekeys.Parse([]byte("{\n\t\"a\" : {0:120,-1:118 , \"10\":1.50e+9\n},\r\n\"b\":[1,\"x\",null,true,false,[ ],{}],\"a\\u0062\":\"\\ud83d\\ude00\\/\\n\\ud83dx\xff\"}\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"a":  map[string]any{"0": json.Number("120"), "-1": json.Number("118"), "10": json.Number("1.50e+9")},
		"b":  []any{json.Number("1"), "x", nil, true, false, []any{}, map[string]any{}},
		"ab": "\U0001F600/\n\uFFFDx\uFFFD",
	}, o)
}

// TestParseNamesThePlace: what is refused, and at which byte.
func TestParseNamesThePlace(t *testing.T) {
	for text, want := range map[string]string{
		``:                                     `ends at byte 0`,
		`[]`:                                   `not an object`,
		`null`:                                 `not an object`,
		`{`:                                    `ends at byte 1`,
		`{"a"`:                                 `ends at byte 4`,
		`{"a":`:                                `ends at byte 5`,
		`{"a":"x\"`:                            `ends at byte 9`,
		`{"a":1]`:                              `']' at byte 6`,
		`{"a":1,}`:                             `'}' at byte 7`,
		`{"a":[1,]}`:                           `']' at byte 8`,
		`{a:1}`:                                `'a' at byte 1`,
		`{"a" 1}`:                              `'1' at byte 5`,
		`{"a":01}`:                             `'1' at byte 6`,
		`{"a":-}`:                              `'}' at byte 6`,
		`{"a":1.}`:                             `'}' at byte 7`,
		`{"a":1e}`:                             `'}' at byte 7`,
		`{"a":nul}`:                            `'n' at byte 5`,
		`{"a":"\x"}`:                           `'x' at byte 7`,
		`{"a":"\u12g4"}`:                       `'u' at byte 7`,
		"{\"a\":\"\n\"}":                       `'\n' at byte 6`,
		"{}\x00":                               `at byte 2`,
		`{}{}`:                                 `at byte 2`,
		"{\"a\":" + strings.Repeat("[", 20000): `more than 10000`,
	} {
		_, err := barekeys.Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// FuzzParse wants what encoding/json makes of the same text with its keys quoted.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{"a":{"0":1,"b":[1,"\"",null,true,-1.5e3]}}`, "{0:1,\n\t1:2\n}", `{"a":1,"a":{}}`, `{"":"\ud800\udc00\ud800\u0041"}`,
		"{\"\xff\xfe\":\"\x7f\"}", `{"a":01}`, `{01:1}`, `{"a":[],"b":{}} x`, `{"a":-0.0E-07}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		have, err := barekeys.Parse(text)
		var want map[string]any
		d := json.NewDecoder(bytes.NewReader(barekeys.Quote(text)))
		d.UseNumber()
		wantErr := d.Decode(&want)
		if wantErr == nil {
			if _, err := d.Token(); err != io.EOF {
				wantErr = io.ErrUnexpectedEOF
			}
		}
		if wantErr != nil || want == nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, have)
	})
}
