package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// FlushMode says what a put has achieved when it returns without an error.
type FlushMode uint8

const (
	// FlushSync is the default: the message is on disk. Writers share syncs. It
	// survives a kill of the process, a crash of the system, and loss of power
	// as far as the device keeps what it confirmed. (RocketMQ's default is
	// FlushAsync.)
	FlushSync FlushMode = iota
	// FlushAsync means that the message is in the page cache and on its way to disk
	// within Config.FlushInterval. It survives a kill of the process; a crash
	// of the system or loss of power may take what was not yet synced.
	FlushAsync
)

// String gives RocketMQ's name of the mode.
func (m FlushMode) String() string {
	switch m {
	case FlushSync:
		return "SYNC_FLUSH"
	case FlushAsync:
		return "ASYNC_FLUSH"
	}
	return fmt.Sprintf("FlushMode(%d)", uint8(m))
}

// Defaults of Config.
const (
	DefaultFlushInterval         = 500 * time.Millisecond
	DefaultFlushTimeout          = 5 * time.Second
	DefaultFlushThoroughInterval = 10 * time.Second
	DefaultMaxDirtyBytes         = 1 << 30
	DefaultSegmentSize           = 64 << 20
	DefaultConsumeQueueFileSize  = 300_000 * 20
	DefaultMaxBodySize           = 4 << 20
	DefaultMaxDispatchLag        = 64 << 20
	DefaultMaxTransferCount      = 32
	DefaultMaxTransferBytes      = 256 << 10
	DefaultMaxQueryResults       = 64
	DefaultIndexSlots            = 1 << 18
	DefaultIndexEntries          = 1 << 20
	DefaultMaxMappedFiles        = 512
)

