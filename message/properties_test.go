package message

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// parsed is what readers see of p, the last of each name.
func parsed(p Properties) map[string]string {
	return maps.Collect(p.All())
}

func mustProperties(t testing.TB, namesAndValues ...string) Properties {
	t.Helper()
	p, err := NewProperties(namesAndValues...)
	require.NoError(t, err)
	return p
}

// The expected maps were computed with Java 17 and RocketMQ 4.9.3's
// MessageDecoder.string2messageProperties.
func TestPropertiesParseAsInRocketMQ(t *testing.T) {
	type m = map[string]string
	for in, want := range map[string]m{
		"":                                  {},
		"\x01":                              {},
		"\x02":                              {},
		"\x01\x02":                          {},
		"\x02\x02\x02":                      {},
		"a":                                 {},
		"ab":                                {},
		"abc":                               {},
		"a\x01":                             {},
		"\x01b":                             {},
		"a\x01b":                            {"a": "b"},
		"a\x01b\x02":                        {"a": "b"},
		"a\x01b\x02\x02":                    {"a": "b"},
		"\x02a\x01b":                        {"a": "b"},
		"a\x01b\x02c\x01d":                  {"a": "b", "c": "d"},
		"a\x01b\x02c\x01d\x02":              {"a": "b", "c": "d"},
		"a\x01\x01":                         {"a": "\x01"},
		"a\x01\x01b":                        {"a": "\x01b"},
		"a\x01b\x01":                        {"a": "b\x01"},
		"a\x01b\x01c":                       {"a": "b\x01c"},
		"\x01\x01b":                         {},
		"\x01a\x01b":                        {},
		"\x01\x01\x01":                      {},
		"a\x01b\x02a\x01c":                  {"a": "c"},
		"a\x01b\x02a\x01":                   {"a": "b"},
		"a\x01\x02b\x01c":                   {"b": "c"},
		"ab\x02c\x01d":                      {"c": "d"},
		"abc\x02d\x01e":                     {"d": "e"},
		"novalue\x02k\x01v":                 {"k": "v"},
		"k\x01v\r\n\t\x00":                  {"k": "v\r\n\t\x00"},
		"k\x01=;,":                          {"k": "=;,"},
		"k \x01 v ":                         {"k ": " v "},
		"\u8ba2\x01\u5355":                  {"\u8ba2": "\u5355"},
		"a\x01\U0001F600":                   {"a": "\U0001F600"},
		"a\x01b\x02\x01x\x02c\x01d":         {"a": "b", "c": "d"},
		"a\x01b\x02c\x01\x01d\x02e\x01f":    {"a": "b", "c": "\x01d", "e": "f"},
		"a\x01b\x02c":                       {"a": "b"},
		"a\x01b\x02cccc":                    {"a": "b"},
		"TAGS\x01TagA\x02KEYS\x01k1 k2\x02": {"TAGS": "TagA", "KEYS": "k1 k2"},
	} {
		p := Properties(in)
		require.Equal(t, want, parsed(p), "%q", in)
		for name, value := range want {
			got, ok := p.Get(name)
			require.True(t, ok, "%q", in)
			require.Equal(t, value, got, "%q", in)
		}
		for _, name := range []string{"", "\x01", "\x02", "absent"} {
			_, ok := p.Get(name)
			require.False(t, ok, "%q in %q", name, in)
		}

		// The same bytes in a record.
		v := readOK(t, recordOf(MessageExt{Message: Message{Topic: "t", Properties: p}}))
		for name, value := range want {
			got, ok := v.Property(name)
			require.True(t, ok, "%q", in)
			require.Equal(t, value, string(got), "%q", in)
		}
	}
}

func TestNewPropertiesWritesTheLiteralBytes(t *testing.T) {
	p := mustProperties(t, "KEYS", "k1", "TAGS", "TagA")
	require.Equal(t, mustHex("4B 45 59 53 01 6B 31 02 54 41 47 53 01 54 61 67 41"), []byte(p))
	require.Equal(t, Properties(""), mustProperties(t))
}

func TestNewPropertiesRefusesNameWithoutValue(t *testing.T) {
	p, err := NewProperties("a", "b", "c")
	require.Empty(t, p)
	var illegal *IllegalError
	require.ErrorAs(t, err, &illegal)
	require.Equal(t, "properties", illegal.Field)

	p, err = NewProperties("a", "b", "c", "")
	require.Empty(t, p, "nothing of a list that is refused")
	require.ErrorIs(t, err, ErrIllegal)
}

