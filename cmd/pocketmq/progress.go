package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/pocketmq/pocketmq/store"
)

// newProgress returns a bar for total bytes (-1: unknown) that says what is being
// done, nil if w is no terminal.
func newProgress(w io.Writer, doing string, total int64) *progressbar.ProgressBar {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(doing),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// progress is a bar that begins with its first step.
type progress struct {
	w     io.Writer
	doing string
	bar   *progressbar.ProgressBar
}

// set says how far the work is. A bar that can not be drawn is no reason to stop.
func (p *progress) set(done, total int64) {
	if p.bar == nil {
		p.bar = newProgress(p.w, p.doing, total)
	}
	if p.bar != nil {
		_ = p.bar.Set64(done)
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
	p.bar = nil
}

// openingQuietly is how long a store may take to open before a bar says so.
const openingQuietly = time.Second

// opening shows a bar for each stage of an Open that takes long.
type opening struct {
	bar   progress
	began time.Time
}

func newOpening(w io.Writer) *opening { return &opening{bar: progress{w: w}, began: time.Now()} }

// set is for store.Config.Progress.
func (o *opening) set(p store.RecoveryProgress) {
	if time.Since(o.began) < openingQuietly {
		return
	}
	if doing := p.Stage.String(); doing != o.bar.doing {
		o.bar.end()
		o.bar.doing = doing
	}
	o.bar.set(p.Done, p.Total)
}
