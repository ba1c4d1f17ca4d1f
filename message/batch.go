package message

import (
	"encoding/binary"
	"iter"
)

// Batch element layout, big-endian. A batch's body is a sequence of them.
//
//	offset size field
//	     0    4 size of the whole element
//	     4    4 0 (ignored)
//	     8    4 0 (ignored)
//	    12    4 flag
//	    16    4 bodyLength
//	    20    n body
//	     …    2 propertiesLength, 0 to 32767
//	     …    n properties
//
// Readers do not trust size. Source: RocketMQ common/message/MessageDecoder.java,
// encodeMessage.
const (
	elemFlag       = 12
	elemBodyLength = elemFlag + 4
	elemBody       = elemBodyLength + 4
	elemFixed      = elemBody + 2
)

// BatchElement is one message of a batch in wire form.
type BatchElement struct {
	Flag       int32
	Body       []byte     // inside the batch
	Properties Properties // inside the batch: valid as long as it is unchanged
}

// AppendBatchElement appends the element for m to dst. Topic and everything
// else that a batch has in common is not part of it. It returns a *LimitError,
// and dst unchanged, when the properties do not fit their length field.
func AppendBatchElement(dst []byte, m *Message) ([]byte, error) {
	if len(m.Properties) > MaxPropertiesLength {
		return dst, &LimitError{Field: "properties", Limit: MaxPropertiesLength, Value: int64(len(m.Properties))}
	}
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(elemFixed+len(m.Body)+len(m.Properties)))
	dst = be.AppendUint64(dst, 0)
	dst = be.AppendUint32(dst, uint32(m.Flag))
	dst = be.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	dst = be.AppendUint16(dst, uint16(len(m.Properties)))
	return append(dst, m.Properties...), nil
}

// BatchElements yields the elements of a batch's body in order. An error
// matches ErrCorrupt and comes last. Nothing is copied or allocated.
func BatchElements(batch []byte) iter.Seq2[BatchElement, error] {
	return func(yield func(BatchElement, error) bool) {
		for len(batch) > 0 {
			e, n, err := readElement(batch)
			if err != nil {
				yield(BatchElement{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
			batch = batch[n:]
		}
	}
}

func readElement(b []byte) (BatchElement, int, error) {
	if len(b) < elemFixed {
		return BatchElement{}, 0, damaged("batch element: %d bytes are left, at least %d are needed", len(b), elemFixed)
	}
	be := binary.BigEndian
	body := int(int32(be.Uint32(b[elemBodyLength:])))
	if body < 0 || body > len(b)-elemFixed {
		return BatchElement{}, 0, damaged("batch element: body length %d, at most %d bytes are left", body, len(b)-elemFixed)
	}
	propsStart := elemBody + body + 2
	props := int(int16(be.Uint16(b[propsStart-2:])))
	if props < 0 || props > len(b)-propsStart {
		return BatchElement{}, 0, damaged("batch element: properties length %d, %d bytes are left", props, len(b)-propsStart)
	}
	end := propsStart + props
	return BatchElement{
		Flag:       int32(be.Uint32(b[elemFlag:])),
		Body:       b[elemBody : elemBody+body : elemBody+body],
		Properties: Properties(bytesString(b[propsStart:end])),
	}, end, nil
}

// JoinProperties is what a batch element's record holds: the element's own
// properties and then those of the batch, with a separator between where both
// are there and the first does not end in one.
func JoinProperties(element, batch Properties) Properties {
	switch {
	case batch == "":
		return element
	case element == "":
		return batch
	case element[len(element)-1] == propertySeparator:
		return element + batch
	}
	return element + "\x02" + batch
}
