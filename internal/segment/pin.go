package segment

import "errors"

// retired is the bit of File.pins that ends the file: no new pin, and release at the moment the count below it is 0.
// Bit and count share one word, so exactly one goroutine sees "retired and no pins".
const retired = 1 << 30

// isRetired tells whether the file has left its list.
func (f *File) isRetired() bool { return f.pins.Load()&retired != 0 }

// Pin keeps the mapping and the descriptor until Unpin. It returns false once the file has left its list.
func (f *File) Pin() bool {
	for {
		n := f.pins.Load()
		if n&retired != 0 {
			return false
		}
		if f.pins.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Unpin ends one pin. After the last one of a file that left its list, the memory is gone.
func (f *File) Unpin() {
	switch n := f.pins.Add(-1); {
	case n == retired:
		_ = f.release() // nobody is left to tell
	case n&^retired == retired-1, n < 0:
		panic("segment: Unpin of " + f.path + " without a pin")
	}
}

// retire ends the file; its caller took it out of the list. The error is that of releasing it, if that happens here.
func (f *File) retire() error {
	for {
		n := f.pins.Load()
		if n&retired != 0 {
			return nil
		}
		if f.pins.CompareAndSwap(n, n|retired) {
			if n == 0 {
				return f.release()
			}
			return nil
		}
	}
}

// release runs exactly once, when no pin is left and none can come.
func (f *File) release() error {
	errs := []error{f.view.Unmap(), f.handle.Close()}
	if f.drop.Load() {
		errs = append(errs, f.fs.Remove(f.path))
	}
	return errors.Join(errs...)
}
