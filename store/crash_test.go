package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// The tests in this file run a store on crashfs, take moments while it works,
// write images of what a disk may hold after a loss of power at that moment,
// and open those with the real file system. truth says what must be there.
//
// The store works in a synctest bubble, so its timers (a second and more
// between two saves of progress) cost nothing.

// moment is a possible end of the power.
type moment struct {
	shot *crashfs.Snapshot
	kept int               // messages that must survive, as truth counts
	end  message.LogOffset // what must survive of the log
	call crashfs.Call      // that was about to happen
}

// scene is a store at work, filmed.
type scene struct {
	cfg   Config
	fs    *crashfs.FS
	dir   string
	truth *truth

	mu      sync.Mutex
	rand    *rand.Rand
	moments []moment
	end     message.LogOffset // of moments to come
	queues  int32             // of each topic; 0 means 2
	every   int               // about how many calls lie between two moments
}

func newScene(t testing.TB, mode FlushMode, root string, seed uint64) *scene {
	fs, dir := crashFSOver(t, root)
	return &scene{
		cfg: withFS(smallConfig(mode), fs), fs: fs, dir: dir, truth: newTruth(),
		rand: rand.New(rand.NewPCG(seed, 1)), every: 6,
	}
}

// real is the configuration for opening images.
func (sc *scene) real() Config {
	cfg := sc.cfg
	cfg.fs = nil
	return cfg
}

// changes are the operations worth a moment before them.
var changes = map[crashfs.Op]bool{
	crashfs.OpMkdirAll: true, crashfs.OpMkdir: true, crashfs.OpCreate: true, crashfs.OpRemove: true, crashfs.OpRename: true, crashfs.OpLink: true,
	crashfs.OpSyncDir: true, crashfs.OpWriteAt: true, crashfs.OpTruncate: true, crashfs.OpAllocate: true, crashfs.OpSync: true,
	crashfs.OpMap: true, crashfs.OpClose: true, crashfs.OpSyncVolume: true,
}

const afterClose crashfs.Op = "after Close"

