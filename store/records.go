package store

import (
	"context"
	"errors"
	"iter"

	"github.com/pocketmq/pocketmq/message"
)

// errEnough ends a scan whose loop has ended.
var errEnough = errors.New("enough")

// Records goes through the log from an offset, which is that of a record or the
// end of one, to what is its end when the loop begins, and yields the records of
// all topics in their order. Offsets before the log begin with it; what is
// unreadable is passed over, and bodies are not compared with their checksums.
// The first error ends the loop and comes with an empty View: message.ErrClosed,
// ctx's error, or message.ErrOffsetNotFound when the log was removed meanwhile.
//
// A View, and everything taken from it without a copy, is valid until the loop's
// next round only.
func (s *DefaultMessageStore) Records(ctx context.Context, from message.LogOffset) iter.Seq2[message.View, error] {
	return func(yield func(message.View, error) bool) {
		if err := s.checkOpen(); err != nil {
			yield(message.View{}, err)
			return
		}
		_, err := s.log.Scan(max(from, s.log.MinOffset()), s.log.Visible(), func(r *message.DispatchRequest) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !yield(r.View, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(message.View{}, typed(err))
		}
	}
}

// OffsetByTime is the log offset of a record before which none was stored after
// the time (ms since the Unix epoch): the first one of a file.
func (s *DefaultMessageStore) OffsetByTime(time int64) message.LogOffset {
	return s.log.FileStoredBefore(time - 1)
}

// FileStart is the log offset at which the file begins that has the offset: that of
// a record, if the file is there.
func (s *DefaultMessageStore) FileStart(off message.LogOffset) message.LogOffset {
	return s.log.FileStart(off)
}

// DelayLevels are those of Config.DelayLevels.
func (s *DefaultMessageStore) DelayLevels() message.DelayLevels {
	levels, _ := message.ParseDelayLevels(s.cfg.DelayLevels) // Open has read them before
	return levels
}
