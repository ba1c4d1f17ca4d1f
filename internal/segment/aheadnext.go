package segment

import (
	"math"
	"slices"
)

// heldFile is a file that is pinned so that the writer finds it mapped.
type heldFile struct {
	*File

	made bool // by this Ahead
}

// making is a file while it is made, which takes syncs: they wait for whatever else
// the disk is writing. In a goroutine of its own, so that the space before it is filled
// meanwhile.
type making struct {
	base int64
	done chan struct{} // closed when file, which is pinned, or err is there
	file *File
	err  error
}

// makeNext has the next file made when it is due. Its error is that of an attempt that
// has ended.
func (a *Ahead) makeNext() error {
	if a.making != nil {
		select {
		case <-a.making.done:
			return a.takeNext()
		default:
			return nil
		}
	}
	next, due := a.nextFile()
	if next == 0 || a.pos.Load() < due {
		return nil
	}
	m := &making{base: next, done: make(chan struct{})}
	a.making = m
	go func() {
		m.file, m.err = a.makeFile(m.base)
		close(m.done)
		a.nudge()
	}()
	return nil
}

// takeNext waits for the file that is being made, if there is one, and holds it.
func (a *Ahead) takeNext() error {
	m := a.making
	if m == nil {
		return nil
	}
	<-m.done
	a.making = nil
	if m.err == nil {
		a.held = append(a.held, heldFile{m.file, true})
	}
	return m.err
}

// nextFile returns the base of the file after the writer's, and the position at which it is due; 0 if it is there or
// being made, or if the writer's own is not there. It is due in the middle of the writer's file, and for a fast writer,
// who may reach the end before the syncs have, at the beginning.
func (a *Ahead) nextFile() (base, due int64) {
	pos, size := a.pos.Load(), a.files.size
	base = pos - pos%size + size
	if last := a.files.Last(); a.making != nil || last == nil || last.End() != base {
		return 0, 0
	}
	return base, base - min(size, max(size/2, 4*a.span))
}

// fileFor returns the file that holds off, making it if it is the next one. It is held until the writer has left it.
func (a *Ahead) fileFor(off int64) (*File, error) {
	a.letGo(a.pos.Load())
	base := off - off%a.files.size
	if a.making != nil && a.making.base == base {
		if err := a.takeNext(); err != nil {
			return nil, err
		}
	}
	for _, f := range a.held {
		if f.base == base {
			return f.File, nil
		}
	}
	made := false
	f := a.files.Acquire(off)
	if f == nil {
		var err error
		if f, err = a.makeFile(base); err != nil {
			return nil, err
		}
		made = true
	}
	a.held = append(a.held, heldFile{f, made})
	return f, nil
}

// makeFile makes the file at base, if that is permitted, and pins it.
func (a *Ahead) makeFile(base int64) (*File, error) {
	if a.cfg.Permit != nil {
		if err := a.cfg.Permit(); err != nil {
			return nil, err
		}
	}
	f, err := a.files.Create(base)
	if err != nil {
		return nil, err
	}
	if !f.Pin() {
		return nil, ErrClosed
	}
	return f, nil
}

// letGo unpins the files that end at or before pos, and those that can not be used, for another attempt.
func (a *Ahead) letGo(pos int64) {
	a.held = slices.DeleteFunc(a.held, func(f heldFile) bool {
		if f.End() > pos && f.state.Load()&broken == 0 {
			return false
		}
		f.Unpin()
		return true
	})
}

// removeUnused removes the files that a made and whose first byte the writer did not reach, newest first.
func (s *Files) removeUnused(a *Ahead) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ahead == a {
		s.ahead = nil
	}
	unused := make(map[*File]bool, len(a.held))
	for _, f := range a.held {
		unused[f.File] = f.made
	}
	a.letGo(math.MaxInt64)
	removed, err := s.removeFrom(a.pos.Load(), func(f *File) bool { return unused[f] })
	if err != nil || len(removed) == 0 {
		return err
	}
	return s.syncDir()
}
