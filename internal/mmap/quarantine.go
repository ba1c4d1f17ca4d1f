package mmap

import (
	"errors"
	"sync"

	mmapgo "github.com/edsrzf/mmap-go"
)

// quarantine holds unmapped ranges that must not be handed out again, the oldest first.
var quarantine struct {
	sync.Mutex
	on     bool
	ranges []mmapgo.MMap
	errs   []error
}

// maxQuarantined is how many ranges stay: a process may have only so many mappings (65,530 by default on Linux), and
// who has none left cannot even allocate.
const maxQuarantined = 1 << 14

// Quarantine makes use after Unmap visible, for tests. The system likes to give the address of an ended mapping to
// the next one, so that a stale slice silently shows the bytes of another file. While quarantined, an ended mapping
// keeps its addresses without any access right: each stale load or store faults, and no Catch claims it. The newest
// 16,384 are kept so. The function returned ends the quarantine and gives the addresses back; it must be called when
// no stale slice is left.
func Quarantine() (release func() error) {
	quarantine.Lock()
	defer quarantine.Unlock()
	quarantine.on = true
	return releaseQuarantine
}

func releaseQuarantine() error {
	quarantine.Lock()
	defer quarantine.Unlock()
	letGo(len(quarantine.ranges))
	err := errors.Join(quarantine.errs...)
	quarantine.on, quarantine.ranges, quarantine.errs = false, nil, nil
	return err
}

// quarantined reports whether the range was taken into quarantine instead of being unmapped by the caller.
func quarantined(data mmapgo.MMap) bool {
	quarantine.Lock()
	defer quarantine.Unlock()
	if !quarantine.on || forbid(data) != nil {
		return false
	}
	quarantine.ranges = append(quarantine.ranges, data)
	if len(quarantine.ranges) > maxQuarantined {
		letGo(maxQuarantined / 2)
	}
	return true
}

// letGo unmaps the n oldest ranges. The lock is held.
func letGo(n int) {
	for _, r := range quarantine.ranges[:n] {
		quarantine.errs = append(quarantine.errs, r.Unmap())
	}
	quarantine.ranges = append([]mmapgo.MMap(nil), quarantine.ranges[n:]...)
}