// film is the hook that takes moments.
func (sc *scene) film(c crashfs.Call) error {
	if !changes[c.Op] {
		return nil
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.every > 1 && sc.rand.IntN(sc.every) != 0 {
		return nil
	}
	return sc.take(c)
}

// take takes a moment; what was acknowledged is counted first.
func (sc *scene) take(c crashfs.Call) error {
	_, kept := sc.truth.mark()
	shot, err := sc.fs.Snapshot()
	sc.moments = append(sc.moments, moment{shot, kept, sc.end, c})
	return err
}

// topics of several lengths, so that the ends of records meet sector borders in
// each of their parts.
var crashTopics = []string{"t", "orders", strings.Repeat("long-topic-", 11)}

// message draws one; n makes its body unique.
func drawMessage(r *rand.Rand, n string) message.Message {
	m := message.Message{Topic: crashTopics[r.IntN(len(crashTopics))], Flag: r.Int32()}
	m.Body = []byte(n + ":" + strings.Repeat("b", r.IntN([]int{10, 200, 3000}[r.IntN(3)])))
	switch r.IntN(5) {
	case 0:
		m.Properties = "TAGS\x01TagA\x02KEYS\x01" + message.Properties(n)
	case 2:
		m.Properties = "UNIQ_KEY\x01" + message.Properties(n) + "\x02KEYS\x01all Aa BB " + message.Properties(n[:1])
	case 3:
		m.Properties = "UNIQ_KEY\x01" + message.Properties(n)
	case 1:
		m.Properties = "p\x01" + message.Properties(strings.Repeat("v", r.IntN(2500)+1))
	}
	return m
}

// work puts messages from several goroutines, with pauses in which the store
// gets around to what it does now and then.
func (sc *scene) work(s *DefaultMessageStore, puts int) error {
	const writers = 3
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		sc.mu.Lock()
		seed := sc.rand.Uint64()
		sc.mu.Unlock()
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range puts {
				if err := sc.step(s, r, fmt.Sprintf("%d-%d", w, i)); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (sc *scene) step(s *DefaultMessageStore, r *rand.Rand, name string) error {
	ctx := context.Background()
	messages := []message.Message{drawMessage(r, name)}
	queueID := r.Int32N(cmp.Or(sc.queues, 2))
	var res PutMessageResult
	var err error
	kind := r.IntN(8)
	if kind > 1 {
		sc.truth.send(queueID, messages...)
		m := &message.MessageExtBrokerInner{MessageExt: message.MessageExt{Message: messages[0], QueueID: queueID}}
		if kind < 4 {
			s.PutMessageAsync(ctx, m, sc.answered(messages))
			return nil
		}
		res, err = s.PutMessage(ctx, m)
	} else {
		b := &message.MessageExtBatch{}
		b.Topic, b.QueueID = messages[0].Topic, queueID
		for i := range 1 + r.IntN(3) {
			m := drawMessage(r, fmt.Sprint(name, ".", i))
			m.Topic = b.Topic
			messages = append(messages, m)
		}
		for i := range messages {
			if b.Body, err = message.AppendBatchElement(b.Body, &messages[i]); err != nil {
				return err
			}
		}
		sc.truth.send(queueID, messages...)
		if kind == 0 {
			s.PutMessagesAsync(ctx, b, sc.answered(messages))
			return nil
		}
		res, err = s.PutMessages(ctx, b)
	}
	if err != nil {
		return err
	}
	sc.truth.answered(res, sc.cfg.Flush == FlushSync, messages...)
	if sc.cfg.Flush == FlushAsync && r.IntN(4) == 0 { // there are few calls to film
		sc.mu.Lock()
		err := sc.take(crashfs.Call{Op: "after a put"})
		sc.mu.Unlock()
		if err != nil {
			return err
		}
	}
	switch r.IntN(12) {
	case 0:
		<-time.After(time.Duration(r.IntN(1500)) * time.Millisecond)
	case 1:
		n, _ := sc.truth.mark()
		if err := s.Flush(ctx); err != nil {
			return err
		}
		sc.truth.keep(n)
	default:
		<-time.After(time.Duration(r.IntN(3)) * time.Millisecond)
	}
	return nil
}

// answered is the callback for messages: what it confirms must survive.
func (sc *scene) answered(messages []message.Message) func(PutMessageResult, error) {
	return func(res PutMessageResult, err error) {
		if err != nil {
			panic(err) // caught by the store, and counted
		}
		sc.truth.answered(res, sc.cfg.Flush == FlushSync, messages...)
	}
}

// play opens the store, works, and closes it. Everything is filmed.
func (sc *scene) play(t *testing.T, puts int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sc.fs.Hook(sc.film)
		defer sc.fs.Hook(nil)
		s, err := Open(t.Context(), sc.dir, sc.cfg)
		require.NoError(t, err)
		require.NoError(t, sc.work(s, puts))
		require.NoError(t, s.Close())
		require.Zero(t, s.Stats().CallbackPanics)
		n, _ := sc.truth.mark()
		sc.truth.keep(n)
		require.NoError(t, sc.take(crashfs.Call{Op: afterClose}))
	})
}

// yield is what images showed.
type yield struct {
	images int
	loss   crashfs.Loss

	clean, fromPoint      int // how often
	cut, removed, dropped int // how often recovery had something to take away
	unacknowledged        int // messages that survived though they need not have
}

func (y *yield) add(l crashfs.Loss, f found, kept int) {
	y.images++
	y.loss.Add(l)
	for n, yes := range map[*int]bool{
		&y.clean: f.recovery.Clean, &y.fromPoint: f.recovery.FromPoint,
		&y.cut: f.recovery.CutBytes > 0, &y.removed: len(f.recovery.RemovedFiles) > 0, &y.dropped: f.recovery.UnitsDropped > 0,
	} {
		if yes {
			*n++
		}
	}
	y.unacknowledged += max(0, len(f.messages)-kept)
}

func (y *yield) sum(o yield) {
	y.loss.Add(o.loss)
	y.images += o.images
	y.clean += o.clean
	y.fromPoint += o.fromPoint
	y.cut += o.cut
	y.removed += o.removed
	y.dropped += o.dropped
	y.unacknowledged += o.unacknowledged
}

// images writes images of every moment and checks them, on two processors.
func (sc *scene) images(t *testing.T, seeds []uint64) (y yield) {
	t.Helper()
	type job struct {
		m    moment
		seed uint64
	}
	jobs := make(chan job)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed atomic.Bool
	root := scratch(t)
	for range 2 {
		wg.Go(func() {
			for j := range jobs {
				dir := filepath.Join(root, fmt.Sprintf("%p-%d", j.m.shot, j.seed))
				l, f, err := sc.image(j.m, j.seed, dir)
				if err != nil {
					failed.Store(true)
					t.Errorf("image of seed %d, before %v: %v", j.seed, j.m.call, err)
				}
				mu.Lock()
				y.add(l, f, j.m.kept)
				mu.Unlock()
			}
		})
	}
	for i, m := range sc.moments {
		seeds := seeds
		if m.call.Op == afterClose { // all must be there, so more is worth trying
			seeds = append(slices.Clip(seeds), 100, 101, 102, 103, 104, 105, 106, 107, 108, 109)
		}
		for _, s := range seeds {
			if s > crashfs.Newest {
				s += uint64(i) * 1000 // another draw for each moment
			}
			if !failed.Load() {
				jobs <- job{m, s}
			}
		}
	}
	close(jobs)
	wg.Wait()
	return y
}

// image writes one image, checks it, and removes it.
func (sc *scene) image(m moment, seed uint64, dir string) (crashfs.Loss, found, error) {
	defer os.RemoveAll(dir)
	l, err := m.shot.Image(seed, dir)
	if err != nil {
		return l, found{}, err
	}
	f, err := sc.truth.verifyDir(filepath.Join(dir, "store"), sc.real(), m.kept)
	if err == nil && f.recovery.LogEnd < m.end {
		err = fmt.Errorf("the log ends at %d, and was served up to %d before", f.recovery.LogEnd, m.end)
	}
	return l, f, err
}

func seeds(n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(i)
	}
	return out
}

