package barekeys_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/barekeys"
)

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		`{0:1}`:                     `{"0":1}`,
		`{0:1,-12:3}`:               `{"0":1,"-12":3}`,
		`{"0":1,"a":{2:3},4:5}`:     `{"0":1,"a":{"2":3},"4":5}`,
		"{\n\t 0 : 1 ,\r\n 7:8\n}":  "{\n\t \"0\" : 1 ,\r\n \"7\":8\n}",
		`{"a":[0,1,{2:[3,4]}],5:6}`: `{"a":[0,1,{"2":[3,4]}],"5":6}`,
		`{"{1:2,\"3:4":5}`:          `{"{1:2,\"3:4":5}`,
		`{"a":"x,1:2"}`:             `{"a":"x,1:2"}`,
		`{"a":1,2`:                  `{"a":1,"2"`,
		`}]{1:`:                     `}]{"1":`,
		`"open \`:                   `"open \`,
		``:                          ``,
	} {
		require.Equal(t, want, string(barekeys.Quote([]byte(text))), text)
	}
}

// FuzzQuote wants JSON to stay what it is.
func FuzzQuote(f *testing.F) {
	f.Add([]byte(`{"a":{"0":1,"b":[1,"\"",null,true,1.5e3]}}`))
	f.Add([]byte("{0:1,\n\t1:2\n}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		quoted := barekeys.Quote(text)
		if json.Valid(text) {
			require.Equal(t, string(text), string(quoted))
		}
	})
}
