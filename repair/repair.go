// Package repair makes a new store out of what can be read of a damaged one.
//
// Laws of the package:
//
//   - The source is only read. The output is made beside its place and gets its
//     name at the end, so that there is none, or all of it.
//   - Every record that is kept lies at the log offset that it had, with the bytes
//     that it had, and has the number in its queue that it had. Consumer offsets,
//     message ids and index queries mean what they meant.
//   - What is lost is listed, and its place is held: see inspect.IsFiller. Both
//     RocketMQ 4.9.3 and PocketMQ pass over fillers; in the consume queues blanks
//     stand for the messages.
package repair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/store"
)

// ErrOutput is returned for an output directory that can not be taken: one that
// has something in it, or lies inside the source.
var ErrOutput = errors.New("not a place for the output")

// Config says who hears what while Run works. The functions are called by the
// goroutine that called Run.
type Config struct {
	// Lost, if not nil, is called for each range of the log that is lost.
	Lost func(inspect.Lost)
	// Progress, if not nil, is told now and then how many bytes of the source's log
	// have been read, of how many at most.
	Progress func(done, total int64)
}

// Report is what Run did. It is a value.
type Report struct {
	inspect.Salvaged

	Fillers int64 // records that hold the place of what is lost
	// Files are the other files that were copied, by their path in the store, and
	// FilesLost those that were not, with the reason.
	Files     []string
	FilesLost []FileLost
	// Lowered are offsets that lay behind the end of their queue, because its last
	// messages are lost, and are its end now: what comes next is not left out.
	Lowered []Lowered
	// Output is what inspect.Verify says about the new store.
	Output inspect.Summary
}

// FileLost is a file that could not be copied.
type FileLost struct {
	Path string // in the store
	Err  error
}

// Run reads the store in dir and makes out, a new store of what can be kept. out
// must not exist, or be an empty directory, and not lie inside dir.
//
// The log is copied record by record, see inspect.Salvage. Consume queues and
// index are built anew from it by store.Open; only the files of queues of which
// the log has no message are copied, as they carry the queue's numbering. Files
// in config/ are copied if they parse, in place of one that does not its .bak; so
// are files in pocketmq/ that match their checksums, but for what is derived from
// the log.
//
// On return without an error the output is on disk, closed, and verified. Errors
// to branch on: ErrOutput, inspect.ErrNoStore, message.ErrDiskFull and those of
// store.Open. After an error there is no output.
func Run(ctx context.Context, dir, out string, cfg Config) (Report, error) {
	r := repair{ctx: ctx, cfg: cfg, dir: dir}
	if err := r.run(out); err != nil {
		return r.report, fmt.Errorf("repair: %w", err)
	}
	return r.report, nil
}

type repair struct {
	ctx    context.Context
	cfg    Config
	dir    string // the source
	tmp    string // the output, until it has its name
	report Report
}

func (r *repair) run(out string) (err error) {
	if err := inspect.Check(r.dir); err != nil {
		return err
	}
	if err := checkOutput(r.dir, out); err != nil {
		return err
	}
	out = filepath.Clean(out)
	if r.tmp, err = os.MkdirTemp(filepath.Dir(out), filepath.Base(out)+".unfinished-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.tmp)) }()
	for _, part := range []func() error{r.copyLog, r.copyQueues, r.copyConfig, r.copyOwn, r.build, r.verify} {
		if err := part(); err != nil {
			return err
		}
	}
	if err := os.Remove(out); err != nil && !errors.Is(err, os.ErrNotExist) { // it is empty
		return err
	}
	return os.Rename(r.tmp, out)
}

// checkOutput wants out to be missing or empty, and outside dir.
func checkOutput(dir, out string) error {
	if out == "" {
		return fmt.Errorf("%w: its name is empty", ErrOutput)
	}
	entries, err := os.ReadDir(out)
	switch {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%w: %s is not empty", ErrOutput, out)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	source, err := realPath(dir)
	if err != nil {
		return err
	}
	parent, err := realPath(filepath.Dir(filepath.Clean(out)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	rel, err := filepath.Rel(source, filepath.Join(parent, filepath.Base(filepath.Clean(out))))
	if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fmt.Errorf("%w: %s lies inside %s", ErrOutput, out, dir)
	}
	return nil
}

// realPath is the path without links.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// copyLog copies what can be kept of the log.
func (r *repair) copyLog() error {
	w := logWriter{dir: filepath.Join(r.tmp, "commitlog")}
	if err := os.Mkdir(w.dir, dirMode); err != nil {
		return err
	}
	found, err := inspect.Salvage(r.ctx, r.dir, inspect.SalvageConfig{
		Begin: w.begin, Kept: w.record, Progress: r.cfg.Progress,
		Lost: func(l inspect.Lost) error {
			if r.cfg.Lost != nil {
				r.cfg.Lost(l)
			}
			return nil
		},
	})
	r.report.Salvaged, r.report.Fillers = found, w.fillers
	if err != nil {
		return errors.Join(err, w.close())
	}
	return w.end()
}

// build opens the new store, which makes its queues and index, and closes it.
func (r *repair) build() (err error) {
	cfg := store.Config{ConsumeQueueFileSize: r.report.QueueFileSize}
	s, err := store.Open(r.ctx, r.tmp, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	found := s.Recovery()
	if len(found.Damaged) > 0 || found.CutBytes > 0 || found.LogEnd != r.report.LogEnd {
		return fmt.Errorf("the new log ends at %d, and should at %d; %d places in it can not be read", found.LogEnd, r.report.LogEnd, len(found.Damaged))
	}
	if err := s.WaitDispatched(r.ctx, s.MaxOffset()); err != nil {
		return err
	}
	return r.lowerOffsets(s)
}

// verify wants the new store to be without an error.
func (r *repair) verify() error {
	var first error
	sum, err := inspect.VerifyWith(r.ctx, r.tmp, inspect.VerifyConfig{Found: func(f inspect.Finding) {
		if f.Severity == inspect.Error && first == nil {
			first = fmt.Errorf("the new store is not sound: %v", f)
		}
	}})
	r.report.Output = sum
	return errors.Join(err, first)
}
