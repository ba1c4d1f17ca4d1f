package message

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"math"
)

// Bits of SysFlag that name the compressor in later versions of RocketMQ; none
// and the last one mean zlib.
const (
	compressorMask SysFlag = 0x700
	compressorZlib SysFlag = 0x300
)

// Inflate returns the body of a record as its producer had it: body itself
// unless flag says that it is compressed. The flag of a MessageExt goes on to
// tell what the record holds, so this is for bodies that were not inflated yet.
//
// A result of more than limit bytes is refused with a *LimitError, after at
// most limit+1 bytes of it were made: a small body can claim any size. That
// error, and the one for a compressor that is not known or a body that does not
// inflate, match ErrCorrupt as well: the message can not be delivered.
func Inflate(flag SysFlag, body []byte, limit int) ([]byte, error) {
	if flag&FlagCompressed == 0 {
		return body, nil
	}
	if k := flag & compressorMask; k != 0 && k != compressorZlib {
		return nil, damaged("compressed body: compressor %d is not known", k>>8)
	}
	out, err := inflate(body, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("%w: compressed body: %w", ErrCorrupt, err)
	}
	return out, nil
}

func inflate(body []byte, limit int64) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// One byte more than allowed tells too long from just as long.
	out, err := io.ReadAll(io.LimitReader(r, min(limit, math.MaxInt64-1)+1))
	if err == nil && int64(len(out)) > limit {
		err = &LimitError{Field: "inflated body", Limit: limit, Value: int64(len(out))}
	}
	return out, errors.Join(err, r.Close())
}
