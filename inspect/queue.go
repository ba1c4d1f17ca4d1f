package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// blankLeft is the first field of the blank at a log file's end.
func blankLeft(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }

const (
	unitSize  = consumequeue.UnitSize
	unitChunk = 8192 / unitSize * unitSize
)

// queue is one consume queue as it was found.
type queue struct {
	topic   string
	id      int32
	dir     string
	foreign []string // paths of what does not belong in its directory

	units window
	first int64 // first unit that has a file
	max   int64 // behind the last unit that is not zero
}

// queues finds all queues of the store, by topic and id.
func queues(dir string) ([]*queue, error) {
	var all []*queue
	root := filepath.Join(dir, queuesDir)
	topics, err := subdirectories(root)
	if err != nil {
		return nil, err
	}
	for _, topic := range topics {
		names, err := subdirectories(filepath.Join(root, topic))
		if err != nil {
			return nil, err
		}
		ids := make([]int, 0, len(names))
		for _, name := range names {
			if id, err := strconv.ParseInt(name, 10, 32); err == nil && id >= 0 {
				ids = append(ids, int(id))
			}
		}
		sort.Ints(ids)
		for _, id := range ids {
			q, err := openQueue(dir, topic, int32(id))
			if err != nil {
				return nil, err
			}
			all = append(all, q)
		}
	}
	return all, nil
}

// subdirectories lists the names of the directories in dir, sorted; a missing
// one has none.
func subdirectories(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// openQueue finds the files of a queue and where it ends.
func openQueue(dir, topic string, id int32) (*queue, error) {
	q := &queue{topic: topic, id: id, dir: filepath.Join(dir, queuesDir, topic, strconv.Itoa(int(id)))}
	return q, q.refresh()
}

// refresh looks again.
func (q *queue) refresh() error {
	files, foreign, err := list(q.dir)
	if err != nil {
		return q.wrap(err)
	}
	q.units = window{space: space{dir: q.dir, files: files}, chunk: unitChunk}
	q.foreign, q.first, q.max = foreign, 0, 0
	if len(files) > 0 {
		q.first = files[0].Base / unitSize
		q.max = q.first
	}
	for i := len(files) - 1; i >= 0; i-- {
		used, err := usedUnits(q.dir, files[i])
		if errors.Is(err, errRetired) {
			return q.refresh()
		}
		if err != nil {
			return q.wrap(err)
		}
		if used > 0 {
			q.max = files[i].Base/unitSize + used
			break
		}
	}
	return nil
}

func (q *queue) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("consume queue %s/%d: %w", q.topic, q.id, err)
}

func (q *queue) String() string { return fmt.Sprintf("%s/%d", q.topic, q.id) }

// usedUnits counts the units of a file up to the last one that is not zero.
func usedUnits(dir string, f File) (int64, error) {
	s := space{dir: dir, files: []File{f}}
	defer s.close()
	buf := make([]byte, 64<<10/unitSize*unitSize)
	for end := f.Size / unitSize * unitSize; end > 0; {
		from := max(0, end-int64(len(buf)))
		b := buf[:end-from]
		n, err := s.read(b, f.Base+from)
		if err != nil {
			return 0, err
		}
		if firstNonzero(b[:n]) < 0 {
			n = 0
		}
		for i := n / unitSize; i > 0; i-- {
			if consumequeue.ParseUnit(b[(i-1)*unitSize:]) != (consumequeue.Unit{}) {
				return from/unitSize + int64(i), nil
			}
		}
		end = from
	}
	return 0, nil
}

// unit returns one unit, false where no file has it, or has it any more. No file
// stays open: there may be many queues.
func (q *queue) unit(n int64) (consumequeue.Unit, bool, error) {
	if n < 0 || n > math.MaxInt64/unitSize {
		return consumequeue.Unit{}, false, nil
	}
	b, err := q.units.from(n*unitSize, unitSize)
	q.units.close()
	if errors.Is(err, errRetired) {
		return consumequeue.Unit{}, false, nil
	}
	if err != nil || len(b) < unitSize {
		return consumequeue.Unit{}, false, q.wrap(err)
	}
	return consumequeue.ParseUnit(b), true, nil
}

// withFile returns the first unit from n on that a file has, q.max for none.
func (q *queue) withFile(n int64) int64 {
	if _, ok := q.units.find(n * unitSize); ok {
		return n
	}
	f, ok := q.units.after(n * unitSize)
	if !ok {
		return q.max
	}
	return min(q.max, (f.Base+unitSize-1)/unitSize)
}

// place is the file that holds a unit, and where in it.
func (q *queue) place(n int64) (string, int64) {
	f, ok := q.units.find(n * unitSize)
	if !ok {
		return q.dir, 0
	}
	return f.Path, n*unitSize - f.Base
}

// nextReal returns the first unit from n on that points at a record.
func (q *queue) nextReal(n int64) (int64, consumequeue.Unit, error) {
	for n = q.withFile(n); n < q.max; n = q.withFile(n + 1) {
		u, ok, err := q.unit(n)
		if err != nil {
			return 0, consumequeue.Unit{}, err
		}
		if ok && u.Size > 0 && !u.IsBlank() {
			return n, u, nil
		}
	}
	return q.max, consumequeue.Unit{}, nil
}

// min is the first unit whose record the log may have: not before start.
func (q *queue) min(start int64) (int64, error) {
	var failed error
	n := q.first + int64(sort.Search(int(q.max-q.first), func(i int) bool {
		at, u, err := q.nextReal(q.first + int64(i))
		failed = errors.Join(failed, err)
		return at < q.max && int64(u.LogOffset) >= start
	}))
	n, _, err := q.nextReal(n)
	return n, errors.Join(failed, err)
}

// Unit is one unit of a consume queue and its number.
type Unit struct {
	consumequeue.Unit

	QueueOffset message.QueueOffset
}

// Queue yields the units of a queue in order, from the first one that has a
// file to the last one that is not zero: also blanks, and those of messages
// that are gone from the log. An unknown queue has none. An error comes last.
func Queue(dir, topic string, id int32) iter.Seq2[Unit, error] {
	return func(yield func(Unit, error) bool) {
		if err := errors.Join(Check(dir), message.CheckStoredTopic(topic)); err != nil {
			yield(Unit{}, err)
			return
		}
		q, err := openQueue(dir, topic, id)
		if err != nil {
			yield(Unit{}, err)
			return
		}
		for n := q.first; n < q.max; n = q.withFile(n + 1) {
			u, ok, err := q.unit(n)
			if err != nil {
				yield(Unit{}, err)
				return
			}
			if ok && !yield(Unit{u, message.QueueOffset(n)}, nil) {
				return
			}
		}
	}
}
