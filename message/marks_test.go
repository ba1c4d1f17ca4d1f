package message

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMarksAreProperties compares the one pass with a search for each, over
// strings of properties with every kind of fault.
func TestMarksAreProperties(t *testing.T) {
	for _, text := range []string{
		"",
		"KEYS=a b;TAGS=t;UNIQ_KEY=u;",
		"UNIQ_KEY=u;WAIT=true;KEYS=a;TAGS=t",
		"KEYS=a;KEYS=b;TAGS=;UNIQ_KEY=",       // the last one counts, and only with a value
		"KEYS=a;KEYS=",                        // not this one
		"KEYS;TAGS;=x;;KEYSS=a;XKEYS=b;K=EYS", // other names, or none
		"KEYS=a=b;TAGS==",                     // the first separator ends the name
		";;KEYS=a;;",
		"TAGS=t",
		"UNIQ_KEY=" + strings.Repeat("u", 300),
	} {
		wire := strings.NewReplacer("=", "\x01", ";", "\x02").Replace(text)
		v := recordWith(t, wire)
		got := v.Marks()
		for name, mark := range map[string][]byte{PropertyKeys: got.Keys, PropertyTags: got.Tags, PropertyUniqueKey: got.UniqueKey} {
			want, _ := v.Property(name)
			require.Equal(t, string(want), string(mark), "%s in %s", name, text)
		}
	}
}

// TestMarksOfManyRecords reads the marks of one record after another.
func TestMarksOfManyRecords(t *testing.T) {
	var m Marks
	m.Read(recordWith(t, "KEYS\x01a\x02TAGS\x01t\x02UNIQ_KEY\x01u"))
	require.Equal(t, Marks{UniqueKey: []byte("u"), Keys: []byte("a"), Tags: []byte("t")}, m)
	m.Read(recordWith(t, "TAGS\x01b"))
	require.Equal(t, Marks{Tags: []byte("b")}, m, "nothing is left of the record before")
}

// FuzzMarks compares the one pass with a search for each.
func FuzzMarks(f *testing.F) {
	f.Add("KEYS\x01a\x02TAGS\x01b\x02UNIQ_KEY\x01c")
	f.Add("KEYS\x01\x02KEYS\x01\x01")
	f.Fuzz(func(t *testing.T, wire string) {
		if len(wire) > MaxPropertiesLength {
			t.Skip()
		}
		v := recordWith(t, wire)
		got := v.Marks()
		for name, mark := range map[string][]byte{PropertyKeys: got.Keys, PropertyTags: got.Tags, PropertyUniqueKey: got.UniqueKey} {
			want, _ := v.Property(name)
			require.Equal(t, string(want), string(mark), name)
		}
	})
}

// recordWith is a record with these bytes for properties.
func recordWith(t testing.TB, wire string) View {
	t.Helper()
	host := Host{netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1}
	return readOK(t, recordOf(MessageExt{Message: Message{Topic: "t", Properties: Properties(wire)}, BornHost: host, StoreHost: host}))
}
