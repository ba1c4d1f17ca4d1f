package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// VerifyConfig says who hears what while Verify works. Both functions are called
// by the goroutine that called Verify.
type VerifyConfig struct {
	Found func(Finding) // called for each finding
	// Progress, if not nil, is told now and then how many bytes of the log have
	// been read, of how many at most.
	Progress func(done, total int64)

	plain bool // without what is there for speed only: for a test to compare with
}

// Verify is VerifyWith for who only wants to hear of findings.
func Verify(ctx context.Context, dir string, found func(Finding)) (Summary, error) {
	return VerifyWith(ctx, dir, VerifyConfig{Found: found})
}

// VerifyWith reads every file of the store in dir and compares what they say:
//
//   - records follow each other without a gap, name their own place, match their
//     checksums, and have times that never go back;
//   - messages of a queue are numbered without a gap;
//   - each has a unit with its place, size and tags code, in log order, and
//     each unit has a message;
//   - index entries lead to records that have their keys, and the keys of records
//     are in the index, as far as it goes; slots, chains and headers are those of
//     the entries;
//   - what nobody has used is zero, and the checkpoint is not later than the log;
//   - files in config/ parse, and those in pocketmq/ match their checksums;
//   - the recovery point names the last record before it, and its ledger; each
//     queue has the messages that the ledger says.
//
// What one finding implies, such as the missing messages of a damaged range, is
// not reported again where that can be told. The error says why it could not go
// on: ctx's, ErrNoStore, or that of a file.
//
// In a directory that is in use, what is written or removed meanwhile is no
// finding. Nothing in the directory is changed.
//
// It uses a few goroutines while it runs, and needs memory for some megabytes of
// the log, some kilobytes of each queue, and 4 bytes for each slot of an index
// file.
func VerifyWith(ctx context.Context, dir string, cfg VerifyConfig) (Summary, error) {
	v := verifier{ctx: ctx, dir: dir, cfg: cfg, numbers: map[queueKey]*numbering{}}
	defer v.close()
	if err := v.run(); err != nil {
		return v.sum, fmt.Errorf("verify: %w", err)
	}
	return v.sum, nil
}

type verifier struct {
	ctx context.Context
	dir string
	cfg VerifyConfig
	sum Summary

	log        *logReader
	walk       walk
	checkpoint Checkpoint
	queues     []*queue
	numbers    map[queueKey]*numbering // of each queue, as the log has it
	recent     [64]*numbering          // some of numbers, found without hashing a name
	last       *numbering              // of the last item; nil when it has none
	index      indexVerifier
	own        ownState
	damages    int  // ranges of the log met so far
	endDamaged bool // one of them was the last thing in the log
}

func (v *verifier) report(s Severity, k FindingKind, file string, offset int64, format string, args ...any) {
	v.pass(newFinding(s, k, file, offset, format, args...))
}

// pass counts a finding and passes it on.
func (v *verifier) pass(f Finding) {
	if f.Severity == Error {
		v.sum.Errors++
	} else {
		v.sum.Notes++
	}
	if v.cfg.Found != nil {
		v.cfg.Found(f)
	}
}

func (v *verifier) close() {
	v.walk.close()
	v.index.close()
}

