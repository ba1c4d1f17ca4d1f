package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pocketmq/pocketmq/message"
)

// Store is what a look at a directory gives. It is a value.
type Store struct {
	Dir string `json:"dir"`
	// Marked says that the marker is there that a store leaves while it is open:
	// it is in use, or was not closed properly. Owner is what the process wrote
	// about itself that had it last; "" for none that was PocketMQ's.
	Marked bool   `json:"marked"`
	Owner  string `json:"owner,omitempty"`

	Checkpoint Checkpoint `json:"checkpoint"`
	Log        LogInfo    `json:"log"`
	Topics     []Topic    `json:"topics"`
	Foreign    []string   `json:"foreign,omitempty"` // paths of what belongs in no store
}

// Checkpoint is the store times (ms) up to which log, consume queues and full
// index files are on disk; zeros where there is no file.
type Checkpoint struct {
	Log    int64 `json:"log"`
	Queues int64 `json:"queues"`
	Index  int64 `json:"index"`
}

// LogInfo is the commit log.
type LogInfo struct {
	Files []File `json:"files"`
	// Start and End enclose what can be read. Behind damage that no consume
	// queue points beyond, End may be too low: Verify looks closer.
	Start message.LogOffset `json:"start"`
	End   message.LogOffset `json:"end"`
	// LastTime is the store time of the last record (ms), 0 for none.
	LastTime int64 `json:"lastTime"`
}

// Topic is a topic that has consume queues.
type Topic struct {
	Name   string      `json:"name"`
	Queues []QueueInfo `json:"queues"`
}

// QueueInfo is one consume queue: messages [Min, Max).
type QueueInfo struct {
	ID    int32               `json:"id"`
	Min   message.QueueOffset `json:"min"`
	Max   message.QueueOffset `json:"max"`
	Files int                 `json:"files"`
	Bytes int64               `json:"bytes"` // of its files
}

// Info looks at the files of a store: what there is, and where it begins and
// ends. It reads the consume queues' last files and the tail of the log.
func Info(dir string) (Store, error) {
	s, err := info(dir)
	if err != nil {
		return Store{}, fmt.Errorf("inspect: %w", err)
	}
	return s, nil
}

func info(dir string) (Store, error) {
	s := Store{Dir: dir}
	if err := Check(dir); err != nil {
		return s, err
	}
	var err error
	if s.Marked, err = marked(dir); err != nil {
		return s, err
	}
	if s.Owner, err = owner(dir); err != nil {
		return s, err
	}
	if s.Checkpoint, err = readCheckpoint(dir); err != nil && !errors.Is(err, message.ErrCorrupt) {
		return s, err
	}
	all, err := queues(dir)
	if err != nil {
		return s, err
	}
	log, foreign, err := openLog(dir, 64<<10)
	if err != nil {
		return s, err
	}
	s.Log.Files, s.Foreign = log.files, foreign
	if err := s.findEnds(log, all); err != nil {
		return s, err
	}
	for _, q := range all {
		if err := s.addQueue(q); err != nil {
			return s, err
		}
	}
	return s, nil
}

// findEnds says where the log begins and ends.
func (s *Store) findEnds(log *logReader, all []*queue) error {
	if len(log.files) == 0 {
		return nil
	}
	defer log.close()
	last, err := lastReferenced(log, all)
	if err != nil {
		return err
	}
	w := walk{log: log, pos: max(log.files[0].Base, last)} // not from the record's end: its time is wanted
	for {
		_, ok, err := w.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
	}
	s.Log.Start, s.Log.End, s.Log.LastTime = message.LogOffset(log.files[0].Base), message.LogOffset(w.pos), w.lastTime
	return nil
}

func (s *Store) addQueue(q *queue) error {
	s.Foreign = append(s.Foreign, q.foreign...)
	first, err := q.min(int64(s.Log.Start))
	if err != nil {
		return err
	}
	i := QueueInfo{ID: q.id, Min: message.QueueOffset(first), Max: message.QueueOffset(q.max), Files: len(q.units.files)}
	for _, f := range q.units.files {
		i.Bytes += f.Size
	}
	if n := len(s.Topics); n == 0 || s.Topics[n-1].Name != q.topic {
		s.Topics = append(s.Topics, Topic{Name: q.topic})
	}
	t := &s.Topics[len(s.Topics)-1]
	t.Queues = append(t.Queues, i)
	return nil
}

// lastReferenced returns where the last record begins that a queue's last unit
// points at, -1 for none.
func lastReferenced(log *logReader, all []*queue) (int64, error) {
	last := int64(-1)
	for _, q := range all {
		u, ok, err := q.unit(q.max - 1)
		if err != nil {
			return 0, err
		}
		pos := int64(u.LogOffset)
		if _, inLog := log.find(pos); !ok || !inLog || u.IsBlank() || pos <= last {
			continue
		}
		v, kind, err := log.at(pos)
		if err != nil && !errors.Is(err, message.ErrCorrupt) && !errors.Is(err, errRetired) {
			return 0, err
		}
		if kind == message.KindRecord && v.Size() == int(u.Size) {
			last = pos
		}
	}
	return last, nil
}

// readCheckpoint reads the three times of a checkpoint, big-endian, that
// RocketMQ keeps in the first 24 bytes of the file. The error matches
// message.ErrCorrupt when it is shorter.
func readCheckpoint(dir string) (Checkpoint, error) {
	path := filepath.Join(dir, checkpointFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, nil
	}
	if err != nil {
		return Checkpoint{}, err
	}
	if len(b) < 24 {
		return Checkpoint{}, &message.CorruptionError{File: path, Err: fmt.Errorf("%d bytes, too few for its three times", len(b))}
	}
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	return Checkpoint{Log: at(0), Queues: at(1), Index: at(2)}, nil
}
