package message

import "encoding/hex"

// AddTo returns p with a new id added at the end as UNIQ_KEY, and the id's text.
// Properties that have the key come back as they are, with its value. It is
// With(PropertyUniqueKey, u.Next().String()) in one allocation instead of three,
// because every message that is sent takes this way: the text lies inside the
// properties, and neither name nor value need a check.
func (u *UniqueIDs) AddTo(p Properties) (with Properties, key string) {
	if key, ok := p.Get(PropertyUniqueKey); ok {
		return p, key
	}
	id := u.Next()
	b := make([]byte, 0, len(p)+1+len(PropertyUniqueKey)+1+2*len(id))
	b = append(b, p...)
	if len(p) > 0 && p[len(p)-1] != propertySeparator {
		b = append(b, propertySeparator)
	}
	b = append(b, PropertyUniqueKey...)
	b = append(b, nameValueSeparator)
	start := len(b)
	b = hex.AppendEncode(b, id[:])
	for i, c := range b[start:] { // upper case, as upperHex
		if c >= 'a' {
			b[start+i] = c - 'a' + 'A'
		}
	}
	s := bytesString(b) // nobody changes b from here on
	return Properties(s), s[start:]
}
