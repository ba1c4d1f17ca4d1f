package mq

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/pocketmq/pocketmq/protocol"
)

// probeTimeout is how long a broker may take to say that it takes messages.
const probeTimeout = 200 * time.Millisecond

// probeSoon makes the goroutine run, and look which broker is next. The mutex
// is held.
func (t *faultTable) probeSoon() {
	if !t.probing {
		t.probing = true
		t.wg.Go(t.probe)
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// close ends the goroutine.
func (t *faultTable) close() {
	t.mu.Lock()
	t.stop()
	t.mu.Unlock()
	t.wg.Wait()
}

// askReturned has those brokers asked at once that failed, had gone from the
// routes, and are in one again. That one has to be in use by now, for what no
// route names is not asked.
func (t *faultTable) askReturned(brokers []*brokerHealth) {
	if len(brokers) == 0 {
		return // there may be no table
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.at(t.now())
	for _, h := range brokers {
		if h.gone && !h.available(now) {
			h.probeAt = now
			h.probed.Store(true)
			t.probeSoon()
		}
		h.gone = false
	}
}

// probe asks brokers that failed whether they take messages again, until none
// is left.
func (t *faultTable) probe() {
	for {
		wait, more := t.untilProbe()
		if !more {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			t.probeDue()
		case <-t.wake:
		case <-t.ctx.Done():
		}
		timer.Stop()
	}
}

// untilProbe is how long to wait for the next probe. When there is none to wait
// for, the goroutine does not run any more. What no route names is not asked
// until one does.
func (t *faultTable) untilProbe() (wait time.Duration, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := int64(math.MaxInt64)
	for name, h := range t.brokers {
		if !h.probed.Load() {
			continue
		}
		if !t.inUse(name) {
			h.probed.Store(false)
			h.gone = true
			continue
		}
		next = min(next, h.probeAt)
	}
	if next == math.MaxInt64 || t.ctx.Err() != nil {
		t.probing = false
		return 0, false
	}
	return time.Duration(next - t.at(t.now())), true
}

// probeDue asks the brokers whose time has come, without the mutex.
func (t *faultTable) probeDue() {
	for _, h := range t.due() {
		t.mu.Lock()
		b := h.broker
		t.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.ctx, probeTimeout)
		err := b.Writable(ctx)
		cancel()
		t.probed(h, err)
	}
}

func (t *faultTable) due() (due []*brokerHealth) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.at(t.now())
	for _, h := range t.brokers {
		if h.probed.Load() && now >= h.probeAt {
			due = append(due, h)
		}
	}
	return due
}

// probed takes an answer. Only a message that is stored makes the failures
// forgotten, so a broker that promises more than it keeps is asked less often.
func (t *faultTable) probed(h *brokerHealth, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !h.probed.Load(): // a message was faster
	case err == nil:
		h.unreachable.Store(false)
		h.probed.Store(false)
		h.over(t.at(t.now()))
	case errors.Is(err, protocol.RequestCodeNotSupported): // time will tell
		h.probed.Store(false)
	default:
		t.isolate(h)
	}
}
