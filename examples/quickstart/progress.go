package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress draws a bar, if it is on a terminal.
type progress struct {
	w     io.Writer // nil: draws nothing
	total int64     // bytes
	what  string
	done  int64
	drawn time.Time
}

func newProgress(w io.Writer, total int64) *progress {
	p := &progress{total: total}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.w = w
		}
	}
	return p
}

func (p *progress) start(what string) { p.what, p.done = what, 0 }

func (p *progress) add(bytes int) {
	p.done += int64(bytes)
	if p.w == nil || time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	const width = 40
	full := int(min(p.done, p.total) * width / max(p.total, 1))
	fmt.Fprintf(p.w, "\r%-10s [%s%s] %3d %%", p.what, strings.Repeat("=", full), strings.Repeat(" ", width-full), full*100/width)
}

// end wipes the bar away.
func (p *progress) end() {
	if p.w != nil {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", 60))
	}
}
