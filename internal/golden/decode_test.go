package golden

import (
	"archive/tar"
	"bytes"
	"testing"
)

// TestLoneSurrogate shows which strings of a manifest are refused.
func TestLoneSurrogate(t *testing.T) {
	tests := []struct {
		text string
		want int
	}{
		{`{"a":"plain"}`, -1},
		{`{"a":"\u4e3b\ud83d\ude00\n"}`, -1},
		{`{"a":"\\ud83d"}`, -1}, // a backslash, and then text
		{`{"a":"\\\ud83d"}`, 8},
		{`{"a":"\ud83d"}`, 6},
		{`{"a":"\ude00\ud83d"}`, 6},
		{`{"a":"\ud83d\u0041"}`, 6},
		{`"\u`, -1},
	}
	for _, test := range tests {
		if got := loneSurrogate([]byte(test.text)); got != test.want {
			t.Errorf("%s: %d, want %d", test.text, got, test.want)
		}
	}
}

// TestUnpackStaysInside refuses names that lead out of the directory.
func TestUnpackStaysInside(t *testing.T) {
	for _, name := range []string{"store/../../evil", "/etc/evil", "other/file", "store/a/../../evil"} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := unpack(tar.NewReader(&b), t.TempDir()); err == nil {
			t.Errorf("%s was unpacked", name)
		}
	}
}
