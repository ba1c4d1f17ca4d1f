package message

import "encoding/binary"

// PutOutline writes the outline of a record into dst and returns its length, at
// most the record's: the record without its body. Its body length is 0; all else is
// as it was, the size of the record and the checksum of its body among it. rec is
// exactly a record that PutRecord wrote. A dst that is too short is the caller's bug.
func PutOutline(dst, rec []byte) int {
	be := binary.BigEndian
	flag := SysFlag(be.Uint32(rec[offSysFlag:]))
	body := offBornHost + flag.bornHostWidth() + relStoreHost + flag.storeHostWidth() + relBody
	length := body + relBodyLength - relBody
	rest := rec[body+int(be.Uint32(rec[length:])):]
	_ = dst[body+len(rest)-1]
	copy(dst, rec[:body])
	be.PutUint32(dst[length:], 0)
	return body + copy(dst[body:], rest)
}

// ReadOutline is the View of a record by its outline, which is exactly b: as that
// of the record, but Body is empty, Raw is b, and its checksums are of what is not
// there: it is not for Check. It is valid as long as b is.
func ReadOutline(b []byte) View {
	v, err := viewOf(b)
	if err != nil {
		panic("message: no outline: " + err.Error())
	}
	v.at |= outlined
	return v
}
