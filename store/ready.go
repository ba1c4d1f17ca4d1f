package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrBusy is returned by WaitReady when puts have to wait for longer than its bound.
var ErrBusy = errors.New("store is busy")

// WaitReady returns when a put would begin without waiting for consume queues that
// are being built, for a dispatcher that lags, or for a disk that counts as full:
// nearly always at once. The error matches ErrBusy when that takes longer than
// bound; others are what PutMessage would return instead of waiting.
func (s *DefaultMessageStore) WaitReady(ctx context.Context, bound time.Duration) error {
	if s.building.Load() == nil && !s.disk.full.Load() {
		if lagging, _ := s.lagging(); lagging == nil {
			return nil
		}
	}
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := s.awaitBuilt(within)
	if err == nil {
		err = s.admit(within)
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: a put waits for more than %v: %w", ErrBusy, bound, err)
	}
	return err
}
