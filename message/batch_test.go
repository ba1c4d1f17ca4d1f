package message

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// elementLayout is one batch element, typed by hand from the format.
var elementLayout = []fieldBytes{
	{"size", "00 00 00 1F", ""}, // 31 = 22 + 3 + 6
	{"0", "00 00 00 00", ""},
	{"0", "00 00 00 00", ""},
	{"flag", "01 02 03 04", ""},
	{"bodyLength", "00 00 00 03", ""},
	{"body", "51 52 53", ""},
	{"propertiesLength", "00 06", ""},
	{"properties", "54 41 47 53 01 78", ""},
}

func elements(b []byte) (list []BatchElement, err error) {
	for e, err := range BatchElements(b) {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

func TestBatchElementHasTheLiteralBytes(t *testing.T) {
	want := layoutBytes(elementLayout)
	got, err := AppendBatchElement(nil, &Message{Topic: "ignored", Flag: 0x01020304, Body: []byte{0x51, 0x52, 0x53}, Properties: "TAGS\x01x"})
	require.NoError(t, err)
	require.Equal(t, want, got)

	list, err := elements(want)
	require.NoError(t, err)
	require.Equal(t, []BatchElement{{0x01020304, []byte{0x51, 0x52, 0x53}, "TAGS\x01x"}}, list)
}

func TestSmallestBatchElementIs22Zeros(t *testing.T) {
	got, err := AppendBatchElement(nil, &Message{})
	require.NoError(t, err)
	require.Equal(t, append(mustHex("00000016"), make([]byte, 18)...), got)
	list, err := elements(got)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Empty(t, list[0].Body)
	require.Empty(t, list[0].Properties)
}

func TestEmptyBatchHasNoElements(t *testing.T) {
	for _, b := range [][]byte{nil, {}} {
		list, err := elements(b)
		require.NoError(t, err)
		require.Empty(t, list)
	}
}

func TestRandomBatchesReadBackEqual(t *testing.T) {
	r := newSeed(t)
	for range 200 {
		var batch []byte
		var want []BatchElement
		for range r.IntN(20) {
			m := randomMessage(r)
			var err error
			batch, err = AppendBatchElement(batch, &m.Message)
			require.NoError(t, err)
			want = append(want, BatchElement{m.Flag, m.Body, m.Properties})
		}
		got, err := elements(batch)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		var again []byte
		for i := range got {
			require.Equal(t, want[i].Flag, got[i].Flag)
			require.True(t, bytes.Equal(want[i].Body, got[i].Body))
			require.Equal(t, want[i].Properties, got[i].Properties)
			again, err = AppendBatchElement(again, &Message{Flag: got[i].Flag, Body: got[i].Body, Properties: got[i].Properties})
			require.NoError(t, err)
		}
		require.Equal(t, batch, again)
	}
}

// Each member keeps its own properties: tag, keys and the application's.
func TestBatchMembersKeepTheirOwnProperties(t *testing.T) {
	var batch []byte
	for _, n := range []string{"1", "2", "3"} {
		var err error
		batch, err = AppendBatchElement(batch, &Message{Properties: mustProperties(t, "KEYS", "k"+n, "TAGS", "Tag"+n, "n", n)})
		require.NoError(t, err)
	}
	list, err := elements(batch)
	require.NoError(t, err)
	require.Len(t, list, 3)
	for i, n := range []string{"1", "2", "3"} {
		require.Equal(t, map[string]string{"KEYS": "k" + n, "TAGS": "Tag" + n, "n": n}, parsed(list[i].Properties))
	}
}

func TestAppendBatchElementRefusesLongProperties(t *testing.T) {
	head := []byte("head")
	got, err := AppendBatchElement(head, &Message{Properties: Properties(strings.Repeat("p", 32767))})
	require.NoError(t, err)
	list, err := elements(got[4:])
	require.NoError(t, err)
	require.Len(t, string(list[0].Properties), 32767)

	for _, n := range []int{32768, 40000, 65535, 65536} {
		got, err := AppendBatchElement(head, &Message{Body: []byte("b"), Properties: Properties(strings.Repeat("p", n))})
		require.Equal(t, &LimitError{Field: "properties", Limit: 32767, Value: int64(n)}, err)
		require.Equal(t, head, got)
	}
}

// Java does not read size, magic and CRC of an element back, so neither do we.
func TestBatchReadersDoNotTrustSizeMagicAndCRC(t *testing.T) {
	b := layoutBytes(elementLayout)
	want, err := elements(b)
	require.NoError(t, err)
	for _, word := range []uint32{0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000} {
		for p := 0; p < 12; p += 4 {
			binary.BigEndian.PutUint32(b[p:], word)
		}
		got, err := elements(b)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestEveryTruncatedBatchGivesWholeElementsThenAnError(t *testing.T) {
	one := layoutBytes(elementLayout)
	batch := bytes.Repeat(one, 3)
	for n := range len(batch) + 1 {
		list, err := elements(batch[:n:n])
		require.Len(t, list, n/len(one), "%d bytes", n)
		for _, e := range list {
			require.Equal(t, BatchElement{0x01020304, []byte{0x51, 0x52, 0x53}, "TAGS\x01x"}, e)
		}
		if n%len(one) == 0 {
			require.NoError(t, err, "%d bytes", n)
		} else {
			require.ErrorIs(t, err, ErrCorrupt, "%d bytes", n)
		}
	}
}

func TestImpossibleBatchLengthsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		pos       int
		err       string
	}{
		{"negative body", "FFFFFFFF", 16, "body length -1, at most 9 bytes are left"},
		{"smallest body", "80000000", 16, "body length -2147483648, at most 9 bytes are left"},
		{"huge body", "7FFFFFFF", 16, "body length 2147483647, at most 9 bytes are left"},
		{"body one too long", "0000000A", 16, "body length 10, at most 9 bytes are left"},
		{"negative properties", "FFFF", 23, "properties length -1, 6 bytes are left"},
		{"smallest properties", "8000", 23, "properties length -32768, 6 bytes are left"},
		{"long properties", "7FFF", 23, "properties length 32767, 6 bytes are left"},
		{"properties one too long", "0007", 23, "properties length 7, 6 bytes are left"},
		{"bytes that are no element", "0005", 23, "1 bytes are left, at least 22 are needed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := layoutBytes(elementLayout)
			copy(b[c.pos:], mustHex(c.hex))
			_, err := elements(b)
			require.EqualError(t, err, "corrupt data: batch element: "+c.err)
			require.ErrorIs(t, err, ErrCorrupt)
		})
	}
}

func TestEveryByteFlipOfABatchEndsOrFails(t *testing.T) {
	batch := bytes.Repeat(layoutBytes(elementLayout), 3)
	b := bytes.Clone(batch)
	for p := range b {
		for x := 1; x < 256; x++ {
			b[p] = batch[p] ^ byte(x)
			n, failed := 0, false
			for e, err := range BatchElements(b) {
				require.False(t, failed, "an error comes last")
				if failed = err != nil; failed {
					require.ErrorIs(t, err, ErrCorrupt)
					require.Zero(t, e)
				}
				n++
			}
			require.LessOrEqual(t, n, 1+len(b)/22)
		}
		b[p] = batch[p]
	}
}

func TestBatchLoopMayEndEarly(t *testing.T) {
	n := 0
	for _, err := range BatchElements(bytes.Repeat(layoutBytes(elementLayout), 3)) {
		require.NoError(t, err)
		if n++; n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)
}

func TestBatchBodyCanNotReachThePropertiesBehindIt(t *testing.T) {
	b := layoutBytes(elementLayout)
	want := bytes.Clone(b)
	list, err := elements(b)
	require.NoError(t, err)
	_ = append(list[0].Body, 0x99)
	require.Equal(t, want, b)
}

// What the store adds must not run into the last property of an element.
func TestJoinPropertiesSeparatesElementAndBatch(t *testing.T) {
	for _, c := range []struct{ element, batch, want Properties }{
		{"", "", ""},
		{"TAGS\x01TagA", "", "TAGS\x01TagA"},
		{"TAGS\x01TagA\x02", "", "TAGS\x01TagA\x02"},
		{"", "CLUSTER\x01c", "CLUSTER\x01c"},
		{"TAGS\x01TagA", "CLUSTER\x01c", "TAGS\x01TagA\x02CLUSTER\x01c"},
		{"TAGS\x01TagA\x02", "CLUSTER\x01c", "TAGS\x01TagA\x02CLUSTER\x01c"},
		{"TAGS\x01TagA\x02", "CLUSTER\x01c\x02", "TAGS\x01TagA\x02CLUSTER\x01c\x02"},
	} {
		got := JoinProperties(c.element, c.batch)
		require.Equal(t, c.want, got)
		if c.element != "" {
			tag, _ := got.Get(PropertyTags)
			require.Equal(t, "TagA", tag)
			require.EqualValues(t, 2598919, TagsCode(tag))
			require.True(t, ParseTagFilter("TagA").Match(TagsCode(tag)))
		}
	}
}
