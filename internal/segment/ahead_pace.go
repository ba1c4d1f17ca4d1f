package segment

import "time"

// pace measures how fast a writer is.
type pace struct {
	pos   int64 // where the writer was
	since time.Time
}

// within returns how much is written in the time d, at the speed since the last measurement. It returns false, and goes
// on measuring, as long as too little was written to tell.
func (p *pace) within(d time.Duration, pos int64, now time.Time) (n int64, ok bool) {
	written := pos - p.pos
	if written < leastMeasured {
		return 0, false
	}
	took := max(now.Sub(p.since), 1)
	p.pos, p.since = pos, now
	return int64(float64(written) * float64(d) / float64(took)), true
}

// leastMeasured is how much a writer has written before its speed is told.
const leastMeasured = 32 << 10
