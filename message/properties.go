package message

import (
	"bytes"
	"iter"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Names of properties that the store and the broker interpret. Applications
// set KEYS, TAGS, DELAY and WAIT; the rest is reserved.
const (
	PropertyKeys                  = "KEYS"
	PropertyTags                  = "TAGS"
	PropertyWait                  = "WAIT"
	PropertyDelayLevel            = "DELAY"
	PropertyUniqueKey             = "UNIQ_KEY"
	PropertyRealTopic             = "REAL_TOPIC"
	PropertyRealQueueID           = "REAL_QID"
	PropertyInnerMultiDispatch    = "INNER_MULTI_DISPATCH"
	PropertyInnerMultiQueueOffset = "INNER_MULTI_QUEUE_OFFSET"
)

// Separators of the property string.
//
//	name 0x01 value 0x02 name 0x01 value …
//
// No separator ends the string, though readers accept one. Source: RocketMQ
// common/message/MessageDecoder.java, messageProperties2String.
const (
	nameValueSeparator = 0x01
	propertySeparator  = 0x02
)

// Properties are the properties of a message in their encoded form, in order:
// the order is part of the bytes, so it is never a map. A Properties value is
// immutable, may be shared freely and compared with ==; the zero value is
// empty. Converting any string to Properties is allowed: what does not parse
// is kept byte for byte and is not seen by Get and All.
type Properties string

// NewProperties encodes name, value, name, value, … in that order. It fails
// like With.
func NewProperties(namesAndValues ...string) (Properties, error) {
	if len(namesAndValues)%2 != 0 {
		return "", &IllegalError{"properties", "", "a name has no value"}
	}
	var p Properties
	for i := 0; i < len(namesAndValues); i += 2 {
		var err error
		if p, err = p.With(namesAndValues[i], namesAndValues[i+1]); err != nil {
			return "", err
		}
	}
	return p, nil
}

// Get returns the value of the property, and whether it is there. Of several
// with one name the last counts.
func (p Properties) Get(name string) (string, bool) {
	v, ok := lookup(stringBytes(string(p)), name)
	return bytesString(v), ok
}

// All yields name and value of each property in the order of the bytes. A name
// that occurs twice is yielded twice; the last one counts.
func (p Properties) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		b := stringBytes(string(p))
		for pos := 0; pos < len(b); {
			var name, value []byte
			name, value, pos = nextProperty(b, pos)
			if len(name) > 0 && !yield(bytesString(name), bytesString(value)) {
				return
			}
		}
	}
}

// With returns p with the property set: in place where the name exists, else
// at the end. It returns an *IllegalError, and p unchanged, for a name or value
// that would read back differently: an empty one, one that is not UTF-8, a name
// with a separator byte (0x01, 0x02), a value with 0x02.
//
// Where the name exists, what does not parse and a separator at the end are
// dropped, and so is every further property of that name.
func (p Properties) With(name, value string) (Properties, error) {
	if err := checkProperty(name, value); err != nil {
		return p, err
	}
	if _, ok := p.Get(name); ok {
		return p.rewrite(name, value), nil
	}
	var b strings.Builder
	b.Grow(len(p) + len(name) + len(value) + 2)
	b.WriteString(string(p))
	if len(p) > 0 && p[len(p)-1] != propertySeparator {
		b.WriteByte(propertySeparator)
	}
	writeProperty(&b, name, value)
	return Properties(b.String()), nil
}

// Without returns p without any property of that name. All other properties
// keep their bytes and order; where the name exists, what does not parse and a
// separator at the end are dropped.
func (p Properties) Without(name string) Properties {
	if _, ok := p.Get(name); !ok {
		return p
	}
	return p.rewrite(name, "")
}

// rewrite copies the properties in order. The first one of that name gets the
// value, or is left out if value is empty; further ones are left out.
func (p Properties) rewrite(name, value string) Properties {
	var b strings.Builder
	b.Grow(len(p) + len(value))
	for n, v := range p.All() {
		if n == name {
			v, value = value, ""
		}
		if v == "" { // a property that exists has a value
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(propertySeparator)
		}
		writeProperty(&b, n, v)
	}
	return Properties(b.String())
}

func writeProperty(b *strings.Builder, name, value string) {
	b.WriteString(name)
	b.WriteByte(nameValueSeparator)
	b.WriteString(value)
}

func checkProperty(name, value string) error {
	switch {
	case name == "":
		return &IllegalError{"property name", "", "is empty"}
	case strings.IndexByte(name, nameValueSeparator) >= 0 || strings.IndexByte(name, propertySeparator) >= 0:
		return &IllegalError{"property name", shorten(name), "has a separator byte (0x01 or 0x02)"}
	case !utf8.ValidString(name):
		return &IllegalError{"property name", shorten(name), "is not UTF-8"}
	case value == "":
		return &IllegalError{"property value", "", "of " + shorten(name) + " is empty: it would not be read back"}
	case strings.IndexByte(value, propertySeparator) >= 0:
		return &IllegalError{"property value", shorten(value), "of " + shorten(name) + " has the separator byte 0x02"}
	case !utf8.ValidString(value):
		return &IllegalError{"property value", shorten(value), "of " + shorten(name) + " is not UTF-8"}
	}
	return nil
}

// nextProperty reads the chunk of b at pos (pos < len(b)) and returns the
// position after it. A chunk that is no property gives an empty name. RocketMQ's
// decoder splits at 0x02, takes the first 0x01 as the end of the name, and
// drops a chunk whose name or value is empty.
//
// Source: RocketMQ common/message/MessageDecoder.java, string2messageProperties.
func nextProperty(b []byte, pos int) (name, value []byte, next int) {
	end := len(b)
	if i := bytes.IndexByte(b[pos:], propertySeparator); i >= 0 {
		end = pos + i
	}
	chunk := b[pos:end]
	sep := bytes.IndexByte(chunk, nameValueSeparator)
	if sep <= 0 || sep >= len(chunk)-1 {
		return nil, nil, end + 1
	}
	return chunk[:sep], chunk[sep+1:], end + 1
}

// lookup finds the last property of that name; the value lies inside b.
func lookup(b []byte, name string) (value []byte, ok bool) {
	for pos := 0; pos < len(b); {
		end := len(b)
		if i := bytes.IndexByte(b[pos:], propertySeparator); i >= 0 {
			end = pos + i
		}
		// Nearly all have another name, and need no closer look.
		if chunk := b[pos:end]; len(chunk) > len(name) && chunk[len(name)] == nameValueSeparator {
			if n, v, _ := nextProperty(chunk, 0); len(n) > 0 && string(n) == name {
				value, ok = v, true
			}
		}
		pos = end + 1
	}
	return value, ok
}

// stringBytes and bytesString convert without a copy. The bytes are only read
// in this package, and a string made this way lies inside an immutable one.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
func bytesString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
