package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"github.com/pocketmq/pocketmq/internal/barekeys"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// config/delayOffset.json is RocketMQ's: by level, the queue offset of the first
// message in the level's queue that is not known to be delivered. The field
// logOffset is ours; RocketMQ passes over it, and writes the file without it.
//
//	{
//		"logOffset":81920,
//		"offsetTable":{1:40,3:7
//		}
//	}
//
// What was delivered before that place of the log is counted in the table, and
// what was delivered behind it is not. So after a crash the copies behind it
// tell what else was delivered, and nothing is delivered twice.
const (
	delayFile      = "delayOffset.json"
	delayLogOffset = "logOffset"
	delayTable     = "offsetTable"
)

// delayProgress is what the file says.
type delayProgress struct {
	doc    object // with fields that this version does not know
	next   queueOffsets
	marked bool // the file has logOffset
	mark   message.LogOffset
}

// readDelayProgress reads the file; a missing one is that of a store in which
// nothing was ever delivered.
func readDelayProgress(s *store.DefaultMessageStore) (p delayProgress, found bool, err error) {
	text, err := s.ReadConfig(delayFile, func(b []byte) error { _, err := parseDelayProgress(b); return err })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return delayProgress{doc: object{}, next: queueOffsets{}}, false, nil
	case err != nil:
		return p, false, fmt.Errorf("%s (without the file, delayed messages are delivered again): %w", delayFile, err)
	}
	if p, err = parseDelayProgress(text); err != nil {
		return p, false, fmt.Errorf("%s: %w", delayFile, err)
	}
	return p, true, nil
}

func parseDelayProgress(text []byte) (delayProgress, error) {
	doc, err := barekeys.Parse(text)
	if err != nil {
		return delayProgress{}, err
	}
	next, err := fieldOffsets(doc, delayTable)
	if err != nil {
		return delayProgress{}, err
	}
	mark, err := fieldInt(doc, delayLogOffset, -1)
	return delayProgress{doc, next, mark >= 0, message.LogOffset(mark)}, err
}

// write replaces the file. It is durable on return.
func (p *delayProgress) write(s *store.DefaultMessageStore) error {
	doc := maps.Clone(p.doc)
	doc[delayTable], doc[delayLogOffset] = p.next, int64(p.mark)
	if err := s.WriteConfig(delayFile, appendObject(nil, doc, 0)); err != nil {
		return fmt.Errorf("%s: %w", delayFile, err)
	}
	return nil
}
