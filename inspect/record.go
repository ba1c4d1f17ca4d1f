package inspect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/pocketmq/pocketmq/message"
)

// logReader reads records of the log, one at a time.
type logReader struct{ window }

const logChunk = 1 << 20

func newLogReader(dir string, files []File, chunk int) *logReader {
	return &logReader{window{space: space{dir: dir, files: files}, chunk: chunk}}
}

// openLog lists the files of the log of the store in dir, and the paths of what
// does not belong there.
func openLog(dir string, chunk int) (log *logReader, foreign []string, err error) {
	path := filepath.Join(dir, logDir)
	files, foreign, err := list(path)
	if err != nil {
		return nil, nil, fmt.Errorf("commit log: %w", err)
	}
	return newLogReader(path, files, chunk), foreign, nil
}

var recordMagic = binary.BigEndian.AppendUint32(nil, message.RecordMagic)

// at reads what lies at pos, which is in a file. The View is valid until the
// next call. The error of KindDamaged matches message.ErrCorrupt; any other
// error is of the file. The body's checksum is not compared.
func (r *logReader) at(pos int64) (message.View, message.Kind, error) {
	f, _ := r.find(pos)
	left := f.End() - pos
	b, err := r.from(pos, int(min(left, message.BlankSize)))
	if err != nil {
		return message.View{}, message.KindDamaged, err
	}
	if len(b) >= message.BlankSize && bytes.Equal(b[4:8], recordMagic) {
		// The first field of a record is its size: all of it must be in memory.
		size := int64(int32(binary.BigEndian.Uint32(b)))
		if size > left {
			return message.View{}, message.KindDamaged, damaged("record size %d, but the file ends after %d bytes", size, left)
		}
		if size > int64(len(b)) {
			if b, err = r.from(pos, int(size)); err != nil {
				return message.View{}, message.KindDamaged, err
			}
		}
	}
	v, kind, err := message.ReadRecord(b)
	if kind == message.KindRecord && int64(v.LogOffset()) != pos {
		return message.View{}, message.KindDamaged, damaged("a record that was written for offset %d", v.LogOffset())
	}
	return v, kind, err
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", message.ErrCorrupt, fmt.Sprintf(format, args...))
}

// search looks for the first sound record after pos that is not older than
// notBefore (ms). A record counts only if it names its own position and its
// checksum is right. It returns as well the first position at or after pos
// where there is something else than zeros, -1 for none before the record.
func (r *logReader) search(pos, notBefore int64) (next int64, ok bool, nonzero int64, err error) {
	nonzero = -1
	probe := newLogReader(r.dir, r.files, 4<<10)
	defer probe.close()
	for at := pos; at < r.end(); {
		f, inFile := r.find(at)
		if !inFile {
			if f, inFile = r.after(at); !inFile {
				break
			}
			at = f.Base
		}
		b, err := r.from(at, int(min(f.End()-at, logChunk)))
		if err != nil {
			return 0, false, nonzero, err
		}
		if len(b) == 0 {
			at = f.End() // shorter than it was
			continue
		}
		if i := firstNonzero(b); nonzero < 0 && i >= 0 {
			nonzero = at + int64(i)
		}
		for i := 0; ; i++ {
			j := bytes.Index(b[i:], recordMagic)
			if j < 0 {
				break
			}
			i += j // the magic follows the size, 4 bytes into a record
			start := at + int64(i) - 4
			if start <= pos || start < f.Base {
				continue
			}
			v, kind, err := probe.at(start)
			if err != nil && kind != message.KindDamaged {
				return 0, false, nonzero, err
			}
			if kind == message.KindRecord && v.StoreTimestamp() >= notBefore && v.Check() == nil {
				return start, true, nonzero, nil
			}
		}
		at += int64(len(b))
		if at < f.End() {
			at = max(at-3, at-int64(len(b))+1) // a magic may lie across two chunks
		}
	}
	return 0, false, nonzero, nil
}

var zeros [4096]byte

func firstNonzero(b []byte) int {
	for i := 0; i < len(b); i += len(zeros) {
		part := b[i:min(i+len(zeros), len(b))]
		if bytes.Equal(part, zeros[:len(part)]) {
			continue
		}
		for j, c := range part {
			if c != 0 {
				return i + j
			}
		}
	}
	return -1
}
