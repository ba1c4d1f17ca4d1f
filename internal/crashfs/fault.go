package crashfs

import (
	"path"
	"path/filepath"
	"sync"
)

// Op names an operation of segment.FS, segment.Handle or segment.Mapping.
type Op string

// The operations.
const (
	OpMkdirAll Op = "mkdirall"
	OpMkdir    Op = "mkdir"
	OpCreate   Op = "create"
	OpOpen     Op = "open"
	OpOpenRead Op = "openread"
	OpRemove   Op = "remove"
	OpRename   Op = "rename" // the path is the new name
	OpLink     Op = "link"   // the path is the new name
	OpReadDir  Op = "readdir"
	OpLstat    Op = "lstat"
	OpSyncDir  Op = "syncdir"

	OpOpenVolume Op = "openvolume"
	OpSyncVolume Op = "syncvolume" // the path is "."

	OpReadAt   Op = "readat"
	OpWriteAt  Op = "writeat"
	OpSize     Op = "size"
	OpTruncate Op = "truncate"
	OpAllocate Op = "allocate"
	OpMap      Op = "map"
	OpSync     Op = "sync"
	OpLock     Op = "lock"
	OpStillAt  Op = "stillat"
	OpClose    Op = "close"
	OpPopulate Op = "populate"
	OpUnmap    Op = "unmap"

	AnyOp Op = ""
)

// Call is one call of an operation.
type Call struct {
	Op   Op
	Path string // below the root, with slashes
}

func (c Call) String() string { return string(c.Op) + " " + c.Path }

// Fault is an instruction to fail.
type Fault struct {
	op      Op
	pattern string
	nth     int
	sticky  bool
	err     error

	f     *FS
	fired int
}

type faults struct {
	mu     sync.Mutex
	list   []*Fault
	hook   func(Call) error
	lie    func(Call) bool
	calls  int
	record bool
	log    []Call
}

// FailOn makes the nth call, counted from 1 and from now on, of op on a path
// that matches pattern fail with err. AnyOp stands for all operations; pattern
// is one of path.Match or, when it is empty, every path. A failed Close, Unmap
// or Sync does its work all the same or loses data as those of an operating
// system do, and a failed WriteAt writes half; every other operation does
// nothing.
func (f *FS) FailOn(op Op, pattern string, nth int, err error) *Fault {
	return f.fault(&Fault{op: op, pattern: pattern, nth: nth, err: err})
}

// FailFrom is FailOn for that call and all after it, until Stop.
func (f *FS) FailFrom(op Op, pattern string, nth int, err error) *Fault {
	return f.fault(&Fault{op: op, pattern: pattern, nth: nth, err: err, sticky: true})
}

func (f *FS) fault(ft *Fault) *Fault {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	ft.f = f
	f.faults.list = append(f.faults.list, ft)
	return ft
}

// Stop ends the instruction.
func (t *Fault) Stop() {
	t.f.faults.mu.Lock()
	defer t.f.faults.mu.Unlock()
	for i, o := range t.f.faults.list {
		if o == t {
			t.f.faults.list = append(t.f.faults.list[:i:i], t.f.faults.list[i+1:]...)
			return
		}
	}
}

// Fired is how many calls it made fail.
func (t *Fault) Fired() int {
	t.f.faults.mu.Lock()
	defer t.f.faults.mu.Unlock()
	return t.fired
}

// Hook calls hook before each operation, from the goroutine that does it; nil
// ends that. An error that it returns is that of the operation. It may block,
// and may take a Snapshot.
func (f *FS) Hook(hook func(Call) error) {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.hook = hook
}

// Lie makes each Sync and SyncDir for which lie returns true claim success and do
// nothing, as a disk does that ignores flushes. It serves to show that a test
// notices.
func (f *FS) Lie(lie func(Call) bool) {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.lie = lie
}

func (f *FS) lies(op Op, p string) bool {
	rel, _ := f.rel(p)
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	return f.faults.lie != nil && f.faults.lie(Call{op, filepath.ToSlash(rel)})
}

// Record begins a list of all calls; the one returned by the function ends it.
func (f *FS) Record() (stop func() []Call) {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.record, f.faults.log = true, nil
	return func() []Call {
		f.faults.mu.Lock()
		defer f.faults.mu.Unlock()
		f.faults.record = false
		return f.faults.log
	}
}

// Calls is the number of operations so far.
func (f *FS) Calls() int {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	return f.faults.calls
}

// step comes before each operation.
func (f *FS) step(op Op, p string) error {
	rel, err := f.rel(p)
	if err != nil {
		return err
	}
	call := Call{op, filepath.ToSlash(rel)}
	hook, err := f.faults.next(call)
	if err == nil && hook != nil {
		err = hook(call)
	}
	return err
}

func (s *faults) next(call Call) (hook func(Call) error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.record {
		s.log = append(s.log, call)
	}
	for _, t := range s.list {
		if t.meets(call) && err == nil {
			t.fired++
			err = t.err
		}
	}
	return s.hook, err
}

// meets counts the call and reports whether it is one to fail.
func (t *Fault) meets(call Call) bool {
	if t.op != AnyOp && t.op != call.Op {
		return false
	}
	if ok, err := path.Match(t.pattern, call.Path); t.pattern != "" && (!ok || err != nil) {
		return false
	}
	t.nth--
	return t.nth == 0 || t.nth < 0 && t.sticky
}
