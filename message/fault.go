package message

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// CatchFault turns a memory fault, as reading a View in a mapped file may raise
// one, into an error that matches ErrCorrupt; other panics go on. It must be
// deferred directly, by the function that reads:
//
//	defer message.CatchFault(debug.SetPanicOnFault(true), &err)
func CatchFault(old bool, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		panic(r)
	}
	*err = fmt.Errorf("%w: the file can not be read: %w", ErrCorrupt, fault)
}