func TestAllYieldsDuplicatesInOrderOfTheBytes(t *testing.T) {
	p := Properties("b\x011\x02junk\x02a\x012\x02b\x013\x02")
	var got []string
	for n, v := range p.All() {
		got = append(got, n+"="+v)
	}
	require.Equal(t, []string{"b=1", "a=2", "b=3"}, got)

	got = nil
	for n := range p.All() {
		got = append(got, n)
		break
	}
	require.Equal(t, []string{"b"}, got, "a loop may end early")
}

func TestWithSetsOrAppends(t *testing.T) {
	for _, c := range []struct{ name, p, set, value, want string }{
		{"first property", "", "a", "1", "a\x011"},
		{"new name goes to the end", "a\x011", "b", "2", "a\x011\x02b\x012"},
		{"after a trailing separator", "a\x011\x02", "b", "2", "a\x011\x02b\x012"},
		{"existing name keeps its place", "a\x011\x02b\x012\x02c\x013", "b", "9", "a\x011\x02b\x019\x02c\x013"},
		{"same value", "a\x011", "a", "1", "a\x011"},
		{"duplicates become one, in the first place", "a\x011\x02b\x012\x02a\x013", "a", "9", "a\x019\x02b\x012"},
		{"other duplicates stay", "b\x011\x02b\x012\x02a\x013", "a", "9", "b\x011\x02b\x012\x02a\x019"},
		{"what does not parse stays when the name is new", "junk\x02a\x01", "b", "2", "junk\x02a\x01\x02b\x012"},
		{"what does not parse goes when the name exists", "junk\x02a\x011\x02c\x01\x02", "a", "9", "a\x019"},
		{"name that is a prefix of another", "aa\x011", "a", "2", "aa\x011\x02a\x012"},
		{"value may hold the name separator", "", "k", "v\x01w", "k\x01v\x01w"},
		{"value may be the name separator", "", "k", "\x01", "k\x01\x01"},
		{"control characters", "", "K", "v\r\n\t\x00", "K\x01v\r\n\t\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Properties(c.p).With(c.set, c.value)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			v, ok := got.Get(c.set)
			require.True(t, ok)
			require.Equal(t, c.value, v)
		})
	}
}

func TestWithoutRemovesEveryPropertyOfTheName(t *testing.T) {
	for _, c := range []struct{ name, p, remove, want string }{
		{"only one", "a\x011", "a", ""},
		{"first", "a\x011\x02b\x012", "a", "b\x012"},
		{"middle", "a\x011\x02b\x012\x02c\x013", "b", "a\x011\x02c\x013"},
		{"last", "a\x011\x02b\x012", "b", "a\x011"},
		{"last, with trailing separator", "a\x011\x02b\x012\x02", "b", "a\x011"},
		{"duplicates", "a\x011\x02b\x012\x02a\x013", "a", "b\x012"},
		{"absent: unchanged to the byte", "junk\x02a\x011\x02", "b", "junk\x02a\x011\x02"},
		{"empty", "", "a", ""},
		{"empty name", "a\x011", "", "a\x011"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Properties(c.p).Without(c.remove)
			require.Equal(t, c.want, string(got))
			_, ok := got.Get(c.remove)
			require.False(t, ok)
		})
	}
}

func TestWithRefusesWhatWouldReadBackDifferently(t *testing.T) {
	for _, c := range []struct{ name, value, field, shown, reason string }{
		{"", "v", "property name", "", "is empty"},
		{"a\x01b", "v", "property name", "a\x01b", "has a separator byte (0x01 or 0x02)"},
		{"a\x02b", "v", "property name", "a\x02b", "has a separator byte (0x01 or 0x02)"},
		{"\x02", "v", "property name", "\x02", "has a separator byte (0x01 or 0x02)"},
		{"\x01", "v", "property name", "\x01", "has a separator byte (0x01 or 0x02)"},
		{"\xff", "v", "property name", "\xff", "is not UTF-8"},
		{"a", "", "property value", "", "of a is empty: it would not be read back"},
		{"a", "v\x02w", "property value", "v\x02w", "of a has the separator byte 0x02"},
		{"a", "\x02", "property value", "\x02", "of a has the separator byte 0x02"},
		{"a", "\xff\xfea", "property value", "\xff\xfea", "of a is not UTF-8"},
		{"a", "\xed\xa0\x80", "property value", "\xed\xa0\x80", "of a is not UTF-8"},
		{"a", "\xc0\x80", "property value", "\xc0\x80", "of a is not UTF-8"},
	} {
		p := Properties("x\x01y\x02")
		got, err := p.With(c.name, c.value)
		require.Equal(t, p, got, "unchanged")
		require.Equal(t, &IllegalError{Field: c.field, Value: c.shown, Reason: c.reason}, err)
		require.ErrorIs(t, err, ErrIllegal)
		require.False(t, errors.Is(err, ErrLimit))
	}
}

