package message

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// Computed with Java 17: String.hashCode.
func TestJavaHashIsJavas(t *testing.T) {
	for s, want := range map[string]int32{
		"":                   0,
		"\x00":               0,
		"a":                  97,
		" ":                  32,
		"\x7f":               127,
		"\u0080":             128,
		"\u07ff":             2047,
		"\u0800":             2048,
		"\ue000":             57344,
		"\uffff":             65535,
		"\U00010000":         1770496, // the first character of two units
		"\U0010FFFF":         1803232, // and the last
		"\U0001F600":         1772899,
		"a\U0001F600b":       57849694,
		"\u8ba2\u5355":       1129459,
		"\u00e9t\u00e9":      227742,
		"e\u0301te\u0301":    116300276,
		"TagA":               2598919,
		"TagB":               2598920,
		"TagA||TagB":         1789476431, // one text, whatever the multi-tag flag says
		"payment":            -786681338,
		"refund":             -934813832,
		"order-created":      -392709271,
		"zzzzzz":             -685785664, // wraps to negative
		"zzzzzzz":            215481018,  // and back
		"polygenelubricants": -2147483648,
		"Aa":                 2112,
		"BB":                 2112,
		"TagAa":              80566586,
		"TagBB":              80566586,
		"AaAa":               2031744,
		"BBBB":               2031744,
		"AaBB":               2031744,
		"BBAa":               2031744,
	} {
		require.Equal(t, want, JavaHash(s), "%q", s)
		require.Equal(t, want, JavaHash([]byte(s)), "%q", s)
		require.Equal(t, int64(want), TagsCode(s), "%q", s)
	}
	require.Zero(t, TagsCode([]byte(nil)))
}

// TestJavaHashTakesTextsOfEveryLength compares it with the definition, unit by unit:
// for texts of the lowest and the highest characters that go eight at once, and with
// one that does not at each place.
func TestJavaHashTakesTextsOfEveryLength(t *testing.T) {
	definition := func(h int32, s string) int32 {
		for _, unit := range utf16.Encode([]rune(s)) {
			h = 31*h + int32(unit)
		}
		return h
	}
	for n := range 40 {
		for _, s := range []string{strings.Repeat("\x00", n), strings.Repeat("\x7f", n), strings.Repeat("9aZ~ #", n)[:n]} {
			for _, h := range []int32{0, 1, -1, 1 << 30, -1 << 31} {
				require.Equal(t, definition(h, s), JavaHashFrom(h, s), "%d, %q", h, s)
				require.Equal(t, definition(h, s), JavaHashFrom(h, []byte(s)), "%d, %q", h, s)
				for i := range n {
					mixed := s[:i] + "\u00e9" + s[i:]
					require.Equal(t, definition(h, mixed), JavaHashFrom(h, mixed), "%d, %q", h, mixed)
				}
			}
		}
	}
}

func TestTagsCodeIsSignExtended(t *testing.T) {
	for tag, want := range map[string]uint64{
		"TagA":         0x000000000027a807,
		"payment":      0xffffffffd11c3206,
		"refund":       0xffffffffc847df78,
		"\U0001F600":   0x00000000001b0d63,
		"\u8ba2\u5355": 0x0000000000113bf3,
	} {
		require.Equal(t, want, uint64(TagsCode(tag)), tag)
	}
}

// Computed with Java 17: new String(bytes, UTF_8).hashCode(). In the names, r
// is U+FFFD.
func TestJavaHashReplacesIllFormedBytesAsJavaDoes(t *testing.T) {
	for _, c := range []struct {
		hex, name string
		want      int32
	}{
		{"80", "r: continuation alone", 65533},
		{"BF", "r", 65533},
		{"C0", "r: never a first byte", 65533},
		{"C0 80", "rr: overlong NUL", 2097056},
		{"C0 AF", "rr: overlong slash", 2097056},
		{"C2", "r: cut off", 65533},
		{"C2 41", "rA", 2031588},
		{"C2 C2", "rr", 2097056},
		{"E0", "r", 65533},
		{"E0 80", "rr: overlong", 2097056},
		{"E0 80 80", "rrr: overlong", 65074269},
		{"E0 A0", "r: cut off", 65533},
		{"E0 A0 41", "rA", 2031588},
		{"E1 80", "r: cut off", 65533},
		{"E1 80 41", "rA", 2031588},
		{"E1 41", "rA", 2031588},
		{"E1 80 E1 80", "rr", 2097056},
		{"E1 E1", "rr", 2097056},
		{"ED 80", "r: cut off", 65533},
		{"ED 9F BF", "U+D7FF is well-formed", 55295},
		{"ED A0 80", "r: a surrogate is one run of three", 65533},
		{"ED BF BF", "r", 65533},
		{"ED A0", "r: a cut-off surrogate is one run of two", 65533},
		{"ED A0 41", "rA", 2031588},
		{"ED A0 80 ED B0 80", "rr: a pair of surrogates", 2097056},
		{"ED C0", "rr", 2097056},
		{"EE 80 80", "U+E000 is well-formed", 57344},
		{"F0", "r", 65533},
		{"F0 90", "r: cut off", 65533},
		{"F0 90 80", "r: cut off", 65533},
		{"F0 90 41", "rA", 2031588},
		{"F0 90 80 41", "rA", 2031588},
		{"F0 80 80 80", "rrrr: overlong", 2017367872},
		{"F0 9F 98", "r", 65533},
		{"F0 9F 98 41", "rA", 2031588},
		{"F0 F0 F0", "rrr", 65074269},
		{"F1 80 80 80", "U+40000 is well-formed", 1776448},
		{"F1 80 80 C0", "rr", 2097056},
		{"F1 80 C0", "rr", 2097056},
		{"F1 C0", "rr", 2097056},
		{"F4 8F BF BF", "U+10FFFF is well-formed", 1803232},
		{"F4 8F BF", "r: cut off", 65533},
		{"F4 90", "rr", 2097056},
		{"F4 90 80 80", "rrrr: beyond U+10FFFF", 2017367872},
		{"F5", "r", 65533},
		{"F5 80 80 80", "rrrr", 2017367872},
		{"F8 88 80 80 80", "rrrrr", -1886039875},
		{"FE", "r", 65533},
		{"FF", "r", 65533},
		{"FF FE 61", "rra", 65008833},
		{"61 FF 62", "arb", 2124838},
		{"E4 BD A0 FF", "a character, then r", 695453},
		{"C2 E1 80 F0 90 80", "rrr: three cut-off ones", 65074269},
		{"EF BF BD", "U+FFFD itself", 65533},
		{"EF BF", "r: cut off", 65533},
	} {
		b := mustHex(c.hex)
		require.Equal(t, c.want, JavaHash(b), "%s: %s", c.hex, c.name)
		require.Equal(t, c.want, JavaHash(string(b)), "%s: %s", c.hex, c.name)
	}
}

