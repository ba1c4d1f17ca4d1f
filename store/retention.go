package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/message"
)

// Retention says which messages may be removed, and when. Whole files of the log
// go, oldest first and never the one that is written to, and with them what only
// points at them. The zero value keeps everything. Each way of removing works on
// its own; what one of them allows is removed.
type Retention struct {
	// MaxAge removes a file when its last message was stored so long ago
	// (RocketMQ's fileReservedTime). 0 removes nothing by age.
	//
	// The time is the store timestamp in the record. RocketMQ goes by the
	// file's modification time: it keeps files longer that were touched, copied
	// or written again by a recovery.
	MaxAge time.Duration
	// DeleteWhen lists the hours of the local day in which MaxAge is applied,
	// for example "04" or "04;16" (RocketMQ's deleteWhen). Empty means all.
	DeleteWhen string

	// RetainBytes removes files while the log's files together have more bytes
	// than this. 0 removes nothing by size.
	RetainBytes int64

	// DiskMaxUsedSpaceRatio, in percent of the disk, is RocketMQ's: when more is
	// in use, by whomever, MaxAge is applied at any hour. 0 is never, and so it
	// is in the next two. What is kept from ordinary users counts as used.
	DiskMaxUsedSpaceRatio int
	// DiskCleanForciblyRatio: when more percent of the disk are in use, files
	// are removed that nothing else allows to remove, as many as bring it back
	// below, but no more than ten in ten seconds. RocketMQ's
	// diskSpaceCleanForciblyRatio.
	DiskCleanForciblyRatio int
	// DiskWarningLevelRatio: when more percent of the disk are in use, the disk
	// counts as full: see Config.WhenFull. It counts so until
	// DiskCleanForciblyRatio, if that is lower, is met again. RocketMQ's
	// diskSpaceWarningLevelRatio.
	DiskWarningLevelRatio int

	// Groups says what the consumer groups have to do with it.
	Groups GroupRule
}

// GroupRule says how far consumer groups decide what is removed. The store
// learns of them through SetConsumed; the broker does that.
type GroupRule uint8

const (
	// IgnoreGroups removes without looking at groups. Delayed messages that are
	// not delivered yet are kept all the same: see SetConsumed.
	IgnoreGroups GroupRule = iota
	// KeepUnconsumed removes nothing that a registered group has not consumed,
	// for no reason: neither age nor a full disk, nor DropOldest or RemoveBefore.
	KeepUnconsumed
	// RemoveConsumed is KeepUnconsumed, and removes a file as soon as the
	// registered groups have consumed all that is in it. A queue that no group
	// is registered for was consumed by nobody, and keeps its messages.
	RemoveConsumed
)

func (r GroupRule) String() string {
	return nameOf([]string{"IGNORE_GROUPS", "KEEP_UNCONSUMED", "REMOVE_CONSUMED"}, uint8(r))
}

// Reason says why a file was removed.
type Reason uint8

// The reasons, in the order in which they are looked at.
const (
	ReasonManual   Reason = iota // RemoveBefore
	ReasonConsumed               // Retention.Groups
	ReasonAge                    // Retention.MaxAge
	ReasonBytes                  // Retention.RetainBytes
	ReasonDisk                   // Retention.DiskCleanForciblyRatio
	ReasonFull                   // Config.WhenFull is DropOldest
	reasons
)

func (r Reason) String() string {
	return nameOf([]string{"manual", "consumed", "age", "bytes", "disk", "full"}, uint8(r))
}

// RemovedFile is a file of the log that was removed.
type RemovedFile struct {
	Path     string
	From, To message.LogOffset // what it held
	Reason   Reason
}

// Removal is what one cleaning removed. It is a value.
type Removal struct {
	Files    []RemovedFile     // of the log, oldest first
	Derived  []string          // of consume queues and the like, by path
	Messages int64             // that can no longer be read, in all queues
	Bytes    int64             // of all these files
	LogStart message.LogOffset // where the log begins now
}

