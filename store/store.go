package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/dispatcher"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// DefaultMessageStore is a store directory that is open. Its methods may be
// called concurrently. It has RocketMQ's name, org.apache.rocketmq.store.
type DefaultMessageStore struct {
	cfg Config
	dir string

	owner      *owner
	primary    primary
	host       message.Host
	log        *commitlog.Log
	queues     *consumequeue.Table
	volume     segment.Volume // nil where it can not be synced as a whole
	dispatcher *dispatcher.Dispatcher
	recent     *commitlog.Follower // what dispatcher reads
	index      *keyIndex           // nil with Config.NoIndex
	counters   counters
	arrivals   arrivals
	recovery   Recovery
	stats      counts
	measures   measures
	growth     growth
	segments   segmentWatch
	troubles   troubles

	dispatchFrom message.LogOffset                // set by recovery: the end of the log, but on a full disk
	undispatched map[queueKey]message.QueueOffset // during recovery on a full disk: next numbers

	checkpoint checkpoint    // used by the maintenance goroutine, and by Open and teardown, like the three below
	point      recoveryPoint // as it is on disk
	pointDue   bool          // it may name what is gone
	pointEnd   atomic.Int64  // its log offset, for everybody
	ledger     ledger

	opening  *opening                 // nil once Open has returned
	building atomic.Pointer[building] // while the consume queues are being built from the log, see Config.RebuildInBackground
	logKept  bool                     // the recovery point names a record that the log has
	endFound bool                     // set when Open has found the end of the log
	vouched  message.LogOffset        // of the point that Open began at: what Queue.Known counts lies before it

	// Room and retention; see clean.go and full.go.
	logFS      segment.FS // for the log; cfg.fs asks the reserve when the disk is full
	reserve    *reserve
	disk       *disk
	followers  []follower
	consumed   atomic.Pointer[Consumed]
	heldBack   atomic.Pointer[func(message.LogOffset)] // see SetHeldBack
	room       room
	cleanings  chan cleaning
	cleanKick  chan struct{}                   // there may be something to remove, or a put waits for room
	rolledKick chan struct{}                   // the log has gone on to another file
	followed   message.LogOffset               // followers hold nothing before it; of the maintenance goroutine, like the next two
	forced     time.Time                       // when files were last removed for the use of the disk alone
	storedLast map[message.LogOffset]time.Time // of some files, by their start

	_              [64]byte     // what the dispatcher writes for each record is apart from what puts read
	lastDispatched atomic.Int64 // log offset of the last record dispatched, -1 for none
	run            run          // of the goroutine that dispatches
	_              [64]byte

	lagCheck atomic.Int64 // a log that ends before it needs no look at the dispatcher: see admit

	flushKick    chan struct{} // there is something to sync in the log
	flushPending atomic.Bool   // FlushAsync: a kick was sent and its sync has not begun
	flushNow     chan struct{} // FlushAsync: do not wait for the interval
	pointKick    chan struct{} // much was synced since the last recovery point
	queuesKick   chan struct{} // consume queues have something to sync
	queuesDirty  atomic.Bool
	stop         chan struct{} // ends the goroutines
	background   sync.WaitGroup

	life      sync.RWMutex // held for reading while a call begins something in background
	closed    atomic.Bool
	closeOnce sync.Once
	hurry     chan struct{} // closed when the caller of Shutdown no longer waits
	hurryOnce sync.Once
	torndown  chan struct{} // closed when everything has ended
	closeErr  error         // set before torndown is closed

	configMu sync.Mutex
	damageMu sync.Mutex // guards recovery.Damaged
}

// Open opens the store in dir, making it if there is none, and recovers it; see
// Recovery. ctx bounds the recovery, nothing later; it may end it at any time,
// and the next Open begins again.
//
// Errors to branch on: message.ErrLocked (*LockedError), ErrNotDirectory,
// ErrReadOnly, ErrNetworkFilesystem, message.ErrCorrupt, ErrForeignFile,
// ErrFileSize, ErrGap, ErrFormat, message.ErrLimit and message.ErrIllegal for the
// configuration, ctx's error. indexfile.ErrUnknownGeometry says that index files of
// somebody else do not show how they are divided: set Config.IndexSlots and
// Config.IndexEntries, or remove the directory index to have it built again. After an error nothing is held, and no message was removed.
func Open(ctx context.Context, dir string, cfg Config) (*DefaultMessageStore, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if dir == "" {
		return nil, fmt.Errorf("open store: %w", &message.IllegalError{Field: "directory", Reason: "is empty"})
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &DefaultMessageStore{
		cfg: cfg, dir: dir,
		flushKick: make(chan struct{}, 1), flushNow: make(chan struct{}, 1), queuesKick: make(chan struct{}, 1), pointKick: make(chan struct{}, 1),
		cleanings: make(chan cleaning), cleanKick: make(chan struct{}, 1), rolledKick: make(chan struct{}, 1),
		storedLast: make(map[message.LogOffset]time.Time),
		stop:       make(chan struct{}), hurry: make(chan struct{}), torndown: make(chan struct{}),
	}
	s.logFS = segment.Rooted(cfg.fs, dir)
	s.cfg.fs = s.logFS
	s.disk = newDisk(s.cfg, dir)
	s.lastDispatched.Store(-1)
	s.run.batch = noBatch
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open store: %w%s", errors.Join(typed(err), s.abandon()), advice(err, dir))
	}
	opened := append([]any{"dir", dir}, s.recovery.attrs()...)
	fire(s, "Recovered", s.cfg.Events.Recovered, s.Recovery())
	s.start()
	s.cfg.Logger.Info("store opened", opened...)
	return s, nil
}