// require makes sure that the images were worth their name.
func (y yield) require(t *testing.T, images int) {
	t.Helper()
	require.GreaterOrEqual(t, y.images, images)
	require.Positive(t, y.loss.Pages)
	require.Positive(t, y.loss.Torn)
	require.Positive(t, y.loss.Entries)
}

// TestPowerLossWhileWriting: nothing acknowledged is lost, nothing else
// appears, at any moment from the first Open to the end of Close.
func TestPowerLossWhileWriting(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			const seed = 20
			sc := newScene(t, mode, scratch(t), seed)
			sc.play(t, 12)
			y := sc.images(t, seeds(3))
			t.Logf("seed %d: %d moments: %+v", seed, len(sc.moments), y)
			y.require(t, 100)
		})
	}
}

// TestPowerLossTestNoticesALostSync shows that the tests above can fail: here
// the third sync of the log claims success and does nothing.
func TestPowerLossTestNoticesALostSync(t *testing.T) {
	sc := newScene(t, FlushSync, scratch(t), 3)
	sc.every = 1
	syncs := 0
	sc.fs.Lie(func(c crashfs.Call) bool {
		if c.Op == crashfs.OpSync && strings.Contains(c.Path, "commitlog") {
			syncs++
		}
		return syncs >= 3
	})
	sc.play(t, 3)
	for i, m := range sc.moments {
		_, _, err := sc.image(m, crashfs.Oldest, filepath.Join(scratch(t), fmt.Sprint(i)))
		if err != nil && strings.Contains(err.Error(), "lost") {
			return
		}
	}
	t.Fatal("no image shows what was lost")
}