// parseHours reads Retention.DeleteWhen: bit h of the answer is the hour h.
func parseHours(list string) (hours uint32, err error) {
	if list == "" {
		return 1<<24 - 1, nil
	}
	for text := range strings.SplitSeq(list, ";") {
		h, err := strconv.ParseUint(strings.TrimSpace(text), 10, 8)
		if err != nil || h > 23 {
			return 0, &message.IllegalError{Field: "Config.Retention.DeleteWhen", Value: list, Reason: fmt.Sprintf("%q is no hour from 00 to 23", text)}
		}
		hours |= 1 << h
	}
	return hours, nil
}

// doomed is a file that is to be removed, and why.
type doomed struct {
	file   commitlog.FileInfo
	reason Reason
}

// situation is all that the decision what to remove looks at.
type situation struct {
	files    []commitlog.FileInfo // oldest first
	bound    message.LogOffset    // nothing behind it is removed
	untimed  message.LogOffset    // what bound would be if no timed message waited
	consumed message.LogOffset    // everything before it was consumed by those who count
	manual   message.LogOffset    // see RemoveBefore
	drop     int                  // files to drop to make room
	now      time.Time
	anyHour  bool  // MaxAge is applied whatever the hour
	excess   int64 // bytes in use beyond DiskCleanForciblyRatio

	// stored is when the last message of a file was stored, false if unknown.
	stored func(commitlog.FileInfo) (time.Time, bool)
}

// forcedFiles is the most that a full disk costs in one cleaning, which follow
// each other after ten seconds at the earliest. (RocketMQ's deleteFilesBatchMax.)
const forcedFiles = 10

// choose says which files are to be removed: some of the oldest.
func (r Retention) choose(s situation) (chosen []doomed) {
	var total int64
	for _, f := range s.files {
		total += f.Size()
	}
	forced := 0
	for _, f := range s.files {
		if f.End > s.bound {
			break
		}
		var reason Reason
		switch {
		case f.End <= s.manual:
			reason = ReasonManual
		case r.Groups == RemoveConsumed && f.End <= s.consumed:
			reason = ReasonConsumed
		case r.expired(s, f):
			reason = ReasonAge
		case r.RetainBytes > 0 && total > r.RetainBytes:
			reason = ReasonBytes
		case s.excess > 0 && forced < forcedFiles:
			reason = ReasonDisk
			forced++
		case s.drop > 0:
			reason = ReasonFull
		default:
			return chosen
		}
		chosen = append(chosen, doomed{f, reason})
		total -= f.Size()
		s.excess -= f.Size()
		s.drop--
	}
	return chosen
}

// expired reports whether the file is to be removed for its age.
func (r Retention) expired(s situation, f commitlog.FileInfo) bool {
	if r.MaxAge == 0 {
		return false
	}
	if hours, err := parseHours(r.DeleteWhen); err != nil || !s.anyHour && hours>>s.now.Hour()&1 == 0 {
		return false
	}
	stored, ok := s.stored(f)
	return ok && !stored.Add(r.MaxAge).After(s.now)
}

// validate reports every field that is out of range.
func (r Retention) validate(within func(field, unit string, value, least, most int64)) error {
	const most = 1<<63 - 1
	within("Retention.MaxAge", "ns", int64(r.MaxAge), 0, most)
	within("Retention.RetainBytes", "bytes", r.RetainBytes, 0, most)
	within("Retention.DiskMaxUsedSpaceRatio", "percent", int64(r.DiskMaxUsedSpaceRatio), 0, 99)
	within("Retention.DiskCleanForciblyRatio", "percent", int64(r.DiskCleanForciblyRatio), 0, 99)
	within("Retention.DiskWarningLevelRatio", "percent", int64(r.DiskWarningLevelRatio), 0, 99)
	if r.Groups > RemoveConsumed {
		return &message.IllegalError{Field: "Config.Retention.Groups", Value: r.Groups.String(), Reason: "is no rule for groups"}
	}
	_, err := parseHours(r.DeleteWhen)
	return err
}

// watchesDisk reports whether the use of the disk matters.
func (r Retention) watchesDisk() bool {
	return r.DiskMaxUsedSpaceRatio > 0 || r.DiskCleanForciblyRatio > 0 || r.DiskWarningLevelRatio > 0
}
