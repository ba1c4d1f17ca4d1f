package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// Queue z gets its first message in the middle of the log, so that a build of all
// queues from the log can be held there.
const (
	beforeZ, behindZ = 150, 60
	zFiles           = "store/consumequeue/z/0/*"
)

func longBody(i int) string { return fmt.Sprint("body", i, strings.Repeat(".", 400)) }

func longBodies(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = longBody(i)
	}
	return out
}

// filledForBuilding makes a store in root/store and closes it.
func filledForBuilding(t *testing.T) (root string) {
	t.Helper()
	root = scratch(t)
	s := openStore(t, filepath.Join(root, "store"), smallConfig(FlushAsync))
	for i := range beforeZ {
		putKeyed(t, s, keyed("a", longBody(i), fmt.Sprint("k", i), ""))
	}
	put(t, s, "z", 0, "z0")
	put(t, s, "z", 0, "z1")
	for i := range behindZ {
		putKeyed(t, s, keyed("a", longBody(beforeZ+i), fmt.Sprint("k", beforeZ+i), ""))
	}
	require.Greater(t, s.log.Files(), rocketMQReads+1)
	closeStore(t, s)
	return root
}

// harms are why the queues have to be built, with the end of the log known.
var harms = map[string]func(t *testing.T, dir string){
	"a queue is gone": func(t *testing.T, dir string) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue", "z")))
	},
	"all queues are gone": func(t *testing.T, dir string) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
	},
	"all queues are gone, crash": func(t *testing.T, dir string) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))
	},
	"no point": func(t *testing.T, dir string) {
		require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue", "z")))
	},
	"only RocketMQ's files": func(t *testing.T, dir string) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, ownDir)))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
	},
	"the ledger is gone": func(t *testing.T, dir string) {
		require.NoError(t, os.Remove(filepath.Join(dir, ownDir, ledgerFiles[0])))
		_ = os.Remove(filepath.Join(dir, ownDir, ledgerFiles[1]))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue", "z")))
	},
	"a queue's file is gone": func(t *testing.T, dir string) {
		require.NoError(t, os.Remove(filepath.Join(dir, "consumequeue", "a", "0", segment.FileName(2*testQueueFile))))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue", "z")))
	},
	"units are wrong": func(t *testing.T, dir string) {
		overwrite(t, filepath.Join(dir, "consumequeue", "a", "0", segment.FileName(0)), 40, make([]byte, 60))
		overwrite(t, filepath.Join(dir, "consumequeue", "a", "0", segment.FileName(testQueueFile)), 45, []byte("garbage"))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue", "z")))
	},
}