// TestPowerLossAfterAKill: what a killed process left is in the page cache and
// not on disk, and nothing marks it for writing. Before it is served it is
// written again, in every file of the log and of the queues.
func TestPowerLossAfterAKill(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			fs, dir := newCrashFS(t)
			sizes := smallConfig(mode)
			sizes.ConsumeQueueFileSize = 20_000 // one file of several pages
			cfg := withFS(sizes, fs)
			fs.Lie(func(c crashfs.Call) bool { // no message and no unit reaches the disk
				return c.Op == crashfs.OpSync && (strings.Contains(c.Path, "commitlog/") || strings.Contains(c.Path, "consumequeue/"))
			})
			s := openStore(t, dir, cfg)
			n := 500
			putN(t, s, "t", 0, n)
			closeStore(t, s)
			fs.Lie(nil)
			require.NoError(t, fs.Remove(filepath.Join(dir, ownDir, pointFile)))
			require.NoError(t, fs.Remove(filepath.Join(dir, "checkpoint")))
			require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))

			s = openStore(t, dir, cfg)
			require.False(t, s.Recovery().Clean)
			require.Empty(t, firstDifference(sequence(n), bodies(t, s, "t", 0)))
			check := func(when string, seeds uint64) {
				shot, err := fs.Snapshot()
				require.NoError(t, err)
				for seed := range seeds {
					image := scratch(t)
					_, err := shot.Image(seed, image)
					require.NoError(t, err)
					crashed := openStore(t, filepath.Join(image, "store"), sizes)
					require.Empty(t, firstDifference(sequence(n), bodies(t, crashed, "t", 0)), "%s, seed %d", when, seed)
					closeStore(t, crashed)
				}
			}
			check("after Open", 10)
			closeStore(t, s)
			check("after Close", 40)
			s = openStore(t, dir, cfg)
			require.True(t, s.Recovery().FromPoint)
			putN(t, s, "t", n, 400)
			n += 400
			closeStore(t, s)
			check("after another Close", 40)
		})
	}
}

// TestPowerLossInTheFirstOpen: every image of the first Open is an empty store,
// at every call (C15: a first start that is cut off leaves no directory that
// can not be opened).
func TestPowerLossInTheFirstOpen(t *testing.T) {
	sc := newScene(t, FlushSync, scratch(t), 1)
	sc.every = 1
	sc.fs.Hook(sc.film)
	s, err := Open(t.Context(), sc.dir, sc.cfg)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	sc.fs.Hook(nil)
	require.NoError(t, sc.take(crashfs.Call{Op: afterClose}))
	y := sc.images(t, seeds(4))
	require.Greater(t, len(sc.moments), 20)
	require.Positive(t, y.loss.Entries)
}

// TestPowerLossWhileRecovering: power fails, and fails again at every call of
// the Open after that, and of its Close.
func TestPowerLossWhileRecovering(t *testing.T) {
	notEmulated(t)
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			const seed = 11
			first := newScene(t, mode, scratch(t), seed)
			first.every = 4
			first.play(t, 12)
			y, times := powerLossWhileRecovering(t, first, 3, 3, crashfs.Oldest, 2)
			t.Logf("seed %d: %d recoveries: %+v", seed, times, y)
			require.Equal(t, 3, times)
			require.GreaterOrEqual(t, y.images, 60)
		})
	}
}

// powerLossWhileRecovering films recoveries of images of first, and checks
// images of those.
func powerLossWhileRecovering(t *testing.T, first *scene, recoveries, every int, seeds ...uint64) (total yield, times int) {
	t.Helper()
	for i := range first.moments {
		if times == recoveries || t.Failed() {
			break
		}
		m := first.moments[(i*7+3)%len(first.moments)]
		if m.kept == 0 && i < len(first.moments)/2 {
			continue // there are better ones
		}
		times++
		root := scratch(t)
		_, err := m.shot.Image(uint64(i)+2, root)
		require.NoError(t, err)
		second := newScene(t, first.cfg.Flush, root, uint64(i))
		second.truth, second.every = first.truth, every
		second.truth.mu.Lock()
		second.truth.kept = m.kept
		second.truth.mu.Unlock()
		second.fs.Hook(second.film)
		s, err := Open(t.Context(), second.dir, second.cfg)
		require.NoError(t, err)
		second.mu.Lock()
		second.end = s.MaxOffset() // what is served is on disk, in both modes
		err = second.take(crashfs.Call{Op: "after Open"})
		second.mu.Unlock()
		require.NoError(t, err)
		require.NoError(t, s.Close())
		second.fs.Hook(nil)
		require.NoError(t, second.take(crashfs.Call{Op: afterClose}))
		total.sum(second.images(t, seeds))
	}
	return total, times
}
