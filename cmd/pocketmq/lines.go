package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lineReader reads lines with what ends them. The last line of a text may have
// no terminator.
type lineReader struct {
	r     *bufio.Reader
	name  string // for errors
	limit int    // bytes
	line  int    // number of the last line
}

func newLineReader(r io.Reader, name string, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10), name: name, limit: limit}
}

// ready reports whether the next line is there without waiting for it.
func (l *lineReader) ready() bool {
	b, err := l.r.Peek(l.r.Buffered())
	return err == nil && bytes.IndexByte(b, '\n') >= 0
}

// next returns the next line, io.EOF at the end. It is the caller's.
func (l *lineReader) next() ([]byte, error) {
	l.line++
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > l.limit:
			return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes, the limit of a message's body", l.name, l.line, l.limit)
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("%s: after line %d: %w", l.name, l.line-1, err)
		}
	}
}
