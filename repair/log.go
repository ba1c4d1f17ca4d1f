package repair

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
)

// Permissions of what is made: those of a store.
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// logWriter writes a log whose records lie where they are told to lie. A range
// between two of them is filled: where it reaches the end of a file with the
// blank that ends a file, elsewhere with fillers.
type logWriter struct {
	dir     string
	size    int64 // of a file
	pos     int64 // end of what was written
	file    *os.File
	w       *bufio.Writer
	time    int64 // store time of the last record, ms
	fillers int64
	rec     []byte
}

// begin says where the log begins, and how large its files are.
func (w *logWriter) begin(start message.LogOffset, size int64) error {
	w.pos, w.size = int64(start), size
	if size > 0 && w.pos%size != 0 {
		return fmt.Errorf("the log begins at %d, not a multiple of its file size %d", start, size)
	}
	return nil
}

// record writes a record, and what has to lie before it.
func (w *logWriter) record(k inspect.KeptRecord) error {
	if w.time == 0 {
		w.time = k.StoreTimestamp()
	}
	if err := w.fill(int64(k.LogOffset())); err != nil {
		return err
	}
	rec := k.Raw()
	if k.Number != k.QueueOffset() {
		w.rec = append(w.rec[:0], rec...)
		message.PlaceRecord(w.rec, k.Number, k.LogOffset(), k.StoreTimestamp())
		rec = w.rec
	}
	w.time = k.StoreTimestamp()
	return w.write(rec)
}

// fill writes up to pos, where a record comes.
func (w *logWriter) fill(pos int64) error {
	for w.pos < pos {
		end := w.pos - w.pos%w.size + w.size
		if pos < end {
			return w.place(pos)
		}
		var b [message.BlankSize]byte
		message.PutBlank(b[:], int(end-w.pos))
		if err := w.write(b[:]); err != nil {
			return err
		}
		w.pos = end
	}
	return nil
}

// maxFiller is the size of the largest filler: what a broker takes by default.
const maxFiller = 4 << 20

// place fills up to pos in the same file. A record takes at least 91 bytes.
func (w *logWriter) place(pos int64) error {
	for w.pos < pos {
		n := pos - w.pos
		if n > maxFiller {
			n = min(maxFiller, n-message.MinRecordSize)
		}
		if err := w.write(w.filler(int(n))); err != nil {
			return err
		}
		w.fillers++
	}
	return nil
}

// filler is a record of n bytes that holds a place; see inspect.IsFiller.
func (w *logWriter) filler(n int) []byte {
	var m message.MessageExt
	m.Topic = inspect.FillerTopic[:min(len(inspect.FillerTopic), n-message.MinRecordSize)]
	m.Body = make([]byte, n-message.MinRecordSize-len(m.Topic))
	m.SysFlag = message.TransactionRollback
	m.BornTimestamp, m.StoreTimestamp, m.LogOffset = w.time, w.time, message.LogOffset(w.pos)
	m.BodyCRC = message.BodyCRC(m.Body)
	rec := make([]byte, m.RecordSize())
	m.PutRecord(rec)
	message.PlaceRecord(rec, 0, m.LogOffset, w.time)
	return rec
}

// write appends b to the file that holds w.pos.
func (w *logWriter) write(b []byte) error {
	base := w.pos - w.pos%w.size
	if w.file == nil || w.pos == base {
		if err := w.create(base); err != nil {
			return err
		}
	}
	n, err := w.w.Write(b)
	w.pos += int64(n)
	return err
}

// create makes the next file, of full length.
func (w *logWriter) create(base int64) error {
	if err := w.close(); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(w.dir, fmt.Sprintf("%020d", base)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	w.file, w.w = f, bufio.NewWriterSize(f, 1<<20)
	return f.Truncate(w.size)
}

// end is called behind the last record. A log that has none and does not begin at
// 0 keeps where it begins, in a file that holds nothing.
func (w *logWriter) end() error {
	if w.file == nil && w.pos > 0 {
		if err := w.create(w.pos); err != nil {
			return err
		}
	}
	return w.close()
}

// close syncs the last file.
func (w *logWriter) close() (err error) {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	if err = w.w.Flush(); err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
