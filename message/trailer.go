package message

import "hash/crc32"

// PropertyCRC32 is the last property of a record that has a checksum over all of
// it. RocketMQ 5.1 and later write it when enabledAppendPropCRC is set; 4.9 takes
// it for any property.
//
//	__CRC32# 0x01 dddddddddd 0x02
//
// The digits are the decimal number, its last digit first, filled up with zeros:
// CRC-32 (IEEE), top bit cleared, of all bytes of the record before these 20. It
// is the store's own: a put that brings it along loses it.
//
// Source: RocketMQ common/message/MessageDecoder.java, createCrc32.
const PropertyCRC32 = "__CRC32#"

const (
	crcName   = PropertyCRC32 + "\x01"
	crcDigits = 10
	crcSize   = len(crcName) + crcDigits + 1
)

var _ [20]byte = [crcSize]byte{} // as RocketMQ's CRC32_RESERVED_LEN

// Trailer is what a record has behind its message's own properties. The parts are
// separated where the one before does not end in a separator.
type Trailer struct {
	Properties Properties // of the batch that the message belongs to
	CRC        bool       // PropertyCRC32
}

// length is the number of bytes of p with the trailer.
func (t Trailer) length(p Properties) int {
	n := len(p)
	last := p
	if t.Properties != "" {
		n += gap(last) + len(t.Properties)
		last = t.Properties
	}
	if t.CRC {
		n += gap(last) + crcSize
	}
	return n
}

// gap is the number of separators that what follows p needs.
func gap(p Properties) int {
	if p == "" || p[len(p)-1] == propertySeparator {
		return 0
	}
	return 1
}

// put writes p and the trailer into dst, all of it; PropertyCRC32 with nothing
// but zeros for the number.
func (t Trailer) put(dst []byte, p Properties) {
	n := copy(dst, p)
	last := p
	if t.Properties != "" {
		n += separate(dst[n:], last)
		n += copy(dst[n:], t.Properties)
		last = t.Properties
	}
	if t.CRC {
		n += separate(dst[n:], last)
		n += copy(dst[n:], crcName)
		n += copy(dst[n:], "0000000000")
		dst[n] = propertySeparator
	}
}

func separate(dst []byte, p Properties) int {
	n := gap(p)
	if n > 0 {
		dst[0] = propertySeparator
	}
	return n
}

// CheckTrailer refuses more than 32,767 bytes of properties together, with a
// *LimitError.
func (m *MessageExt) CheckTrailer(t Trailer) error {
	if n := t.length(m.Properties); n > MaxPropertiesLength {
		return &LimitError{Field: "properties", Limit: MaxPropertiesLength, Value: int64(n)}
	}
	return nil
}

// WithoutCRC32 returns p without PropertyCRC32. Without anywhere it takes only one
// at the end out, which would be taken for the record's.
func (p Properties) WithoutCRC32(anywhere bool) Properties {
	if anywhere || endsInCRC(stringBytes(string(p))) {
		return p.Without(PropertyCRC32)
	}
	return p
}

// endsInCRC reports whether PropertyCRC32 is the last of the properties.
func endsInCRC(p []byte) bool {
	at := len(p) - crcSize
	return at >= 0 && (at == 0 || p[at-1] == propertySeparator) &&
		p[len(p)-1] == propertySeparator && string(p[at:at+len(crcName)]) == crcName
}

// PutCRC32 writes the number into rec, a whole record that ends in PropertyCRC32.
// Size and magic may not be there yet, and count as if they were.
func PutCRC32(rec []byte) {
	sum := recordCRC(rec)
	digits := rec[len(rec)-1-crcDigits:][:crcDigits]
	for i := range digits {
		digits[i] = '0' + byte(sum%10)
		sum /= 10
	}
}

// recordCRC is the checksum of rec, a whole record that ends in PropertyCRC32.
func recordCRC(rec []byte) uint32 {
	sum := ^uint32(0)
	head := uint64(len(rec))<<32 | RecordMagic
	for shift := 56; shift >= 0; shift -= 8 { // a slice of them would be allocated
		sum = crc32.IEEETable[byte(sum)^byte(head>>shift)] ^ sum>>8
	}
	sum = crc32.Update(^sum, crc32.IEEETable, rec[offMagic+4:len(rec)-crcSize])
	return sum & 0x7FFFFFFF
}

// Check is CheckBody and CheckCRC32.
func (v View) Check() error {
	if err := v.CheckBody(); err != nil {
		return err
	}
	return v.CheckCRC32()
}

// CheckCRC32 compares all of the record with PropertyCRC32, where it has that. The
// error matches ErrCorrupt.
func (v View) CheckCRC32() error {
	if !endsInCRC(v.Properties()) {
		return nil
	}
	want, digits := uint64(0), v.raw[len(v.raw)-1-crcDigits:][:crcDigits]
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '0' || digits[i] > '9' {
			return damaged("record checksum %q is no number", digits)
		}
		want = want*10 + uint64(digits[i]-'0')
	}
	if got := recordCRC(v.raw); uint64(got) != want {
		return damaged("record checksum %08x, the record says %08x", got, want)
	}
	return nil
}
