package mq

import (
	"compress/zlib"
	"errors"
	"sync"
)

// DefaultCompressLevel is zlib's level where ProducerConfig names none:
// RocketMQ's choice between speed and size.
const DefaultCompressLevel = 5

// compressor makes bodies smaller that are large enough. Its buffers are used
// again, because no broker keeps a body.
type compressor struct {
	over  int // from so many bytes on; 0: never
	level int
	pool  sync.Pool // of *deflater
}

// deflater is a zlib stream into a buffer that refuses more than limit bytes.
type deflater struct {
	w     *zlib.Writer
	out   []byte
	limit int
}

var errNotSmaller = errors.New("not smaller")

func (d *deflater) Write(b []byte) (int, error) {
	if len(d.out)+len(b) > d.limit {
		return 0, errNotSmaller
	}
	d.out = append(d.out, b...)
	return len(b), nil
}

// compress returns the compressed body if it is smaller, else nil. What has the
// bytes is to be given back by release.
func (c *compressor) compress(body []byte) *deflater {
	if c.over == 0 || len(body) < c.over {
		return nil
	}
	d, ok := c.pool.Get().(*deflater)
	if !ok {
		d = &deflater{}
		d.w, _ = zlib.NewWriterLevel(d, c.level) // the level was checked
	}
	d.out, d.limit = d.out[:0], len(body)-1
	d.w.Reset(d)
	_, err := d.w.Write(body)
	if err == nil {
		err = d.w.Close()
	}
	if err != nil {
		c.pool.Put(d)
		return nil
	}
	return d
}

func (c *compressor) release(d *deflater) {
	if d != nil {
		c.pool.Put(d)
	}
}
