package mmap

import (
	"errors"
	"sync"

	mmapgo "github.com/edsrzf/mmap-go"
)

// quarantine holds unmapped ranges that must not be handed out again.
var quarantine struct {
	sync.Mutex
	on     bool
	ranges []mmapgo.MMap
}

// Quarantine makes use after Unmap visible, for tests. The system likes to give the address of an ended mapping to
// the next one, so that a stale slice silently shows the bytes of another file. While quarantined, an ended mapping
// keeps its addresses without any access right: each stale load or store faults, and no Catch claims it. The
// function returned ends the quarantine and gives the addresses back; it must be called when no stale slice is left.
func Quarantine() (release func() error) {
	quarantine.Lock()
	defer quarantine.Unlock()
	quarantine.on = true
	return releaseQuarantine
}

func releaseQuarantine() error {
	quarantine.Lock()
	defer quarantine.Unlock()
	var errs []error
	for _, r := range quarantine.ranges {
		errs = append(errs, r.Unmap())
	}
	quarantine.on, quarantine.ranges = false, nil
	return errors.Join(errs...)
}

// quarantined reports whether the range was taken into quarantine instead of being unmapped by the caller.
func quarantined(data mmapgo.MMap) bool {
	quarantine.Lock()
	defer quarantine.Unlock()
	if !quarantine.on || forbid(data) != nil {
		return false
	}
	quarantine.ranges = append(quarantine.ranges, data)
	return true
}
