package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
)

// TestPowerLossWithMoreQueuesThanFiles is TestPowerLossWhileWriting with queues
// whose units wait in memory, and whose files are closed before they are synced.
// There is a longer one among the slow tests.
func TestPowerLossWithMoreQueuesThanFiles(t *testing.T) {
	powerLossWithManyQueues(t, FlushSync, 7, 50, 200)
}

func powerLossWithManyQueues(t *testing.T, mode FlushMode, seed uint64, puts, every int) {
	t.Helper()
	sc := newScene(t, mode, scratch(t), seed)
	sc.cfg.MaxMappedFiles, sc.queues, sc.every = 4, 30, every
	sc.play(t, puts)
	y := sc.images(t, seeds(2))
	t.Logf("%d moments: %+v", len(sc.moments), y)
	require.Positive(t, y.fromPoint)
}

// syncsOfQueues counts the syncs of files and directories of consume queues, and
// those of all of the file system.
func syncsOfQueues(calls []crashfs.Call) (single, all int) {
	for _, c := range calls {
		switch {
		case c.Op == crashfs.OpSyncVolume:
			all++
		case (c.Op == crashfs.OpSync || c.Op == crashfs.OpSyncDir) && strings.Contains(c.Path, "consumequeue"):
			single++
		}
	}
	return single, all
}

// TestManyQueuesNeedFewSyncs: none while messages are put, whether their queues
// are new or not, and one for all in the end.
func TestManyQueuesNeedFewSyncs(t *testing.T) {
	fs, dir := crashFSOver(t, scratch(t))
	cfg := withFS(smallConfig(FlushAsync), fs)
	cfg.MaxMappedFiles, cfg.ConsumeQueueFileSize, cfg.FlushInterval = 8, 200*20, 1<<40
	s := openStore(t, dir, cfg)
	stop := fs.Record()
	const queues = 200
	for n := range 5 {
		for q := range int32(queues) {
			_, err := s.PutMessage(context.Background(), inner("t", q, strings.Repeat("x", n+1)))
			require.NoError(t, err)
		}
	}
	dispatched(t, s)
	single, all := syncsOfQueues(stop())
	require.LessOrEqual(t, single, 1, "the directory of all")
	require.Zero(t, all)
	for q := range int32(queues) {
		require.Equal(t, []string{"x", "xx", "xxx", "xxxx", "xxxxx"}, bodies(t, s, "t", q))
	}
	stop = fs.Record()
	closeStore(t, s)
	single, all = syncsOfQueues(stop())
	require.Zero(t, single)
	require.Equal(t, 1, all)

	s = openStore(t, dir, cfg)
	require.True(t, s.Recovery().FromPoint)
	for q := range int32(queues) {
		require.Len(t, bodies(t, s, "t", q), 5)
	}
}

// TestQueuesWithoutASyncOfAllFiles: where the file system can not be synced as a
// whole, each file is.
func TestQueuesWithoutASyncOfAllFiles(t *testing.T) {
	fs, dir := crashFSOver(t, scratch(t))
	cfg := withFS(smallConfig(FlushAsync), fs)
	cfg.MaxMappedFiles = 4
	defer fs.FailFrom(crashfs.OpOpenVolume, "", 1, errors.ErrUnsupported).Stop()
	s := openStore(t, dir, cfg)
	for q := range int32(100) {
		put(t, s, "t", q, "x")
	}
	dispatched(t, s)
	stop := fs.Record()
	closeStore(t, s)
	_, all := syncsOfQueues(stop())
	require.Zero(t, all)
	require.True(t, openStore(t, dir, cfg).Recovery().FromPoint)
}

// TestVolumeThatCanNotBeOpened is an error of Open.
func TestVolumeThatCanNotBeOpened(t *testing.T) {
	fs, dir := crashFSOver(t, scratch(t))
	fs.FailOn(crashfs.OpOpenVolume, "", 1, errInjected)
	_, err := Open(t.Context(), dir, withFS(smallConfig(FlushAsync), fs))
	require.ErrorIs(t, err, errInjected)
}
