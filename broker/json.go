package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/pocketmq/pocketmq/message"
)

// RocketMQ's configuration files are written by fastjson: one field a line with
// tabs, fields and keys sorted, and maps with integer keys on one line with
// bare keys, which is not JSON:
//
//	{
//		"offsetTable":{
//			"orders@billing":{0:120,1:118
//			}
//		}
//	}
//
// Readers here accept bare and quoted keys and any white space.

// object is a JSON object. Its values are objects, queueOffsets, lists ([]any),
// strings, bools, json.Number, integers or nil, which is not written.
type object = map[string]any

// queueOffsets are the next offsets of queues by queue id.
type queueOffsets = map[int32]message.QueueOffset

// appendObject appends o as fastjson prints it, depth tabs deep.
func appendObject(dst []byte, o object, depth int) []byte {
	dst = append(dst, '{')
	written := false
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if o[name] == nil {
			continue
		}
		if written {
			dst = append(dst, ',')
		}
		dst = appendString(appendLine(dst, depth+1), name)
		dst = append(dst, ':')
		dst = appendValue(dst, o[name], depth+1)
		written = true
	}
	if written {
		dst = appendLine(dst, depth)
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v any, depth int) []byte {
	switch v := v.(type) {
	case object:
		return appendObject(dst, v, depth)
	case queueOffsets:
		return appendOffsets(dst, v, depth)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, e, depth+1)
		}
		return append(dst, ']')
	case string:
		return appendString(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case json.Number:
		return append(dst, v...)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case nil:
		return append(dst, "null"...)
	}
	panic(fmt.Sprintf("broker: a %T in a configuration file", v))
}

func appendOffsets(dst []byte, offsets queueOffsets, depth int) []byte {
	dst = append(dst, '{')
	for i, id := range slices.Sorted(maps.Keys(offsets)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, int64(offsets[id]), 10)
	}
	if len(offsets) > 0 {
		dst = appendLine(dst, depth)
	}
	return append(dst, '}')
}

func appendLine(dst []byte, depth int) []byte {
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, '\t')
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// fieldObject, fieldInt, … read a field of o; def where it is missing or null.

func fieldObject(o object, name string) (object, error) {
	switch v := o[name].(type) {
	case nil:
		return object{}, nil
	case object:
		return v, nil
	default:
		return nil, fieldError(name, v, "object")
	}
}

func fieldInt(o object, name string, def int64) (int64, error) {
	switch v := o[name].(type) {
	case nil:
		return def, nil
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		if err != nil {
			return 0, fieldError(name, v, "64-bit integer")
		}
		return n, nil
	case int64: // what we put there ourselves
		return v, nil
	default:
		return 0, fieldError(name, v, "integer")
	}
}

func fieldInt32(o object, name string, def int32) (int32, error) {
	n, err := fieldInt(o, name, int64(def))
	if err == nil && (n < math.MinInt32 || n > math.MaxInt32) {
		err = fieldError(name, n, "32-bit integer")
	}
	return int32(n), err
}

func fieldBool(o object, name string) (bool, error) {
	switch v := o[name].(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	default:
		return false, fieldError(name, v, "boolean")
	}
}

// fieldOffsets reads an object with integer keys and integer values.
func fieldOffsets(o object, name string) (queueOffsets, error) {
	fields, err := fieldObject(o, name)
	if err != nil {
		return nil, err
	}
	offsets := make(queueOffsets, len(fields))
	for key := range fields {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, fieldError(name, key, "map by 32-bit integers")
		}
		n, err := fieldInt(fields, key, -1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		offsets[int32(id)] = message.QueueOffset(n)
	}
	return offsets, nil
}

func fieldError(name string, v any, want string) error {
	return fmt.Errorf("field %q: %v, not of type %s", name, v, want)
}
