package segment

import (
	"errors"
	"fmt"
)

// Allocated returns how many bytes from the start of the file are known to have blocks. It is 0 for a file that was
// there at Open: whoever wrote it may have left holes.
func (f *File) Allocated() int64 { return f.blocks.Load() }

// Prepare returns nil when the first upTo bytes of the file have blocks. It allocates up to the next step, or, if the
// disk is too full for that, up to the page that holds the last of these bytes. On a full disk the error matches
// ErrNoSpace, Allocated is unchanged, and a later call may succeed. What the file holds is not changed. Needs a pin.
func (f *File) Prepare(upTo int64) error {
	if upTo <= f.blocks.Load() {
		return nil
	}
	if upTo > f.list.size {
		return fmt.Errorf("prepare %s: %w: byte %d of %d", f.Path(), ErrBadOffset, upTo, f.list.size)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.allocate(min(roundUp(upTo, f.nextStep()), f.list.size))
	if errors.Is(err, ErrNoSpace) {
		err = f.allocate(min(roundUp(upTo, pageSize()), f.list.size))
	}
	return err
}

// nextStep is how much is allocated at a time: as much as there is already, within bounds.
func (f *File) nextStep() int64 {
	return min(max(f.blocks.Load(), f.list.firstStep), f.list.step)
}

// allocate gives the first upTo bytes blocks. The caller holds f.mu.
func (f *File) allocate(upTo int64) error {
	have := f.blocks.Load()
	if upTo <= have {
		return nil
	}
	if err := f.handle.Allocate(have, upTo-have); err != nil {
		return fmt.Errorf("prepare %s: %w", f.Path(), err)
	}
	f.blocks.Store(upTo)
	return nil
}
