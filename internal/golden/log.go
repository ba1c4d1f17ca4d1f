package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pocketmq/pocketmq/message"
)

// Log is a commit log, all of it in memory.
type Log struct {
	Start       int64 // log offset of the first file
	SegmentSize int64
	Segments    [][]byte
}

// ReadLog reads the commit log of a store directory. Every file must have
// segmentSize bytes, and they must follow each other without a gap.
func ReadLog(dir string, segmentSize int64) (*Log, error) {
	log := &Log{SegmentSize: segmentSize}
	entries, err := os.ReadDir(filepath.Join(dir, "commitlog")) // sorted by name
	if os.IsNotExist(err) {
		return log, nil
	}
	if err != nil {
		return nil, err
	}
	for i, entry := range entries {
		start, err := strconv.ParseInt(entry.Name(), 10, 64)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			log.Start = start
		}
		if want := log.Start + int64(i)*segmentSize; start != want {
			return nil, fmt.Errorf("commit log: %s where the file of offset %d is expected", entry.Name(), want)
		}
		data, err := os.ReadFile(filepath.Join(dir, "commitlog", entry.Name()))
		if err != nil {
			return nil, err
		}
		if int64(len(data)) != segmentSize {
			return nil, fmt.Errorf("commit log: %s has %d bytes instead of %d", entry.Name(), len(data), segmentSize)
		}
		log.Segments = append(log.Segments, data)
	}
	return log, nil
}

// At returns what follows a log offset in its file, nil outside the log.
func (l *Log) At(off int64) []byte {
	if off < l.Start || off >= l.Start+int64(len(l.Segments))*l.SegmentSize {
		return nil
	}
	return l.Segments[(off-l.Start)/l.SegmentSize][(off-l.Start)%l.SegmentSize:]
}

// Found is what lies at one position of a log.
type Found struct {
	Offset int64
	Kind   message.Kind
	View   message.View // of KindRecord
	Err    error        // of KindDamaged
}

// Walk reads the log from its start, as far as it is readable. The last element
// says what ended it: KindNothing or KindDamaged, or KindBlank at the end of
// the last file.
func (l *Log) Walk() []Found {
	var found []Found
	for off := l.Start; ; {
		b := l.At(off)
		if b == nil {
			return found
		}
		f := Found{Offset: off}
		f.View, f.Kind, f.Err = message.ReadRecord(b)
		found = append(found, f)
		switch f.Kind {
		case message.KindRecord:
			off += int64(f.View.Size())
		case message.KindBlank:
			off += int64(len(b))
		default:
			return found
		}
	}
}