// open takes the directory and recovers it.
func (s *DefaultMessageStore) open(ctx context.Context) error {
	began := time.Now()
	if err := s.cfg.checkFilesystem(s.dir); err != nil {
		return err
	}
	var err error
	if s.owner, err = takeOwnership(s.cfg, s.dir); err != nil {
		return err
	}
	if s.reserve, err = openReserve(s.logFS, s.dir, s.cfg.FileMode, func() { kick(s.cleanKick) }); err != nil {
		return err
	}
	s.cfg.fs = sparing{s.logFS, s.reserve}
	if err := s.owner.mark(s.cfg); err != nil {
		return err
	}
	s.counters.folds = foldsCase(s.cfg.fs, filepath.Join(s.dir, lockFile))
	if err := s.loadPrimary(); err != nil {
		return err
	}
	if err := s.openFiles(); err != nil {
		return err
	}
	for _, q := range s.queues.All() {
		s.counters.named(q.Topic)
	}
	s.opening = &opening{ctx: ctx, report: func(p RecoveryProgress) { fire(s, "Progress", s.cfg.Progress, p) }}
	err = s.recover(ctx)
	s.opening = nil
	if err != nil {
		return err
	}
	if err := s.reserve.resize(s.cfg.Reserve); err != nil {
		return err
	}
	s.recovery.Took = time.Since(began)
	return nil
}

func (s *DefaultMessageStore) openFiles() error {
	levels, err := message.ParseDelayLevels(s.cfg.DelayLevels)
	if err != nil {
		return err
	}
	cache := segment.NewCache(s.cfg.MaxMappedFiles, maxMappedBytes)
	if s.volume, err = s.cfg.fs.OpenVolume(s.dir); err == nil {
		cache.SyncOn(s.volume)
	} else if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	logCfg := commitlog.Config{
		FS: s.logFS, Dir: filepath.Join(s.dir, "commitlog"), FileSize: s.cfg.SegmentSize,
		FileMode: s.cfg.FileMode, DirMode: s.cfg.DirMode, Cache: cache,
		Staged: s.cfg.Flush == FlushSync, SyncTimeout: s.cfg.FlushTimeout, MaxDirty: s.cfg.MaxDirtyBytes, WantFlush: s.flushSoon,
		AppendCRC: s.cfg.AppendPropertyCRC, Now: s.cfg.Now, StoreHost: s.host, DelayLevels: levels, Damaged: s.damaged,
		Permit: s.permitFile, Rolled: func() { kick(s.rolledKick) }, Visible: func() { s.dispatcher.Notify() }, Synced: s.logSynced,
	}
	s.log, err = commitlog.Open(logCfg)
	if errors.Is(err, segment.ErrUnknownSize) {
		logCfg.FileSize = DefaultSegmentSize
		s.log, err = commitlog.Open(logCfg)
	}
	if err != nil {
		return err
	}
	if s.cfg.Reserve, err = s.reserveSize(); err != nil {
		return err
	}
	s.cfg.MaxBodySize = int(min(int64(s.cfg.MaxBodySize), s.log.FileSize()-recordRoom)) // the files that are there may be smaller
	s.queues, err = consumequeue.OpenTable(consumequeue.Config{
		FS: s.cfg.fs, Dir: filepath.Join(s.dir, "consumequeue"), FileSize: s.cfg.ConsumeQueueFileSize,
		Default: DefaultConsumeQueueFileSize, FileMode: s.cfg.FileMode, DirMode: s.cfg.DirMode, Cache: cache,
		TailBytes: int64(s.cfg.MaxMappedFiles) * tailBytes, Loaded: s.queueLoaded,
	})
	if err != nil {
		return err
	}
	s.followers = []follower{s.queues}
	return nil
}

