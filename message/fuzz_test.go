package message

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowance is what decoding n bytes may allocate: some copies, and what the
// test itself needs.
func allowance(n int) uint64 { return 1<<20 + 64*uint64(n) }

// What is accepted encodes to the same bytes; what is not gives an error that
// matches ErrCorrupt; no length in the input makes us allocate.
func FuzzReadRecord(f *testing.F) {
	for _, b := range javaRecords(f) {
		f.Add(b)
	}
	f.Add(layoutBytes(layoutV4))
	f.Add(append(layoutBytes(layoutV6), layoutBytes(layoutV4)...))
	f.Add(make([]byte, 100))
	f.Add(mustHex("00000064 CBD43194"))
	f.Add(mustHex("7FFFFFFF DAA320A7"))
	levels := defaultLevels(f)

	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		var v View
		var kind Kind
		var err error
		var m MessageExt
		n := totalAlloc(func() {
			if v, kind, err = ReadRecord(b); kind != KindRecord {
				return
			}
			m = v.Message()
			_ = v.Check()
			_ = levels.TagsCode(v)
			for range m.Properties.All() {
				continue
			}
		})
		require.LessOrEqual(t, n, allowance(len(b)))
		require.Equal(t, before, b, "the input is only read")

		require.Equal(t, kind == KindDamaged, err != nil)
		if kind != KindRecord {
			require.Equal(t, View{}, v)
			require.Equal(t, err != nil, errors.Is(err, ErrCorrupt))
			return
		}
		require.LessOrEqual(t, v.Size(), len(b))
		require.Equal(t, v.Size(), m.RecordSize())
		require.True(t, bytes.Equal(b[:v.Size()], recordOf(m)), "different bytes")
	})
}

// With and Without change what they say, and nothing else that readers see.
func FuzzProperties(f *testing.F) {
	f.Add("", "a", "b")
	f.Add("TAGS\x01TagA\x02KEYS\x01k1 k2\x02", "TAGS", "TagB")
	f.Add("a\x01b\x02junk\x02a\x01\x02\x01x", "a", "\x01")
	f.Add("k\x01v\x01w", "\xff", "")
	f.Fuzz(func(t *testing.T, s, name, value string) {
		p := Properties(s)
		want := parsed(p)
		for n, v := range want {
			got, ok := p.Get(n)
			require.True(t, ok)
			require.Equal(t, v, got)
		}
		old, had := p.Get(name)
		require.Equal(t, old, want[name])

		without := p.Without(name)
		delete(want, name)
		require.Equal(t, want, parsed(without))
		if !had {
			require.Equal(t, p, without)
		}

		with, err := p.With(name, value)
		if err != nil {
			require.ErrorIs(t, err, ErrIllegal)
			require.Equal(t, p, with)
			return
		}
		want[name] = value
		require.Equal(t, want, parsed(with))
		require.LessOrEqual(t, len(with), len(p)+len(name)+len(value)+2)
		again, err := with.With(name, value)
		require.NoError(t, err)
		require.Equal(t, want, parsed(again))

		joined := parsed(JoinProperties(p, with))
		require.Equal(t, want, joined, "the batch's come last and count")
	})
}

// Elements lie inside the batch one after the other, and encode to its bytes
// but for the words that are not trusted.
func FuzzBatchElements(f *testing.F) {
	one := layoutBytes(elementLayout)
	f.Add(one)
	f.Add(bytes.Repeat(one, 3))
	f.Add(one[:30])
	f.Add(mustHex("7FFFFFFF 00000000 00000000 00000000 7FFFFFFF 0000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		var failed error
		n := totalAlloc(func() {
			for e, err := range BatchElements(b) {
				if err != nil {
					failed = err
					break
				}
				again, err = AppendBatchElement(again, &Message{Flag: e.Flag, Body: e.Body, Properties: e.Properties})
				if err != nil {
					failed = err
					break
				}
			}
		})
		require.LessOrEqual(t, n, allowance(len(b)))
		if failed != nil {
			require.ErrorIs(t, failed, ErrCorrupt)
			require.Less(t, len(again), len(b))
		} else {
			require.Len(t, again, len(b))
		}
		for p := 0; p < len(again); { // size, magic and CRC are not trusted
			require.True(t, bytes.Equal(again[p+elemFlag:p+elemBody], b[p+elemFlag:p+elemBody]))
			e, size, err := readElement(again[p:])
			require.NoError(t, err)
			require.True(t, bytes.Equal(again[p+elemBody:p+size], b[p+elemBody:p+size]))
			require.Equal(t, elemFixed+len(e.Body)+len(e.Properties), size)
			p += size
		}
	})
}

// A text that is accepted is the id's own, but for the case of its letters.
func FuzzOffsetMessageID(f *testing.F) {
	f.Add("7F00000100002A9F0000000000000CA0")
	f.Add("105000000000000000050600300c326b0000007b0000000000000ca0")
	f.Add("")
	f.Add("zz")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseOffsetMessageID(s)
		if err != nil {
			require.ErrorIs(t, err, ErrIllegal)
			require.Zero(t, id)
			return
		}
		require.Equal(t, string(bytes.ToUpper([]byte(s))), id.String())
		again, err := ParseOffsetMessageID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, again)
	})
}