// Config says how a store works. The zero value is safe and right for most.
type Config struct {
	Flush FlushMode

	// FlushInterval is how long FlushAsync may leave a message unsynced, and
	// the pause between syncs of consume queues in both modes.
	FlushInterval time.Duration
	// FlushLeastPages is how many pages of 4,096 bytes must be unsynced for
	// FlushAsync to sync the log after FlushInterval. With fewer it looks again
	// after each FlushInterval, until FlushThoroughInterval is over. 0, the
	// default, syncs whatever there is after FlushInterval; RocketMQ's
	// flushCommitLogLeastPages is 4.
	FlushLeastPages int
	// FlushThoroughInterval is how long FlushAsync may leave fewer pages unsynced,
	// and then the pause between syncs of consume queues, too. It means nothing
	// while FlushLeastPages is 0.
	FlushThoroughInterval time.Duration
	// MaxDirtyBytes bounds the bytes of the log that FlushAsync leaves unsynced:
	// from half of it on a sync begins at once, and a put beyond it waits for that
	// sync until its ctx ends. So it bounds what a crash of the system may take,
	// and the memory that only a sync can free. One message, or batch, may be
	// larger.
	MaxDirtyBytes int64
	// FlushTimeout bounds the wait for a sync under FlushSync. After it the put
	// returns ErrFlushTimeout with its result: the message is in the log.
	FlushTimeout time.Duration

	// SegmentSize is the size of commit log files in bytes, and
	// ConsumeQueueFileSize that of consume queue files, rounded up to a
	// multiple of 20. 0 means: as the files that are there, else the default.
	// Another value than that of the files that are there is refused; a consume
	// queue with a file that is not of the size of the others is rebuilt.
	SegmentSize          int64
	ConsumeQueueFileSize int64

	// MaxBodySize limits a message's body in bytes. A record may take
	// message.MaxRecordOverhead more, and must leave 8 bytes of a segment. 0
	// means DefaultMaxBodySize, or less where SegmentSize has no room for it.
	MaxBodySize int
	// AppendPropertyCRC gives each record that is put a checksum over all of it,
	// as its last property, message.PropertyCRC32: what RocketMQ 5.1 and later do
	// with enabledAppendPropCRC. RocketMQ 4.9 reads such records and does not know
	// what the property means; it takes 20 or 21 of the 32,767 bytes that
	// properties may have. Records that have it are checked by it, whatever is set
	// here: when Open recovers them, and where a read verifies.
	AppendPropertyCRC bool
	// MaxDispatchLag bounds the bytes of the log that are visible but not yet
	// in the consume queues; a put beyond it waits until ctx ends.
	MaxDispatchLag int64

	// MaxTransferCount and MaxTransferBytes bound what one GetMessage returns.
	MaxTransferCount int
	MaxTransferBytes int

	// NoIndex leaves the index alone: QueryMessage is refused, and puts cost
	// less. A later Open without it indexes what came meanwhile.
	NoIndex bool
	// IndexSlots and IndexEntries divide each index file: 40 + 4·slots +
	// 20·entries bytes, of which the slots get blocks at once and the entries as
	// they come. 0 means: as the files that are there, else the default. Another
	// value than that of the files that are there is refused.
	IndexSlots, IndexEntries int32
	// MaxQueryResults bounds what one QueryMessage returns, in messages.
	MaxQueryResults int

	// Retention says which messages may be removed, and when. Its zero value keeps
	// everything: without it, and without WhenFull, nothing is ever removed.
	Retention Retention
	// MaxBytes bounds the files of log, consume queues and index and the reserve,
	// together, in bytes; 0 is no limit. It is looked at when the log needs
	// another file: one that would lead beyond it is not made, and WhenFull
	// decides. It must leave room for two files of the log and a quarter of one,
	// and the reserve. A new queue takes a file at once, whatever the limit.
	MaxBytes int64
	// WhenFull says what a put does when there is no room.
	WhenFull FullPolicy
	// Reserve is the size in bytes of pocketmq/reserve, whose blocks serve consumer
	// offsets, checkpoint, and consume queues when others have filled the disk.
	// While a part of it is used up the log gets no further file. 0 means
	// SegmentSize, but 8 MiB at most; less than 0 means none.
	Reserve int64

	// MaxMappedFiles bounds how many files of the log and of consume queues are
	// open and mapped at a time, whatever their number. Each takes a descriptor,
	// and where more queues are in use, up to 32 KiB of entries wait in memory;
	// index files, and a few others, come on top. Beyond it the file is closed
	// that was not used for the longest time. Those in use are never closed, so
	// results that are not released may exceed it.
	MaxMappedFiles int

	// StoreHost is written into records that do not bring their own. Zero means
	// an address of the loopback network that was drawn once for the directory.
	StoreHost message.Host
	// DelayLevels is the table of delay levels, message.DefaultDelayLevels when
	// empty. It decides the tags code of parked messages.
	DelayLevels string

	// FileMode and DirMode are the permissions of what the store creates, 0600
	// and 0700 when zero.
	FileMode fs.FileMode
	DirMode  fs.FileMode
	// AllowNetworkFilesystem permits a directory on NFS, SMB and the like, where
	// locks and mapped files are not dependable.
	AllowNetworkFilesystem bool

	// RebuildInBackground lets Open return before the consume queues are there,
	// when they have to be built from the whole log and the end of the log is
	// known without reading it: because the recovery point still fits the log and
	// not the queues, or because the last stop was clean and only RocketMQ's
	// files tell, of which the last three are read, as RocketMQ does. Until that is
	// done a get sees of a queue what was built so far, and has nothing to give
	// beyond; MaxOffsetInQueue says how far that is, so who begins at the end of a
	// queue begins there; puts wait, until their ctx ends, because the number of a queue's next
	// message is not known; and nothing is removed. See Recovery.Rebuilding,
	// HealthRebuilding, and WaitDispatched. A Close stops it, and the next Open
	// begins again.
	RebuildInBackground bool

	// Progress, if not nil, is called by Open, on its goroutine, at the begin and
	// the end of what may take long, and between at most ten times a second. Open
	// waits for it. A panic in it is caught and logged.
	Progress func(RecoveryProgress)

	// Now is the clock, time.Now when nil. Times in the log never decrease,
	// even when it does. Several goroutines call it.
	Now func() time.Time
	// Logger gets rare events; nil logs nothing.
	Logger *slog.Logger
	// Events are called when something happens.
	Events Events

	// The seams to the operating system; the real ones when nil.
	fs         segment.FS
	filesystem func(path string) (mmap.FSInfo, error)
	space      func(path string) (total, free int64, err error)
}