// abandon gives everything back after Open failed. A store that was closed
// properly still counts as such: recovery only removes what can be rebuilt.
func (s *DefaultMessageStore) abandon() error {
	var errs []error
	if s.index != nil {
		errs = append(errs, s.index.files.Close())
	}
	if s.queues != nil {
		errs = append(errs, s.queues.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	errs = append(errs, s.closeVolume())
	if s.reserve != nil {
		errs = append(errs, s.reserve.close())
	}
	if s.owner != nil {
		errs = append(errs, s.owner.release(s.owner.wasClean))
	}
	return errors.Join(errs...)
}

// tailBytes is how much of consume queues waits in memory to be written, for each
// file that may be mapped.
const tailBytes = 32 << 10

// start begins what runs until Close.
func (s *DefaultMessageStore) start() {
	s.disk.look()
	s.recent = s.log.Follow()
	s.log.Start(s.recovery.LogEnd, s.recovery.lastTime)
	s.beginSegments(s.recovery.LogStart, s.recovery.LogEnd)
	s.growth.begin(s.cfg.Now(), s.size())
	var follower *dispatcher.Dispatcher
	if s.index != nil {
		s.index.start(s)
		follower = s.index.dispatcher
	}
	s.dispatcher = dispatcher.Start(dispatcher.Config{
		Source: s.dispatchSource(), Sinks: []dispatcher.Sink{(*queueSink)(s)}, Follower: follower,
		From: s.dispatchFrom, Failed: s.dispatchFailed, Awaited: s.arrivals.awaited, Passed: s.passed,
	})
	s.background.Go(s.flushLoop)
	s.background.Go(s.maintainLoop)
	kick(s.cleanKick)
}

// Dir is the absolute path of the store.
func (s *DefaultMessageStore) Dir() string { return s.dir }

// StoreHost is what the store writes into records that bring no host.
func (s *DefaultMessageStore) StoreHost() message.Host { return s.host }

// MaxBodySize is the largest body that the store takes, in bytes; the elements
// of a batch together are bounded by it, too.
func (s *DefaultMessageStore) MaxBodySize() int { return s.cfg.MaxBodySize }

// Close is Shutdown without a bound: it returns when everything has ended. It
// is idempotent; later calls return nil.
func (s *DefaultMessageStore) Close() error { return s.Shutdown(context.Background()) }

// Shutdown refuses further calls, syncs what was placed, dispatches it, writes
// checkpoint and recovery point, removes the marker of an unclean stop, and
// gives the directory back. Memory of results that were not released stays
// valid until they are.
//
// When ctx ends first it returns ctx's error at once and leaves the rest to the
// background: the marker then stays, and the next Open does a full recovery. It
// stays as well while consume queues are being built in the background, for which
// Shutdown does not wait. It is idempotent: a later call waits for the same end
// and returns nil.
func (s *DefaultMessageStore) Shutdown(ctx context.Context) error {
	first := false
	s.closeOnce.Do(func() {
		first = true
		s.life.Lock()
		s.closed.Store(true)
		s.life.Unlock()
		go s.teardown()
	})
	select {
	case <-s.torndown:
	case <-ctx.Done():
		select {
		case <-s.torndown: // both: the end counts
		default:
			s.hurryOnce.Do(func() { close(s.hurry) })
			return fmt.Errorf("close store: %w", ctx.Err())
		}
	}
	if !first {
		return nil
	}
	return s.closeErr
}

// teardown ends everything, in the order of what depends on what.
func (s *DefaultMessageStore) teardown() {
	defer close(s.torndown)
	s.log.Seal()
	s.room.announce() // nobody waits for room in a log that is sealed
	errs := []error{s.log.Flush()}
	s.dispatcher.Notify()
	ctx, cancel := contextUntil(s.hurry)
	if s.building.Load() != nil { // nothing was put, and the next Open begins again
		errs = append(errs, s.dispatcher.Close())
	} else {
		errs = append(errs, s.dispatcher.Wait(ctx, s.log.Visible()))
	}
	s.finishIndex(ctx)
	cancel()
	close(s.stop)
	s.background.Wait()
	errs = append(errs, s.dispatcher.Close(), s.checkInPlace())
	clean := errors.Join(errs...) == nil && s.building.Load() == nil
	if clean {
		errs = append(errs, s.saveProgress(true))
		clean = errors.Join(errs...) == nil
	}
	if s.index != nil {
		errs = append(errs, s.index.files.Close())
	}
	errs = append(errs, s.queues.Close(), s.log.Close(), s.closeVolume(), s.reserve.close(), s.owner.release(clean))
	if err := errors.Join(errs...); err != nil {
		s.closeErr = fmt.Errorf("close store: %w", typed(err))
	}
	s.cfg.Logger.Info("store closed", "dir", s.dir, "clean", clean, "err", s.closeErr)
}

func (s *DefaultMessageStore) closeVolume() error {
	if s.volume == nil {
		return nil
	}
	return s.volume.Close()
}

// contextUntil is a context that ends with ch.
func contextUntil(ch <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-ch:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (s *DefaultMessageStore) checkOpen() error {
	if s.closed.Load() {
		return fmt.Errorf("store: %w", message.ErrClosed)
	}
	return nil
}