// TestBuildInBackground holds the build in the middle: what was built is read,
// puts wait, and in the end all is as after an Open that has waited.
func TestBuildInBackground(t *testing.T) {
	whole := filledForBuilding(t)
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			root := copyTree(t, whole)
			harm(t, filepath.Join(root, "store"))
			reference := copyTree(t, root)
			synctest.Test(t, func(t *testing.T) {
				fs, dir := crashFSOver(t, root)
				release := hold(fs, crashfs.OpCreate, zFiles)
				cfg := withFS(smallConfig(FlushAsync), fs)
				cfg.RebuildInBackground = true
				s := openStore(t, dir, cfg)
				rest(s)

				r := s.Recovery()
				require.True(t, r.Rebuilding)
				require.Less(t, r.Bytes, int64(r.LogEnd), "not all of the log was read")
				h := requireReason(t, s, HealthRebuilding, HealthDegraded)
				require.Nil(t, h.Cause)
				left := s.Stats().RebuildLeft
				require.Positive(t, left)
				require.Less(t, left, int64(r.LogEnd))

				// what was built is there, and what was not is still to come
				require.EqualValues(t, beforeZ, s.MaxOffsetInQueue("a", 0))
				require.Equal(t, longBodies(beforeZ), readBuilt(t, s, "a"))
				for _, at := range []message.QueueOffset{beforeZ, beforeZ + 7, beforeZ + behindZ} {
					g := read(t, s, "a", 0, at)
					require.Equal(t, GetOffsetOverflowOne, g.Status)
					require.Equal(t, at, g.NextBeginOffset)
				}
				require.Equal(t, message.QueueOffset(1), read(t, s, "z", 0, 1).NextBeginOffset)
				require.Equal(t, message.QueueOffset(3), read(t, s, "unknown", 0, 3).NextBeginOffset)
				_, ok := s.CommitLogOffsetInQueue("a", 0, beforeZ)
				require.False(t, ok)
				_, err := s.DeleteExpired(t.Context())
				require.NoError(t, err)

				// puts wait, and store nothing while they do
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = s.PutMessage(short, inner("a", 0, "x"))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				_, err = s.PutMessages(short, batchOf(t, "z", 0, message.Message{Body: []byte("x")}))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				s.PutMessageAsync(short, inner("new", 0, "x"), func(_ PutMessageResult, got error) { err = got })
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, r.LogEnd, s.MaxOffset())
				short, cancel = context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, s.WaitDispatched(short, r.LogEnd), context.DeadlineExceeded)
				rest(s) // progress is saved meanwhile, and must vouch for nothing

				type answer struct {
					r   PutMessageResult
					err error
				}
				answers := make(chan answer, 1)
				go func() {
					r, err := s.PutMessage(context.Background(), inner("z", 0, "z2"))
					answers <- answer{r, err}
				}()
				synctest.Wait()
				require.Empty(t, answers)
				require.EqualValues(t, 1, s.Stats().WaitingForDispatch)
				release()
				a := <-answers
				require.NoError(t, a.err)
				require.EqualValues(t, 2, a.r.QueueOffset)
				require.EqualValues(t, beforeZ+behindZ, put(t, s, "a", 0, "last").QueueOffset)
				require.Equal(t, append(longBodies(beforeZ+behindZ), "last"), bodies(t, s, "a", 0))
				require.Equal(t, []string{"z0", "z1", "z2"}, bodies(t, s, "z", 0))
				requireHealthy(t, s)
				require.Zero(t, s.Stats().RebuildLeft)
				require.Contains(t, s.Recovery().QueuesMade, filepath.Join(dir, "consumequeue", "z", "0"))
				indexed(t, s)
				closeStore(t, s)
			})

			waited := openStore(t, filepath.Join(reference, "store"), smallConfig(FlushAsync))
			require.False(t, waited.Recovery().Rebuilding)
			require.EqualValues(t, 2, put(t, waited, "z", 0, "z2").QueueOffset)
			require.EqualValues(t, beforeZ+behindZ, put(t, waited, "a", 0, "last").QueueOffset)
			indexed(t, waited)
			closeStore(t, waited)
			require.Empty(t, difference(onlyUnits(t, reference), onlyUnits(t, root)))

			s := openStore(t, filepath.Join(root, "store"), Config{RebuildInBackground: true})
			require.True(t, s.Recovery().Clean)
			require.True(t, s.Recovery().FromPoint)
			require.False(t, s.Recovery().Rebuilding)
			require.Zero(t, s.Recovery().Records)
			closeStore(t, s)
		})
	}
}

// readBuilt reads queue 0 of a topic up to where it is not built.
func readBuilt(t *testing.T, s *DefaultMessageStore, topic string) (out []string) {
	t.Helper()
	for next := message.QueueOffset(0); ; {
		r := read(t, s, topic, 0, next)
		if r.Status != GetFound {
			require.Equal(t, GetOffsetOverflowOne, r.Status)
			require.Equal(t, next, r.NextBeginOffset)
			return out
		}
		for _, v := range r.Messages {
			require.EqualValues(t, len(out), v.QueueOffset())
			out = append(out, string(v.Body()))
		}
		next = r.NextBeginOffset
	}
}

// onlyUnits is the consume queues of the store in root.
func onlyUnits(t *testing.T, root string) map[string]string {
	t.Helper()
	files, err := tree(filepath.Join(root, "store", "consumequeue"))
	require.NoError(t, err)
	return files
}