func (v *verifier) run() error {
	for _, part := range []func() error{
		v.begin, v.verifyLog, v.verifyCheckpoint, v.verifyQueues, v.verifyIndexRest, v.verifyConfig, v.verifyOwn, v.verifyTail,
	} {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// begin finds out what there is. The order matters for a directory in use: what
// the recovery point vouches for, and what was dispatched when v.walk.trusted was
// found, is in queues that are looked at afterwards, and what a queue or the index has is in a log that is listed
// afterwards.
func (v *verifier) begin() error {
	if err := Check(v.dir); err != nil {
		return err
	}
	var err error
	if v.sum.Marked, err = marked(v.dir); err != nil {
		return err
	}
	if v.sum.Owner, err = owner(v.dir); err != nil {
		return err
	}
	if v.checkpoint, err = readCheckpoint(v.dir); errors.Is(err, message.ErrCorrupt) {
		v.report(Error, CheckpointWrong, v.path(checkpointFile), 0, "too short for its three times")
	} else if err != nil {
		return err
	}
	if v.own, err = readOwn(v.dir); err != nil {
		return err
	}
	if v.queues, err = queues(v.dir); err != nil {
		return err
	}
	log, _, err := openLog(v.dir, 64<<10)
	if err != nil {
		return err
	}
	trusted, err := dispatched(log, v.queues)
	log.close()
	if err != nil {
		return err
	}
	if v.queues, err = queues(v.dir); err != nil { // one may have been made meanwhile
		return err
	}
	for _, q := range v.queues {
		if err := q.refresh(); err != nil {
			return err
		}
		v.numbers[queueKey{q.topic, q.id}] = &numbering{key: queueKey{q.topic, q.id}, queue: q}
		v.verifyFiles(q.units.files, q.foreign)
		v.verifyUnitSizes(q)
	}
	if err := v.openIndex(); err != nil {
		return err
	}
	var foreign []string
	if v.log, foreign, err = openLog(v.dir, logChunk); err != nil {
		return err
	}
	v.walk = newWalk(v.log, want{keys: v.index.there()})
	if v.cfg.plain {
		v.walk.ahead = nil
	}
	v.walk.trusted = trusted
	v.sum.LogFiles, v.sum.Queues, v.sum.LogStart = len(v.log.files), len(v.queues), message.LogOffset(v.walk.pos)
	v.verifyFiles(v.log.files, foreign)
	return nil
}

// dispatched is the end of what the queues were given, 0 for nothing.
func dispatched(log *logReader, all []*queue) (int64, error) {
	last, err := lastReferenced(log, all)
	if err != nil || last < 0 {
		return 0, err
	}
	record, _, err := log.at(last)
	if err != nil && !errors.Is(err, message.ErrCorrupt) && !errors.Is(err, errRetired) {
		return 0, err
	}
	return last + int64(record.Size()), nil
}

// verifyFiles compares names and sizes of the files of one directory.
func (v *verifier) verifyFiles(files []File, foreign []string) {
	for _, path := range foreign {
		v.report(Error, FileForeign, path, 0, "does not belong here: not a file named by 20 digits")
	}
	for i, f := range files {
		last := i == len(files)-1
		switch {
		case f.Size == 0 && last && v.sum.Marked: // it is being made
		case f.Size == 0 && last:
			v.report(Note, FileSize, f.Path, 0, "empty: it was being made when the system stopped")
		case f.Size != files[0].Size:
			v.report(Error, FileSize, f.Path, 0, "has %d bytes, the first file has %d", f.Size, files[0].Size)
		case i > 0 && f.Base < files[i-1].End():
			v.report(Error, FileMissing, f.Path, 0, "begins at %d, before the end of the file before it, %d", f.Base, files[i-1].End())
		case i > 0 && f.Base > files[i-1].End():
			v.report(Error, FileMissing, f.Path, 0, "the file before it is missing: nothing holds [%d, %d)", files[i-1].End(), f.Base)
		}
	}
}

// verifyUnitSizes wants consume queue files to hold whole units.
func (v *verifier) verifyUnitSizes(q *queue) {
	if files := q.units.files; len(files) > 0 && files[0].Size%unitSize != 0 {
		v.report(Error, FileSize, files[0].Path, 0, "has %d bytes, not a multiple of %d", files[0].Size, unitSize)
	}
}

// verifyCheckpoint wants no time that is later than the last record: RocketMQ
// would take messages for dispatched that are not.
func (v *verifier) verifyCheckpoint() error {
	known := !v.endDamaged && v.walk.tail == nil // the time of the last record
	if latest := max(v.checkpoint.Log, v.checkpoint.Queues, v.checkpoint.Index); known && latest > v.walk.lastTime {
		v.report(Error, CheckpointWrong, v.path(checkpointFile), 0,
			"names the time %d ms, the last record of the log was stored at %d", latest, v.walk.lastTime)
	}
	return nil
}

// verifyTail comes last: what a writer was doing when the walk ended is done
// now, and the log goes on there.
func (v *verifier) verifyTail() error {
	v.sum.LogEnd = message.LogOffset(v.walk.pos)
	if v.walk.tail == nil {
		return nil
	}
	v.log.forget()
	end := v.walk.pos
	if _, more, err := v.walk.next(); more || err != nil {
		return err
	}
	if v.walk.tail == nil {
		return nil
	}
	path, at := v.walk.file(end)
	if v.sum.Marked {
		v.report(Note, LogTail, path, at, "behind the end of the log: %v; a message that was cut off, which the next open removes", v.walk.tail)
		return nil
	}
	v.report(Error, LogTail, path, at, "behind the end of the log: %v", v.walk.tail)
	return nil
}

// used reports whether the directory is in use, or was not closed properly; a
// process may have opened it meanwhile.
func (v *verifier) used() bool {
	if !v.sum.Marked {
		used, err := marked(v.dir)
		v.sum.Marked = used || err != nil
	}
	return v.sum.Marked
}
