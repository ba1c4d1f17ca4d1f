package inspect

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pocketmq/pocketmq/message"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Note  Severity = "note"  // unusual, and loses nothing by itself
	Error Severity = "error" // not what was written, or two places disagree
)

// Finding is one thing that Verify noticed.
type Finding struct {
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Offset   int64    `json:"offset"` // bytes from the start of the file
	Text     string   `json:"text"`
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s at byte %d: %s", f.Severity, f.File, f.Offset, f.Text)
}

// Summary is what Verify read, and how much it found. It is a value.
type Summary struct {
	Marked   bool              `json:"marked"` // see Store
	LogStart message.LogOffset `json:"logStart"`
	LogEnd   message.LogOffset `json:"logEnd"`
	LogFiles int               `json:"logFiles"`
	Records  int64             `json:"records"`
	Queues   int               `json:"queues"`
	Units    int64             `json:"units"`
	Errors   int64             `json:"errors"`
	Notes    int64             `json:"notes"`
}

// Clean reports whether there was no error; there may be notes.
func (s Summary) Clean() bool { return s.Errors == 0 }

// Verify reads everything in the log and the consume queues and compares it:
//
//   - records follow each other without a gap, name their own place, have
//     bodies that match their checksums, and times that never go back;
//   - messages of a queue are numbered without a gap;
//   - each has a unit with its place, size and tags code, in log order, and
//     each unit has a message;
//   - behind the end of the log is nothing, and the checkpoint is not behind it.
//
// found is called for each finding; what one finding implies, such as the
// missing messages of a damaged range, is not reported again where that can be
// told. The error says why Verify could not go on: ctx's, ErrNoStore, or that
// of a file.
//
// In a directory that is in use, what is written meanwhile is no finding.
func Verify(ctx context.Context, dir string, found func(Finding)) (Summary, error) {
	v := verifier{ctx: ctx, dir: dir, found: found, numbers: map[queueKey]*numbering{}}
	defer v.close()
	if err := v.run(); err != nil {
		return v.sum, fmt.Errorf("verify: %w", err)
	}
	return v.sum, nil
}

type verifier struct {
	ctx   context.Context
	dir   string
	found func(Finding)
	sum   Summary

	log        *logReader
	foreign    []string // paths of what does not belong in its directory
	walk       walk
	checkpoint Checkpoint
	queues     []*queue
	numbers    map[queueKey]*numbering // of each queue, as the log has it
	damages    int                     // ranges of the log met so far
	endDamaged bool                    // one of them was the last thing in the log
}

func (v *verifier) report(s Severity, file string, offset int64, format string, args ...any) {
	if s == Error {
		v.sum.Errors++
	} else {
		v.sum.Notes++
	}
	v.found(Finding{s, file, offset, fmt.Sprintf(format, args...)})
}

func (v *verifier) close() {
	if v.log != nil {
		v.log.close()
	}
}

func (v *verifier) run() error {
	if err := v.begin(); err != nil {
		return err
	}
	if err := v.verifyLog(); err != nil {
		return err
	}
	v.verifyCheckpoint()
	if err := v.verifyQueues(); err != nil {
		return err
	}
	return v.verifyTail()
}

// begin finds out what there is. The order matters for a directory in use: what
// was dispatched when v.walk.trusted was found is in queues that are looked at
// afterwards, and what a queue has is in a log that is listed afterwards.
func (v *verifier) begin() error {
	if err := Check(v.dir); err != nil {
		return err
	}
	var err error
	if v.sum.Marked, err = marked(v.dir); err != nil {
		return err
	}
	if v.checkpoint, err = readCheckpoint(v.dir); errors.Is(err, message.ErrCorrupt) {
		v.report(Error, filepath.Join(v.dir, checkpointFile), 0, "too short for its three times")
	} else if err != nil {
		return err
	}
	if v.queues, err = queues(v.dir); err != nil {
		return err
	}
	if err := v.listLog(); err != nil {
		return err
	}
	if err := v.findDispatched(); err != nil {
		return err
	}
	for _, q := range v.queues {
		if err := q.refresh(); err != nil {
			return err
		}
		v.numbers[queueKey{q.topic, q.id}] = &numbering{queue: q}
		v.verifyFiles(q.units.files, q.foreign)
	}
	if err := v.listLog(); err != nil {
		return err
	}
	v.verifyFiles(v.log.files, v.foreign)
	return nil
}

// listLog finds the files of the log; the walk begins with the first.
func (v *verifier) listLog() error {
	files, foreign, err := list(filepath.Join(v.dir, logDir))
	if err != nil {
		return err
	}
	v.close()
	v.log, v.foreign = newLogReader(files, logChunk), foreign
	v.walk.log, v.walk.pos = v.log, 0
	if len(files) > 0 {
		v.walk.pos = files[0].Base
	}
	v.sum.LogFiles, v.sum.Queues = len(files), len(v.queues)
	v.sum.LogStart = message.LogOffset(v.walk.pos)
	return nil
}

// findDispatched sets v.walk.trusted to the end of what the queues were given.
func (v *verifier) findDispatched() error {
	last, err := lastReferenced(v.log, v.queues)
	if err != nil || last < 0 {
		return err
	}
	record, _, err := v.log.at(last)
	if err != nil && !errors.Is(err, message.ErrCorrupt) {
		return err
	}
	v.walk.trusted = last + int64(record.Size())
	return nil
}

// verifyFiles compares names and sizes of the files of one directory.
func (v *verifier) verifyFiles(files []File, foreign []string) {
	for _, path := range foreign {
		v.report(Error, path, 0, "does not belong here: not a file named by 20 digits")
	}
	for i, f := range files {
		last := i == len(files)-1
		switch {
		case f.Size == 0 && last && v.sum.Marked: // it is being made
		case f.Size == 0 && last:
			v.report(Note, f.Path, 0, "empty: it was being made when the system stopped")
		case f.Size != files[0].Size:
			v.report(Error, f.Path, 0, "has %d bytes, the first file has %d", f.Size, files[0].Size)
		case i > 0 && f.Base < files[i-1].End():
			v.report(Error, f.Path, 0, "begins at %d, before the end of the file before it, %d", f.Base, files[i-1].End())
		case i > 0 && f.Base > files[i-1].End():
			v.report(Error, f.Path, 0, "the file before it is missing: nothing holds [%d, %d)", files[i-1].End(), f.Base)
		}
	}
}

// verifyCheckpoint wants no time that is later than the last record: RocketMQ
// would take messages for dispatched that are not.
func (v *verifier) verifyCheckpoint() {
	if v.endDamaged || v.walk.tail != nil {
		return // the time of the last record is not known
	}
	latest := max(v.checkpoint.Log, v.checkpoint.Queues, v.checkpoint.Index)
	if latest > v.walk.lastTime {
		v.report(Error, filepath.Join(v.dir, checkpointFile), 0,
			"names the time %d ms, the last record of the log was stored at %d", latest, v.walk.lastTime)
	}
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
	f, _ := v.log.find(end)
	if _, more, err := v.walk.next(); more || err != nil {
		return err
	}
	if v.walk.tail == nil {
		return nil
	}
	if v.sum.Marked {
		v.report(Note, f.Path, end-f.Base, "behind the end of the log: %v; a message that was cut off, which the next open removes", v.walk.tail)
		return nil
	}
	v.report(Error, f.Path, end-f.Base, "behind the end of the log: %v", v.walk.tail)
	return nil
}