// TestBuildInBackgroundEndsInTheMiddle: by Close, or by loss of power. The
// directory is not clean then, and the next Open, of either kind, makes it whole.
func TestBuildInBackgroundEndsInTheMiddle(t *testing.T) {
	whole := filledForBuilding(t)
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			root := copyTree(t, whole)
			harm(t, filepath.Join(root, "store"))
			images := map[string]string{"closed": root}
			seeds := map[string]uint64{"power lost, oldest": crashfs.Oldest, "power lost": 7, "power lost again": 8}
			for about := range seeds {
				images[about] = scratch(t)
			}
			synctest.Test(t, func(t *testing.T) {
				fs, dir := crashFSOver(t, root)
				release := hold(fs, crashfs.OpCreate, zFiles)
				cfg := withFS(smallConfig(FlushAsync), fs)
				cfg.RebuildInBackground = true
				s := openStore(t, dir, cfg)
				rest(s)
				for about, seed := range seeds {
					_, err := fs.Crash(seed, images[about])
					require.NoError(t, err)
				}
				waiting := make(chan error, 1)
				go func() {
					_, err := s.PutMessage(context.Background(), inner("z", 0, "never"))
					waiting <- err
				}()
				closed := make(chan error, 1)
				go func() {
					closed <- s.Close()
				}()
				synctest.Wait()
				release()
				require.NoError(t, <-closed)
				require.ErrorIs(t, <-waiting, message.ErrClosed)
			})
			for about, image := range images {
				require.FileExists(t, filepath.Join(image, "store", abortFile), about)
				for _, background := range []bool{false, true} {
					again := copyTree(t, image)
					cfg := smallConfig(FlushAsync)
					cfg.RebuildInBackground = background
					s := openStore(t, filepath.Join(again, "store"), cfg)
					require.False(t, s.Recovery().Clean, about)
					require.Empty(t, s.Recovery().Damaged, about)
					require.EqualValues(t, 2, put(t, s, "z", 0, "z2").QueueOffset, about)
					require.Equal(t, longBodies(beforeZ+behindZ), bodies(t, s, "a", 0), about)
					require.Equal(t, []string{"z0", "z1", "z2"}, bodies(t, s, "z", 0), about)
					for _, i := range []int{0, beforeZ - 1, beforeZ, beforeZ + behindZ - 1} {
						require.Equal(t, []string{longBody(i)}, find(t, s, KeyQuery{Topic: "a", Key: fmt.Sprint("k", i)}), about)
					}
					closeStore(t, s)
				}
			}
		})
	}
}

// TestBuildInBackgroundKeepsNumbers: of queues whose messages are all gone, and
// behind a last message that can not be read.
func TestBuildInBackgroundKeepsNumbers(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushAsync))
	for range 5 {
		put(t, s, "gone", 0, "x")
	}
	for i := 0; s.log.Files() < 7; i++ {
		put(t, s, "a", 0, longBody(i))
	}
	dispatched(t, s)
	_, err := s.RemoveBefore(t.Context(), 2*testSegment)
	require.NoError(t, err)
	require.EqualValues(t, 2*testSegment, s.MinOffset())
	last := put(t, s, "a", 0, longBody(0))
	closeStore(t, s)
	poke(t, dir, int64(last.LogOffset)+4, make([]byte, 4)) // its magic
	reference := copyTree(t, dir)

	cfg := smallConfig(FlushAsync)
	cfg.RebuildInBackground = true
	s = openStore(t, dir, cfg)
	require.True(t, s.Recovery().Rebuilding)
	waited := openStore(t, reference, smallConfig(FlushAsync))
	require.EqualValues(t, 5, put(t, s, "gone", 0, "y").QueueOffset)
	require.EqualValues(t, 5, put(t, waited, "gone", 0, "y").QueueOffset)
	dispatched(t, waited)
	dispatched(t, s)
	require.Equal(t, waited.Queues(), s.Queues())
	require.Equal(t, waited.Recovery().LogEnd, s.Recovery().LogEnd)
	require.Equal(t, waited.Recovery().Missing, s.Recovery().Missing)
	require.Len(t, s.Recovery().Damaged, 1)
	require.Equal(t, bodies(t, waited, "a", 0), bodies(t, s, "a", 0))
	closeStore(t, s)
	closeStore(t, waited)
}

// TestBuildInBackgroundTriesAgain: what fails in between is told to who waits, and
// tried again.
func TestBuildInBackgroundTriesAgain(t *testing.T) {
	root := filledForBuilding(t)
	harms["all queues are gone"](t, filepath.Join(root, "store"))
	for op, pattern := range map[crashfs.Op]string{
		crashfs.OpCreate:  zFiles,                    // in the middle
		crashfs.OpSyncDir: "store/consumequeue/z",    // at the end
		crashfs.OpMkdir:   "store/consumequeue/[az]", // at the start
	} {
		again := copyTree(t, root)
		synctest.Test(t, func(t *testing.T) {
			fs, dir := crashFSOver(t, again)
			failing := fs.FailFrom(op, pattern, 1, segment.ErrNoSpace)
			cfg := withFS(smallConfig(FlushAsync), fs)
			cfg.RebuildInBackground = true
			s := openStore(t, dir, cfg)
			_, err := s.PutMessage(t.Context(), inner("z", 0, "x"))
			require.ErrorIs(t, err, message.ErrDiskFull, op)
			require.True(t, s.Recovery().Rebuilding)
			require.Positive(t, s.Stats().DispatchFailures)
			failing.Stop()
			<-time.After(time.Minute)
			require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
			require.EqualValues(t, 2, put(t, s, "z", 0, "z2").QueueOffset)
			require.Equal(t, longBodies(beforeZ+behindZ), bodies(t, s, "a", 0))
			closeStore(t, s)
		})
	}
}