// Queue = |hash mod n| with Java's remainder, which Go shares. The smallest
// int32 is the one that a naive absolute value gets wrong.
func TestHashRemainderSelectsTheQueueOfJava(t *testing.T) {
	queue := func(key string, n int32) int32 {
		q := JavaHash(key) % n
		return max(q, -q)
	}
	for _, c := range []struct {
		key     string
		n, want int32
	}{
		{"polygenelubricants", 2, 0}, {"polygenelubricants", 3, 2}, {"polygenelubricants", 4, 0},
		{"polygenelubricants", 5, 3}, {"polygenelubricants", 7, 2}, {"polygenelubricants", 12, 8},
		{"payment", 3, 2}, {"payment", 4, 2}, {"payment", 8, 2},
		{"order-created", 3, 1}, {"order-created", 4, 3}, {"order-created", 8, 7},
	} {
		require.Equal(t, c.want, queue(c.key, c.n), "%s mod %d", c.key, c.n)
	}
}

// Computed with Java 17 and RocketMQ 4.9.3's FilterAPI.buildSubscriptionData.
func TestTagFilterReadsExpressionsAsInRocketMQ(t *testing.T) {
	const tagA, tagB = 2598919, 2598920
	for expression, codes := range map[string][]int32{
		" * ":                        {42}, // not the star alone: a tag
		"TagA":                       {tagA},
		" TagA ":                     {tagA},
		"TagA || TagB":               {tagA, tagB},
		"TagA||TagB":                 {tagA, tagB},
		"\tTagA\t||\nTagB":           {tagA, tagB},
		"||TagA||":                   {tagA},
		"TagA||":                     {tagA},
		" ":                          nil,
		"  || ":                      nil,
		"TagA|TagB":                  {-1051832611},
		"TagA|||TagB":                {tagA, 117115524},
		"TagA && TagB":               {-118237105},
		"*||TagA":                    {42, tagA},
		"\u8ba2\u5355||\U0001F600":   {1129459, 1772899},
		"\x01TagA\x1f":               {tagA}, // Java's trim takes all up to U+0020
		"\u3000TagA\u3000":           {-311732007},
		"\u00a0TagA":                 {150362279},
		"\u0085TagA":                 {125427212},
		"TagA || polygenelubricants": {tagA, -2147483648},
	} {
		f := ParseTagFilter(expression)
		require.False(t, f.MatchesAll(), "%q", expression)
		require.Equal(t, codes, f.codes, "%q", expression)
		for _, c := range codes {
			require.True(t, f.Match(int64(c)), "%q", expression)
		}
		require.False(t, f.Match(12345), "%q", expression)
		require.False(t, f.Match(0), "%q: a message without a tag", expression)
	}
}

func TestTagFilterWithoutTagsMatchesNone(t *testing.T) {
	for _, expression := range []string{"||", "||||", " || ", " "} {
		f := ParseTagFilter(expression)
		require.False(t, f.MatchesAll())
		require.False(t, f.Match(0))
		require.False(t, f.Match(2598919))
	}
}

func TestTagFilterMatchesAllOnStarAndNothing(t *testing.T) {
	for _, f := range []TagFilter{{}, ParseTagFilter(""), ParseTagFilter("*")} {
		require.True(t, f.MatchesAll())
		for _, code := range []int64{0, 1, -1, 2598919, -1 << 63} {
			require.True(t, f.Match(code))
		}
	}
}

// Different tags can share a code, and only the low 32 bits are compared: a
// due time can look like a tag.
func TestTagFilterLetsSharedCodesThrough(t *testing.T) {
	f := ParseTagFilter("TagAa")
	require.True(t, f.Match(TagsCode("TagBB")))
	require.False(t, f.Match(TagsCode("TagA")))
	require.True(t, f.Match(TagsCode("TagAa")|0x7F<<32))
	require.True(t, ParseTagFilter("payment").Match(TagsCode("payment")))
	require.True(t, ParseTagFilter("payment").Match(TagsCode("payment")&0xFFFFFFFF), "not sign-extended")
}
