package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

func TestBackupWhileOthersWrite(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), smallConfig(mode))
			require.NoError(t, s.WriteConfig("topics.json", []byte(`{"a":1}`)))
			for i := range 300 {
				m := inner("topic", int32(i%3), fmt.Sprint("body", i))
				m.Properties = message.Properties("KEYS\x01key" + strconv.Itoa(i))
				_, err := s.PutMessage(t.Context(), m)
				require.NoError(t, err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var writers sync.WaitGroup
			for w := range 2 {
				writers.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						_, _ = s.PutMessage(context.Background(), inner("topic", int32(w), fmt.Sprint("later", w, i)))
					}
				})
			}
			dir := filepath.Join(scratch(t), "made", "copy")
			report, err := s.Backup(t.Context(), dir)
			stop()
			writers.Wait()
			require.NoError(t, err)
			require.True(t, report.Recovery.Clean)
			require.Empty(t, report.Recovery.Damaged)
			require.Zero(t, report.Recovery.CutBytes)

			c := openStore(t, dir, Config{})
			require.True(t, c.Recovery().Clean)
			require.True(t, c.Recovery().FromPoint)
			require.Equal(t, report.LogEnd, c.MaxOffset())
			require.Equal(t, s.StoreHost(), c.StoreHost())
			config, err := c.ReadConfig("topics.json", func([]byte) error { return nil })
			require.NoError(t, err)
			require.Equal(t, `{"a":1}`, string(config))
			for q := range int32(3) {
				got, all := bodies(t, c, "topic", q), bodies(t, s, "topic", q)
				require.GreaterOrEqual(t, len(got), 100)
				require.Equal(t, all[:len(got)], got)
			}
			r, err := c.QueryMessage(t.Context(), KeyQuery{Topic: "topic", Key: "key7"})
			require.NoError(t, err)
			defer r.Release()
			require.Len(t, r.Messages, 1)
			require.Equal(t, "body7", string(r.Messages[0].Body()))
		})
	}
}

func TestBackupOfAnEmptyStore(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	dir := scratch(t)
	_, err := s.Backup(t.Context(), dir)
	require.NoError(t, err)
	c := openStore(t, dir, smallConfig(FlushSync))
	putN(t, c, "topic", 0, 3)
}

// TestBackupKeepsNumbering has a queue of which the log has no message any more.
func TestBackupKeepsNumbering(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "old", 0, 25) // two consume queue files
	for i := 0; s.Stats().LogEnd < 2*testSegment; i++ {
		put(t, s, "new", 0, fmt.Sprint("body", i))
	}
	closeStore(t, s)
	require.NoError(t, os.Remove(filepath.Join(dir, "commitlog", "00000000000000000000")))
	s = openStore(t, dir, smallConfig(FlushSync))
	require.EqualValues(t, 25, s.MinOffsetInQueue("old", 0))
	require.EqualValues(t, 25, s.MaxOffsetInQueue("old", 0))

	copied := scratch(t)
	report, err := s.Backup(t.Context(), copied)
	require.NoError(t, err)
	require.EqualValues(t, testSegment, report.LogStart)
	c := openStore(t, copied, smallConfig(FlushSync))
	require.EqualValues(t, 25, c.MaxOffsetInQueue("old", 0))
	require.EqualValues(t, 25, put(t, c, "old", 0, "next").QueueOffset)
	require.Equal(t, bodies(t, s, "new", 0), bodies(t, c, "new", 0))
}

func TestBackupPassesDamageOver(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "topic", 0, 5)
	dispatched(t, s)
	off, ok := s.CommitLogOffsetInQueue("topic", 0, 2)
	require.True(t, ok)
	closeStore(t, s)
	flip(t, filepath.Join(dir, "commitlog", "00000000000000000000"), int64(off)+90)
	s = openStore(t, dir, smallConfig(FlushSync))
	copied := scratch(t)
	report, err := s.Backup(t.Context(), copied)
	require.NoError(t, err)
	require.Len(t, report.Recovery.Damaged, 1)
	require.Equal(t, off, report.Recovery.Damaged[0].From)
	c := openStore(t, copied, smallConfig(FlushSync))
	require.EqualValues(t, 5, c.MaxOffsetInQueue("topic", 0))
	m, err := c.LookMessageByOffset(t.Context(), report.Recovery.Damaged[0].To)
	require.NoError(t, err)
	require.Equal(t, "body3", string(m.Body))
}

func TestBackupRefuses(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "topic", 0, 5)
	full := scratch(t)
	require.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	file := filepath.Join(full, "x")
	for name, target := range map[string]error{
		"": message.ErrIllegal, dir: message.ErrIllegal, filepath.Join(dir, "copy"): message.ErrIllegal,
		full: message.ErrIllegal, file: ErrNotDirectory,
	} {
		_, err := s.Backup(t.Context(), name)
		require.ErrorIs(t, err, target, name)
	}
	require.NoDirExists(t, filepath.Join(dir, "copy"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Backup(ctx, scratch(t))
	require.ErrorIs(t, err, context.Canceled)
	closeStore(t, s)
	_, err = s.Backup(t.Context(), scratch(t))
	require.ErrorIs(t, err, message.ErrClosed)
}