// TestNothingIsLeftForLater where all of the log has to be read to find its end, or
// the queues are as the point says.
func TestNothingIsLeftForLater(t *testing.T) {
	whole := filledForBuilding(t)
	for about, harm := range map[string]func(t *testing.T, dir string){
		"nothing to do": func(*testing.T, string) {},
		"crash, with a point": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))
		},
		"crash without a point": crashed,
		"new":                   func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
	} {
		dir := filepath.Join(copyTree(t, whole), "store")
		harm(t, dir)
		cfg := smallConfig(FlushAsync)
		cfg.RebuildInBackground = true
		s := openStore(t, dir, cfg)
		require.False(t, s.Recovery().Rebuilding, about)
		require.False(t, s.Health().Has(HealthRebuilding), about)
		put(t, s, "a", 0, "x")
		closeStore(t, s)
	}
}

// TestProgress: Open tells how far it is, and its context ends it, wherever it
// is.
func TestProgress(t *testing.T) {
	whole := filepath.Join(filledForBuilding(t), "store")
	crashed(t, whole)
	var told []RecoveryProgress
	cfg := smallConfig(FlushAsync)
	cfg.Progress = func(p RecoveryProgress) { told = append(told, p) }
	dir := copyTree(t, whole)
	s := openStore(t, dir, cfg)
	r := s.Recovery()
	require.False(t, r.FromPoint)
	closeStore(t, s)
	stages := make(map[RecoveryStage]RecoveryProgress)
	for _, p := range told {
		before, seen := stages[p.Stage]
		if !seen {
			require.Zero(t, p.Done)
		}
		require.GreaterOrEqual(t, p.Done, before.Done)
		require.GreaterOrEqual(t, p.Total, p.Done)
		stages[p.Stage] = p
	}
	require.Equal(t, RecoveryProgress{RecoveryReadsLog, int64(r.LogEnd), int64(r.LogEnd), r.Records}, stages[RecoveryReadsLog])
	require.Contains(t, stages, RecoveryRewritesLog)
	require.Equal(t, "reading the log", RecoveryReadsLog.String())

	for _, stage := range []RecoveryStage{RecoveryReadsLog, RecoveryRewritesLog} {
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Progress = func(p RecoveryProgress) {
			if p.Stage == stage {
				cancel()
			}
			require.LessOrEqual(t, p.Stage, stage, "it went on")
		}
		dir := copyTree(t, whole)
		_, err := Open(ctx, dir, cfg)
		require.ErrorIs(t, err, context.Canceled)
		s := openStore(t, dir, smallConfig(FlushAsync))
		require.False(t, s.Recovery().Clean)
		require.Equal(t, longBodies(beforeZ+behindZ), bodies(t, s, "a", 0))
		closeStore(t, s)
	}

	cfg.Progress = func(RecoveryProgress) { panic("boom") }
	closeStore(t, openStore(t, copyTree(t, whole), cfg))
}

// TestProgressOfAQueue: one that is built again during Open reads all of the log.
func TestProgressOfAQueue(t *testing.T) {
	dir := filepath.Join(filledForBuilding(t), "store")
	require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))
	overwrite(t, filepath.Join(dir, "consumequeue", "z", "0", segment.FileName(0)), 0, make([]byte, 40))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := smallConfig(FlushAsync)
	var told []RecoveryProgress
	cfg.Progress = func(p RecoveryProgress) {
		told = append(told, p)
		if p.Stage == RecoveryReadsQueue {
			cancel()
		}
	}
	_, err := Open(ctx, dir, cfg)
	require.ErrorIs(t, err, context.Canceled, fmt.Sprint(told))
	s := openStore(t, dir, smallConfig(FlushAsync))
	require.Equal(t, []string{"z0", "z1"}, bodies(t, s, "z", 0))
	closeStore(t, s)
}