func TestLongValuesAreShortenedInErrors(t *testing.T) {
	_, err := Properties("").With("a", strings.Repeat("x", 100_000)+"\x02")
	require.EqualError(t, err, `property value "`+strings.Repeat("x", 60)+`…": of a has the separator byte 0x02`)
}

func TestValuesOf60BytesAreShownWhole(t *testing.T) {
	value := strings.Repeat("x", 59) + "\x02"
	_, err := Properties("").With("a", value)
	require.Equal(t, &IllegalError{Field: "property value", Value: value, Reason: "of a has the separator byte 0x02"}, err)
}

// A caller can set thousands of properties; changing one must not copy the
// others once each.
func TestChangingOneOfManyPropertiesCopiesThemOnce(t *testing.T) {
	p := Properties(strings.Repeat("a\x01b\x02", 8000) + "DELAY\x011")
	n := totalAlloc(func() {
		q, err := p.With("DELAY", "2")
		require.NoError(t, err)
		require.Len(t, string(q), len(p))
		require.Len(t, string(q.Without("DELAY")), len(p)-len("\x02DELAY\x011"))
	})
	require.Less(t, n, uint64(1<<20))
}

func TestPropertiesAreSharedAcrossGoroutines(t *testing.T) {
	p := mustProperties(t, "KEYS", "k", "TAGS", "TagA", "n", "0")
	before := strings.Clone(string(p))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			value := strings.Repeat("v", i+1)
			for range 100 {
				q, err := p.With("n", value)
				if got, _ := q.Get("n"); err != nil || got != value {
					t.Errorf("n is %q, %v", got, err)
				}
				if got, _ := p.Get("n"); got != "0" {
					t.Errorf("the shared n is %q", got)
				}
				if _, ok := p.Without("TAGS").Get("TAGS"); ok {
					t.Error("TAGS is still there")
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, before, string(p))
}

func TestWithDoesNotKeepTheBytesItCameFrom(t *testing.T) {
	batch, err := AppendBatchElement(nil, &Message{Properties: "a\x011\x02b\x012"})
	require.NoError(t, err)
	for e, err := range BatchElements(batch) {
		require.NoError(t, err)
		set, err := e.Properties.With("a", "9")
		require.NoError(t, err)
		added, err := e.Properties.With("c", "3")
		require.NoError(t, err)
		removed := e.Properties.Without("a")
		joined := JoinProperties(e.Properties, "d\x014")
		clear(batch)
		require.Equal(t, Properties("a\x019\x02b\x012"), set)
		require.Equal(t, Properties("a\x011\x02b\x012\x02c\x013"), added)
		require.Equal(t, Properties("b\x012"), removed)
		require.Equal(t, Properties("a\x011\x02b\x012\x02d\x014"), joined)
	}
}

func TestMessageReadsItsProperties(t *testing.T) {
	m := MessageExt{StoreHost: Host{Port: 1}, LogOffset: 2}
	require.Empty(t, m.Tags())
	require.Empty(t, m.Keys())
	require.Empty(t, m.UniqueKey())
	require.Equal(t, "00000000"+"00000001"+"0000000000000002", m.ID())

	m.Properties = "TAGS\x01TagA\x02KEYS\x01 k1  k2 \x02UNIQ_KEY\x01U"
	require.Equal(t, "TagA", m.Tags())
	require.Equal(t, []string{"k1", "k2"}, m.Keys())
	require.Equal(t, "U", m.UniqueKey())
	require.Equal(t, "U", m.ID())
}

// RocketMQ splits KEYS at U+0020 and nowhere else.
func TestOnlySpacesSeparateKeys(t *testing.T) {
	m := Message{Properties: "KEYS\x01a\tb c\u00a0d e\u3000f\ng"}
	require.Equal(t, []string{"a\tb", "c\u00a0d", "e\u3000f\ng"}, m.Keys())
}

// Properties that are not UTF-8 come from other writers; they are kept as they
// are.
func TestPropertiesThatAreNotUTF8AreKept(t *testing.T) {
	p := Properties("TAGS\x01\xff\xfea")
	b := recordOf(MessageExt{Message: Message{Topic: "t", Properties: p}})
	v := readOK(t, b)
	tag, ok := v.Property("TAGS")
	require.True(t, ok)
	require.True(t, bytes.Equal([]byte("\xff\xfea"), tag))
	require.EqualValues(t, 65008833, TagsCode(tag)) // computed with Java 17
	require.Equal(t, b, recordOf(v.Message()))
}
