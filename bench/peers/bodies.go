package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// noise is what bodies are cut from. It does not compress, and neighbours differ,
// so no peer gains by compressing blocks of messages.
var noise = func() []byte {
	b := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}()

const numberSize = 8 // bytes at the begin of a body that hold the message's number

// fillBody makes the body of message n: its number, and noise.
func fillBody(body []byte, n int64) {
	copy(body, noiseFor(n, len(body)))
	binary.BigEndian.PutUint64(body, uint64(n))
}

func noiseFor(n int64, size int) []byte {
	at := n * int64(size) % int64(len(noise)-size)
	return noise[at : at+int64(size)]
}

// checker compares what is read with what was put.
type checker struct {
	size  int
	order bool // messages must come in the order of their numbers
	seen  []bool
	count int64
}

func newChecker(size int, put int64, order bool) *checker {
	return &checker{size: size, order: order, seen: make([]bool, put)}
}

// check takes the next body that was read.
func (c *checker) check(body []byte) error {
	if len(body) != c.size {
		return fmt.Errorf("message %d that was read has %d bytes, %d were put", c.count, len(body), c.size)
	}
	n := int64(binary.BigEndian.Uint64(body))
	switch {
	case n < 0 || n >= int64(len(c.seen)):
		return fmt.Errorf("message number %d was read, %d were put", n, len(c.seen))
	case c.seen[n]:
		return fmt.Errorf("message number %d was read twice", n)
	case c.order && n != c.count:
		return fmt.Errorf("message number %d was read, it is the turn of %d", n, c.count)
	case !bytes.Equal(body[numberSize:], noiseFor(n, c.size)[numberSize:]):
		return fmt.Errorf("message number %d was read with another body", n)
	}
	c.seen[n] = true
	c.count++
	return nil
}

// complete wants everything read that was put.
func (c *checker) complete() error {
	if c.count != int64(len(c.seen)) {
		return fmt.Errorf("%d messages were read, %d were put", c.count, len(c.seen))
	}
	return nil
}
