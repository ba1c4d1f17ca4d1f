package message

import "bytes"

// Marks are the properties of a record from which its unit in the consume queue
// and its entries in the index are made. They lie inside the record, and are nil
// where it has none.
type Marks struct {
	UniqueKey []byte // PropertyUniqueKey
	Keys      []byte // PropertyKeys
	Tags      []byte // PropertyTags
}

// Marks finds the properties in one pass; each is what Property returns for it.
func (v View) Marks() Marks {
	var m Marks
	m.Read(v)
	return m
}

// Read makes m the marks of v. It is View.Marks for who goes through many records:
// that copies nine words twice, which takes as long as to find them.
func (m *Marks) Read(v View) {
	*m = Marks{}
	for rest := v.Properties(); len(rest) > 0; {
		chunk := rest
		if i := bytes.IndexByte(rest, propertySeparator); i >= 0 {
			chunk, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		// The names that count end at one of two places.
		switch {
		case named(chunk, PropertyKeys):
			m.Keys = chunk[len(PropertyKeys)+1:]
		case named(chunk, PropertyTags):
			m.Tags = chunk[len(PropertyTags)+1:]
		case named(chunk, PropertyUniqueKey):
			m.UniqueKey = chunk[len(PropertyUniqueKey)+1:]
		}
	}
}

// named reports whether a chunk is a property of that name, with a value.
func named(chunk []byte, name string) bool {
	return len(chunk) > len(name)+1 && chunk[len(name)] == nameValueSeparator && string(chunk[:len(name)]) == name
}
