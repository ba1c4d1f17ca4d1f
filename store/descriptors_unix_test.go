//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
)

func init() { childParts["few descriptors"] = childWithFewDescriptors }

// TestFewDescriptors: 1,000 queues in a process that may open 256 files, with a
// limit below that; and without one it says what is missing.
func TestFewDescriptors(t *testing.T) {
	out, err := child(t, "few descriptors", scratch(t), 0).Output() // errors go to standard error
	require.NoError(t, err, "%s", out)
}

func childWithFewDescriptors() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	ctx := context.Background()
	cfg := Config{Flush: FlushAsync, MaxMappedFiles: 100, fs: &countFS{FS: segment.OS}}
	for round := range 3 {
		s, err := Open(ctx, os.Getenv(childDir), cfg)
		if err != nil {
			return err
		}
		if err := manyQueues(ctx, s, round); err != nil {
			return errors.Join(err, s.Close())
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	cfg.MaxMappedFiles = 1000
	s, err := Open(ctx, os.Getenv(childDir), cfg)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it can not even sync its directories
	if err := manyQueues(ctx, s, 3); !errors.Is(err, syscall.EMFILE) {
		return fmt.Errorf("without a limit: %w", err)
	}
	return nil
}

// manyQueues puts a message into each of 1,000 queues, which have round of them,
// and reads it.
func manyQueues(ctx context.Context, s *DefaultMessageStore, round int) error {
	for id := range int32(1000) {
		if _, err := s.PutMessage(ctx, inner("t", id, fmt.Sprint(id))); err != nil {
			return err
		}
	}
	if err := s.WaitDispatched(ctx, s.MaxOffset()); err != nil {
		return err
	}
	for id := range int32(1000) {
		r, err := s.GetMessage(ctx, GetQuery{Topic: "t", QueueID: id, MaxCount: 32})
		if err != nil {
			return err
		}
		n := len(r.Messages)
		r.Release()
		if n != round+1 {
			return fmt.Errorf("queue %d has %d messages in round %d", id, n, round)
		}
	}
	return nil
}
