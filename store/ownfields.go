package store

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/pocketmq/pocketmq/message"
)

// fields are those of an object in a file of ours. One that is missing is zero; one
// of another kind than is asked for is too, and makes the error of the file.
type fields struct {
	of  map[string]any
	err *error // the first one of the file
}

func (o *fields) int(name string) int64 {
	return number(o, name, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
}

func (o *fields) int32(name string) int32 {
	return int32(number(o, name, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 32) }))
}

func (o *fields) uint(name string) uint64 {
	return number(o, name, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
}

func (o *fields) offset(name string) message.LogOffset { return message.LogOffset(o.int(name)) }

func (o *fields) text(name string) string { return field[string](o, name) }

func (o *fields) object(name string) *fields {
	return &fields{of: field[map[string]any](o, name), err: o.err}
}

// objects yields those of a list.
func (o *fields) objects(name string, yield func(*fields)) {
	for _, v := range field[[]any](o, name) {
		e := fields{of: map[string]any{name: v}, err: o.err}
		yield(e.object(name))
	}
}

func number[N int64 | uint64](o *fields, name string, parse func(string) (N, error)) N {
	text := field[json.Number](o, name)
	if text == "" {
		return 0
	}
	n, err := parse(text.String())
	if err != nil && *o.err == nil {
		*o.err = fmt.Errorf("field %q: %w", name, err)
	}
	return n
}

func field[T any](o *fields, name string) (v T) {
	have := o.of[name]
	if have == nil {
		return v
	}
	v, ok := have.(T)
	if !ok && *o.err == nil {
		*o.err = fmt.Errorf("field %q: %v, not of type %T", name, have, v)
	}
	return v
}
