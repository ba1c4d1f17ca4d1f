package mmap

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// ErrFault is matched by every error made from a fault inside a mapping.
var ErrFault = errors.New("fault in mapped file")

// FaultError reports that the byte at Offset of a mapped file could not be read or stored: the file became shorter,
// the disk is full under a hole, or the medium failed. It matches ErrFault.
type FaultError struct {
	Path   string
	Offset int64 // bytes from the start of the file; some processors report only the page
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("%s: fault at byte %d of the mapping", e.Path, e.Offset)
}

func (e *FaultError) Is(target error) bool { return target == ErrFault }

// Catch turns a fault inside this mapping into an error. It must be deferred directly:
//
//	defer m.Catch(debug.SetPanicOnFault(true), &err)
//
// It gives the goroutine its old setting back and, when the panic under way is a fault inside this mapping, stores a
// *FaultError in *err. Any other panic goes on with its value unchanged. Guards may be nested for several mappings.
func (m *Mapping) Catch(old bool, err *error) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		*err = m.Caught(r)
	}
}

// Caught returns the *FaultError for a recovered value that is a fault inside this mapping, and panics with the very
// same value otherwise. It serves types that wrap a Mapping: recover works only in the deferred function itself, so
// they must have a Catch of their own.
func (m *Mapping) Caught(recovered any) error {
	fault, ok := recovered.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok || m.gone.Load() || fault.Addr()-m.base >= m.span {
		panic(recovered)
	}
	return &FaultError{Path: m.path, Offset: int64(fault.Addr() - m.base)}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