// RocketMQConfig returns the sizes, the flush mode and the retention of a
// RocketMQ broker: messages are removed at 4 in the morning when they are 72
// hours old, at any hour when 75 percent of the disk are in use, whatever their
// age above 85 percent, and above 90 percent none are taken.
func RocketMQConfig() Config {
	return Config{
		Flush: FlushAsync, FlushLeastPages: 4, SegmentSize: 1 << 30, ConsumeQueueFileSize: DefaultConsumeQueueFileSize,
		IndexSlots: indexfile.RocketMQSlots, IndexEntries: indexfile.RocketMQEntries,
		Retention: Retention{
			MaxAge: 72 * time.Hour, DeleteWhen: "04",
			DiskMaxUsedSpaceRatio: 75, DiskCleanForciblyRatio: 85, DiskWarningLevelRatio: 90,
		},
	}
}

// EdgeConfig is for small devices that gather messages and hand them on: 1 MiB
// segments, and a store that works within 8 MiB of disk, with up to some thirty
// queues. A segment goes as soon as the registered groups have consumed it. What
// nobody has consumed is kept: a full store rejects messages, so that the
// sender knows. Where new messages are worth more than old ones, set WhenFull to
// DropOldest and Retention.Groups to IgnoreGroups.
func EdgeConfig() Config {
	return Config{
		SegmentSize: 1 << 20, ConsumeQueueFileSize: 1_000 * 20, MaxBodySize: 256 << 10, MaxDispatchLag: 4 << 20, MaxDirtyBytes: 4 << 20, MaxMappedFiles: 64,
		IndexSlots: 1 << 12, IndexEntries: 1 << 14,
		MaxBytes: 7 << 20, Retention: Retention{Groups: RemoveConsumed},
	}
}

