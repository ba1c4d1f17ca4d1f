package store

import (
	"context"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// RecoveryStage is a part of what Open does that may take long.
type RecoveryStage uint8

// The stages, in the order in which they come. Those with nothing to do are left
// out.
const (
	RecoveryReadsLog    RecoveryStage = iota // finds the end of the log, and gives messages to their queues
	RecoveryReadsQueue                       // reads the log once more for one consume queue that does not agree with it
	RecoveryRewritesLog                      // writes the end of the log again, after a crash
)

var recoveryStages = [...]string{"reading the log", "building a consume queue again", "rewriting the end of the log"}

func (s RecoveryStage) String() string { return nameOf(recoveryStages[:], uint8(s)) }

// RecoveryProgress says how far Open is. It is a value.
type RecoveryProgress struct {
	Stage RecoveryStage
	// Done and Total are bytes of the log, for this stage. Total is what there may
	// be at most: the last file of the log is mostly not full.
	Done, Total int64
	Records     int64 // read in this stage so far
}

// progressEvery is the least time between two reports of one stage.
const progressEvery = 100 * time.Millisecond

// opening is an Open under way. Nil, of an Open that is over, it reports nothing
// and stops nobody.
type opening struct {
	ctx    context.Context
	report func(RecoveryProgress)
	at     [len(recoveryStages)]time.Time // of the last report of each stage
}

// step reports, unless that was done just now, and returns ctx's error.
func (o *opening) step(p RecoveryProgress) error {
	if o == nil {
		return nil
	}
	if now := time.Now(); now.Sub(o.at[p.Stage]) >= progressEvery {
		o.at[p.Stage] = now
		o.report(p)
	}
	return o.ctx.Err()
}

// end reports the end of a stage.
func (o *opening) end(stage RecoveryStage, bytes, records int64) {
	o.report(RecoveryProgress{stage, bytes, bytes, records})
}

// reading is step for a scan of [from, to) that is to end with the context of
// Open: it returns what to call for each record.
func (o *opening) reading(stage RecoveryStage, from, to message.LogOffset) func(*message.DispatchRequest) error {
	records, told := int64(0), from-reportEvery
	return func(r *message.DispatchRequest) error {
		records++
		at := r.LogOffset()
		if o == nil || at-told < reportEvery {
			return nil
		}
		told = at
		return o.step(RecoveryProgress{stage, int64(at - from), int64(to - from), records})
	}
}

// reportEvery is after how many bytes of the log there may be a report.
const reportEvery = 1 << 20
