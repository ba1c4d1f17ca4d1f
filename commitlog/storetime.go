package commitlog

import "time"

// clockSlack is how far ahead of the clock a store time may be and still be
// taken for what a clock said that was set back since, in ms.
const clockSlack = 24 * 60 * 60 * 1000

// storeTime follows the store times of records in the order of the log. No
// checksum covers them, and store times never decrease: a single flipped bit of
// the last record would set the time of every later one far into the future. So
// a time that is ahead of the clock, and of the record before, counts only when
// the next record vouches for it. RocketMQ takes its clock as it is.
type storeTime struct {
	last  int64 // ms, to be believed
	doubt int64 // ms, seen in the record before and not believed; 0 for none
}

func (s *storeTime) see(t int64, now func() time.Time) {
	s.last, s.doubt = s.judge(t, now)
}

func (s *storeTime) judge(t int64, now func() time.Time) (last, doubt int64) {
	switch {
	case t <= s.last+clockSlack, s.doubt != 0 && t >= s.doubt && t <= s.doubt+clockSlack, t <= now().UnixMilli()+clockSlack:
		return t, 0
	}
	return s.last, t
}