func (c Config) withDefaults() Config {
	setDefault(&c.FlushInterval, DefaultFlushInterval)
	setDefault(&c.FlushTimeout, DefaultFlushTimeout)
	setDefault(&c.FlushThoroughInterval, DefaultFlushThoroughInterval)
	setDefault(&c.MaxDirtyBytes, DefaultMaxDirtyBytes)
	if c.MaxBodySize == 0 {
		c.MaxBodySize = DefaultMaxBodySize
		if c.SegmentSize > 0 {
			c.MaxBodySize = max(1, min(c.MaxBodySize, int(c.SegmentSize)-recordRoom))
		}
	}
	setDefault(&c.MaxDispatchLag, DefaultMaxDispatchLag)
	setDefault(&c.MaxTransferCount, DefaultMaxTransferCount)
	setDefault(&c.MaxTransferBytes, DefaultMaxTransferBytes)
	setDefault(&c.MaxQueryResults, DefaultMaxQueryResults)
	setDefault(&c.MaxMappedFiles, DefaultMaxMappedFiles)
	setDefault(&c.DelayLevels, message.DefaultDelayLevels)
	setDefault(&c.FileMode, 0o600)
	setDefault(&c.DirMode, 0o700)
	if c.Now == nil {
		c.Now = newWallClock().now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.fs == nil {
		c.fs = segment.OS
	}
	if c.filesystem == nil {
		c.filesystem = mmap.Filesystem
	}
	if c.space == nil {
		c.space = mmap.Space
	}
	return c
}

// recordRoom is what the smallest record takes of a segment beyond its body.
const recordRoom = message.MinRecordSize + message.BlankSize

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// validate reports every field that is out of range. c has its defaults.
func (c Config) validate() error {
	var errs []error
	within := func(field, unit string, value, least, most int64) {
		switch {
		case value < least:
			errs = append(errs, &message.LimitError{Field: "Config." + field, Limit: least, Value: value, Unit: unit, AtLeast: true})
		case value > most:
			errs = append(errs, &message.LimitError{Field: "Config." + field, Limit: most, Value: value, Unit: unit})
		}
	}
	if c.Flush > FlushAsync {
		errs = append(errs, &message.IllegalError{Field: "Config.Flush", Value: c.Flush.String(), Reason: "is not a flush mode"})
	}
	for _, f := range []struct {
		name, unit         string
		value, least, most int64
	}{
		{"FlushInterval", "ns", int64(c.FlushInterval), 1, math.MaxInt64},
		{"FlushTimeout", "ns", int64(c.FlushTimeout), 1, math.MaxInt64},
		{"FlushLeastPages", "pages", int64(c.FlushLeastPages), 0, math.MaxInt32},
		{"FlushThoroughInterval", "ns", int64(c.FlushThoroughInterval), 1, math.MaxInt64},
		{"MaxDirtyBytes", "bytes", c.MaxDirtyBytes, 1, math.MaxInt64},
		{"MaxBodySize", "bytes", int64(c.MaxBodySize), 1, math.MaxInt32 - message.MaxRecordOverhead},
		{"MaxDispatchLag", "bytes", c.MaxDispatchLag, 1, math.MaxInt64},
		{"MaxTransferCount", "messages", int64(c.MaxTransferCount), 1, math.MaxInt64},
		{"MaxTransferBytes", "bytes", int64(c.MaxTransferBytes), 1, math.MaxInt64},
		{"MaxQueryResults", "messages", int64(c.MaxQueryResults), 1, math.MaxInt32},
		{"IndexSlots", "slots", int64(c.IndexSlots), 0, math.MaxInt32},
		{"IndexEntries", "entries", int64(c.IndexEntries), 0, math.MaxInt32},
		{"MaxMappedFiles", "files", int64(c.MaxMappedFiles), 1, math.MaxInt32},
		{"ConsumeQueueFileSize", "bytes", c.ConsumeQueueFileSize, 0, maxFileSize},
		{"SegmentSize", "bytes", c.SegmentSize, 0, maxFileSize},
		{"MaxBytes", "bytes", c.MaxBytes, 0, math.MaxInt64},
		{"Reserve", "bytes", c.Reserve, math.MinInt64, maxFileSize},
	} {
		within(f.name, f.unit, f.value, f.least, f.most)
	}
	if c.SegmentSize > 0 && c.MaxBodySize > 0 { // a body of MaxBodySize must fit
		within("SegmentSize", "bytes", c.SegmentSize, int64(c.MaxBodySize)+recordRoom, math.MaxInt64)
	}
	if c.WhenFull > DropOldest {
		errs = append(errs, &message.IllegalError{Field: "Config.WhenFull", Value: c.WhenFull.String(), Reason: "is no policy"})
	}
	if err := c.Retention.validate(within); err != nil {
		errs = append(errs, err)
	}
	if _, err := message.ParseDelayLevels(c.DelayLevels); err != nil {
		errs = append(errs, fmt.Errorf("Config.DelayLevels: %w", err))
	}
	return errors.Join(errs...)
}

// maxMappedBytes bounds what is mapped together: there is room for little where
// addresses have 32 bits.
var maxMappedBytes = func() int64 {
	if strconv.IntSize == 32 {
		return 1 << 30
	}
	return math.MaxInt64
}()

// maxFileSize bounds what is mapped as one.
var maxFileSize = func() int64 {
	if strconv.IntSize == 32 {
		return mmap.MaxLength32
	}
	return math.MaxInt32
}()
