package store_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
)

// indexImage is an index, built by the rules of the format.
type indexImage struct {
	slots, entries int32
	files          [][]byte
}

const (
	indexHeaderSize = 40
	indexEntrySize  = 20
)

func newIndexImage(config golden.Config) *indexImage {
	return &indexImage{slots: int32(config.MaxHashSlotNum), entries: int32(config.MaxIndexNum)}
}

// offsets lists the records of the log in order.
func (m *model) offsets() []int64 { return slices.Sorted(maps.Keys(m.records)) }

// index builds the index of all records.
func (m *model) index(config golden.Config) *indexImage {
	x := newIndexImage(config)
	for _, off := range m.offsets() {
		x.add(m.records[off])
	}
	return x
}

func (x *indexImage) entryAt(e int32) int {
	return indexHeaderSize + 4*int(x.slots) + indexEntrySize*int(e)
}

// add indexes the record that follows.
func (x *indexImage) add(v message.View) {
	x.room()
	for _, key := range keysOf(v) {
		x.put(x.room(), javaAbs(string(v.Topic())+"#"+key), int64(v.LogOffset()), v.StoreTimestamp())
	}
}

// room is the newest file, or the next one when that is full.
func (x *indexImage) room() []byte {
	be := binary.BigEndian
	var last []byte
	if len(x.files) > 0 {
		last = x.files[len(x.files)-1]
		if int32(be.Uint32(last[36:])) < x.entries {
			return last
		}
	}
	b := make([]byte, x.entryAt(x.entries))
	if last != nil { // both times and both offsets are those of its end
		for _, at := range []int{0, 8} {
			copy(b[at:at+8], last[8:16])
			copy(b[16+at:24+at], last[24:32])
		}
	}
	x.files = append(x.files, b)
	return b
}

func (x *indexImage) put(b []byte, hash int32, off, ms int64) {
	be := binary.BigEndian
	n := max(1, be.Uint32(b[36:]))
	if n == 1 {
		be.PutUint64(b, uint64(ms))
		be.PutUint64(b[16:], uint64(off))
	}
	slot := b[indexHeaderSize+4*(hash%x.slots):]
	prev := be.Uint32(slot)
	e := b[x.entryAt(int32(n)):]
	be.PutUint32(e, uint32(hash))
	be.PutUint64(e[4:], uint64(off))
	if begin := int64(be.Uint64(b)); begin > 0 {
		be.PutUint32(e[12:], uint32(max(0, (ms-begin)/1000)))
	}
	be.PutUint32(e[16:], prev)
	be.PutUint32(slot, n)
	if prev == 0 {
		be.PutUint32(b[32:], be.Uint32(b[32:])+1)
	}
	be.PutUint32(b[36:], n+1)
	be.PutUint64(b[8:], uint64(ms))
	be.PutUint64(b[24:], uint64(off))
}

// javaAbs is Math.abs(s.hashCode()), 0 where that is negative.
func javaAbs(s string) int32 {
	h := int32(0)
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(unit)
	}
	return max(h, max(0, -h))
}

// indexOf lists the index files of a directory, oldest first.
func indexOf(files map[string][]byte) [][]byte {
	var index [][]byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, "index/") {
			index = append(index, files[name])
		}
	}
	return index
}

// sameIndex compares index files, whose names are times.
func sameIndex(t *testing.T, what string, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d index files, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if string(got[i]) != string(want[i]) {
			t.Errorf("%s: index file %d of %d (%d bytes, not %d) differs from byte %d on", what, i, len(want), len(got[i]), len(want[i]),
				firstDifference(got[i], want[i]))
		}
	}
}

// rocketIndex wants the image to be RocketMQ's index files, and what RocketMQ
// said about them. Files whose messages were all deleted are gone.
func (rec recording) rocketIndex(t *testing.T, x *indexImage, rocket [][]byte) {
	t.Helper()
	want := slices.DeleteFunc(slices.Clone(x.files), func(b []byte) bool { return indexState(b).EndPhyOffset < rec.log.Start })
	sameIndex(t, rec.name+" as stored, by RocketMQ", rocket, want)
	if rec.indexFiles == nil {
		return
	}
	var said, is []string
	for _, s := range rec.indexFiles {
		s.Name = ""
		said = append(said, fmt.Sprintf("%+v", s))
	}
	for _, b := range want {
		is = append(is, fmt.Sprintf("%+v", indexState(b)))
	}
	if !slices.Equal(said, is) {
		t.Errorf("%s: RocketMQ says %v about its index files, which are %v", rec.name, said, is)
	}
}

func indexState(b []byte) golden.IndexState {
	be := binary.BigEndian
	return golden.IndexState{
		BeginTimestamp: int64(be.Uint64(b)), EndTimestamp: int64(be.Uint64(b[8:])),
		BeginPhyOffset: int64(be.Uint64(b[16:])), EndPhyOffset: int64(be.Uint64(b[24:])),
		HashSlotCount: int(be.Uint32(b[32:])), IndexCount: max(1, int(be.Uint32(b[36:]))),
	}
}