// TestCutReason: what was found at the end of the log.
func TestCutReason(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "t", 0, 5)
	last := put(t, s, "t", 0, "last")
	end := int64(s.MaxOffset())
	closeStore(t, s)
	require.NoError(t, s.Recovery().CutReason)
	for about, c := range map[string]struct {
		at   int64
		b    []byte
		want string
	}{
		"zeros":     {end + 300, []byte("x"), "zeros where a record should be"},
		"checksum":  {int64(last.LogOffset) + 88, []byte("L"), "checksum"},
		"magic":     {int64(last.LogOffset) + 4, make([]byte, 4), "magic"},
		"elsewhere": {end, peek(t, dir, 0, 200), "a record that was written for offset 0"},
		"nothing":   {end, nil, ""},
	} {
		harmed := copyTree(t, dir)
		crashed(t, harmed)
		poke(t, harmed, c.at, c.b)
		s := openStore(t, harmed, smallConfig(FlushSync))
		r := s.Recovery()
		closeStore(t, s)
		if c.want == "" {
			require.NoError(t, r.CutReason)
			continue
		}
		require.Positive(t, r.CutBytes, about)
		require.ErrorIs(t, r.CutReason, message.ErrCorrupt, about)
		require.ErrorContains(t, r.CutReason, c.want, about)
		require.Contains(t, fmt.Sprint(r.attrs()...), c.want)
	}
	require.False(t, errors.Is(s.Recovery().CutReason, message.ErrCorrupt))
}

// TestBuildInBackgroundIsFollowed: who waits for messages gets them as they are
// built, each once and in order.
func TestBuildInBackgroundIsFollowed(t *testing.T) {
	dir := filepath.Join(filledForBuilding(t), "store")
	harms["units are wrong"](t, dir)
	cfg := smallConfig(FlushAsync)
	cfg.RebuildInBackground = true
	s := openStore(t, dir, cfg)
	arrived := make(chan struct{}, 1)
	defer s.NotifyArrival("a", arrived)()
	n, next := 0, message.QueueOffset(0)
	for n < beforeZ+behindZ {
		r, err := s.GetMessage(t.Context(), GetQuery{Topic: "a", Offset: next, MaxCount: 32, Verify: true})
		require.NoError(t, err)
		for _, v := range r.Messages {
			require.Equal(t, longBody(n), string(v.Body()))
			n++
		}
		next = r.NextBeginOffset
		status := r.Status
		require.EqualValues(t, n, next)
		r.Release()
		if status != GetFound {
			require.Equal(t, GetOffsetOverflowOne, status)
			<-arrived
		}
	}
	closeStore(t, s)
}

// TestBuildInBackgroundPowerLost: at many moments, from the Open on until the
// store is closed. No message is lost, and no number given twice.
func TestBuildInBackgroundPowerLost(t *testing.T) {
	whole := filledForBuilding(t)
	for _, name := range []string{"all queues are gone, crash", "no point", "units are wrong"} {
		root := copyTree(t, whole)
		harms[name](t, filepath.Join(root, "store"))
		var shots []*crashfs.Snapshot
		var kept []bool // the messages put at the end
		var acknowledged atomic.Bool
		synctest.Test(t, func(t *testing.T) {
			fs, dir := crashFSOver(t, root)
			calls := 0
			var mu sync.Mutex
			fs.Hook(func(c crashfs.Call) error {
				mu.Lock()
				defer mu.Unlock()
				if calls++; !changes[c.Op] || calls%9 != 0 {
					return nil
				}
				kept = append(kept, acknowledged.Load()) // first
				shot, err := fs.Snapshot()
				shots = append(shots, shot)
				return err
			})
			cfg := withFS(smallConfig(FlushSync), fs)
			cfg.RebuildInBackground = true
			s := openStore(t, dir, cfg)
			require.True(t, s.Recovery().Rebuilding)
			put(t, s, "z", 0, "z2")
			acknowledged.Store(true)
			rest(s)
			closeStore(t, s)
		})
		require.Greater(t, len(shots), 5)
		for i, shot := range shots {
			for seed := range uint64(3) {
				image := scratch(t)
				_, err := shot.Image(seed+uint64(i%2), image)
				require.NoError(t, err)
				about := fmt.Sprint(name, ", moment ", i, ", seed ", seed)
				cfg := smallConfig(FlushSync)
				cfg.RebuildInBackground = seed == 1
				s := openStore(t, filepath.Join(image, "store"), cfg)
				require.Empty(t, s.Recovery().Damaged, about)
				want := []string{"z0", "z1"}
				require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()), about)
				if n := int(s.MaxOffsetInQueue("z", 0)); kept[i] || n == 3 {
					want = append(want, "z2")
				}
				require.EqualValues(t, len(want), put(t, s, "z", 0, "more").QueueOffset, about)
				require.Equal(t, append(want, "more"), bodies(t, s, "z", 0), about)
				require.Equal(t, longBodies(beforeZ+behindZ), bodies(t, s, "a", 0), about)
				closeStore(t, s)
				require.NoError(t, os.RemoveAll(image))
			}
		}
	}
}
