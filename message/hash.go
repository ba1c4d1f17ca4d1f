package message

import (
	"unicode/utf16"
	"unicode/utf8"
)

// JavaHash is Java's String.hashCode of the text: h = 31*h + u over its UTF-16
// code units, in 32-bit arithmetic that wraps. A character outside the basic
// plane contributes two units. Bytes that are not UTF-8 count as U+FFFD, one
// for each maximal ill-formed run, as Java's decoder replaces them.
func JavaHash[T string | []byte](s T) int32 { return JavaHashFrom(0, s) }

// JavaHashFrom is the hash code of a text that begins with one of hash code h and
// goes on with s.
func JavaHashFrom[T string | []byte](h int32, s T) int32 {
	for ; len(s) >= 8; s = s[8:] { // eight at once: each step waits for the one before
		w := uint64(s[0])<<56 | uint64(s[1])<<48 | uint64(s[2])<<40 | uint64(s[3])<<32 |
			uint64(s[4])<<24 | uint64(s[5])<<16 | uint64(s[6])<<8 | uint64(s[7])
		if w&0x8080_8080_8080_8080 != 0 {
			break
		}
		h = int32(pow8*uint32(h) + javaHash8(w))
	}
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return javaHashUnits(h, []byte(s[i:]))
		}
		h = 31*h + int32(s[i])
	}
	return h
}

// Powers of 31, as far as 32 bits hold them.
const (
	pow2 = 31 * 31
	pow4 = pow2 * pow2
	pow8 = pow4 * pow4 % (1 << 32)
)

// javaHash8 is the hash code of eight ASCII characters, the first one in the top
// byte. A multiplication works on neighbours in all of the word at once: they
// become hash codes of two characters in 16 bits, then of four in 32 bits, and none
// is too large for its place.
func javaHash8(w uint64) uint32 {
	const bytes, halves = 0x00FF_00FF_00FF_00FF, 0x0000_FFFF_0000_FFFF
	w = 31*(w>>8&bytes) + w&bytes
	w = pow2*(w>>16&halves) + w&halves
	return pow4*uint32(w>>32) + uint32(w)
}

// javaHashUnits goes on from h with text that is not all ASCII.
func javaHashUnits(h int32, b []byte) int32 {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = illFormedLen(b)
		}
		b = b[n:]
		if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			h = 31*h + hi
			r = lo
		}
		h = 31*h + r
	}
	return h
}

// illFormedLen is the length of the ill-formed run at the start of b that one
// U+FFFD stands for: the longest prefix that could have begun a character. To
// Java an encoded surrogate (ED A0…BF xx) is one such run too.
func illFormedLen(b []byte) int {
	if len(b) >= 2 && b[0] == 0xED && b[1] >= 0xA0 && b[1] <= 0xBF {
		if len(b) >= 3 && !utf8.RuneStart(b[2]) {
			return 3
		}
		return 2
	}
	for n := min(len(b), utf8.UTFMax-1); n > 1; n-- {
		if !utf8.FullRune(b[:n]) { // a proper prefix of some character
			return n
		}
	}
	return 1
}

// TagsCode is the number that a consume queue keeps for a tag, so that a pull
// can skip messages without reading them: the sign-extended JavaHash, 0 for no
// tag. Two tags may share one code; a consumer compares the tags themselves.
//
// Source: RocketMQ common/message/MessageExtBrokerInner.java, tagsString2tagsCode.
func TagsCode[T string | []byte](tags T) int64 {
	return int64(JavaHash(tags))
}
