package indexfile

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

type vectors struct {
	IndexKey []struct {
		Topic, Key, IndexKey, RawIndexKey string
		KeyHash, Slot5000000              int32
		SlotFilePos                       int64
	}
	IndexFileSmall struct {
		HashSlotNum, IndexNum int32
		FileSize              int64
		Puts                  [][3]any
		HeaderHex             string
		EntriesHexFromIndex1  []string
		Slots                 map[string]int32
	}
}

func readVectors(t *testing.T) (v vectors) {
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &v))
	return v
}

func TestKeyHashOfVectors(t *testing.T) {
	f := &file{slots: RocketMQSlots, entries: RocketMQEntries}
	for _, v := range readVectors(t).IndexKey {
		text := v.IndexKey
		if v.RawIndexKey != "" {
			text = v.RawIndexKey
		} else {
			require.Equal(t, v.KeyHash, KeyHash(v.Topic, v.Key), text)
		}
		require.Equal(t, v.KeyHash, keyHash(0, text), text)
		require.Equal(t, v.Slot5000000, v.KeyHash%f.slots, text)
		require.Equal(t, v.SlotFilePos, f.slotAt(v.KeyHash), text)
	}
	require.EqualValues(t, 420_000_040, FileSize(RocketMQSlots, RocketMQEntries))
}

func TestKeyHashOfLongText(t *testing.T) {
	for _, key := range []string{strings.Repeat("订单", 400), "\xff\xfe" + strings.Repeat("é", 300), ""} {
		require.Equal(t, keyHash(0, "topic#"+key), KeyHash("topic", key))
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { KeyHash("orders", "订单-1") }))
}

// TestSmallestInt has keys whose hash code is the smallest int or near it.
func TestSmallestInt(t *testing.T) {
	for _, c := range []struct {
		topic, key string
		hash, slot int32
	}{
		{"TopicTest", "aentnpwi", 0, 0},
		{"TopicTest", "aentnpwj", 2147483647, 2483647},
		{"TopicTest", "aentnpwh", 2147483647, 2483647},
		{"TopicTest", "acatdqkg", 0, 0},
		{"t", "achssxlk", 0, 0},
		{"t", "ajptrvqq", 0, 0},
	} {
		require.Equal(t, c.hash, KeyHash(c.topic, c.key), c.key)
		require.Equal(t, c.slot, KeyHash(c.topic, c.key)%RocketMQSlots, c.key)
	}
	w := newWorld(t, 1000, 100)
	for _, key := range []string{"aentnpwi", "aentnpwj", "aentnpwh", "acatdqkg"} {
		off := w.put("TopicTest", key)
		require.Equal(t, offsets(off), w.query("TopicTest", key))
	}
	require.Len(t, w.raw("TopicTest", "aentnpwi"), 2)
	require.Len(t, w.raw("TopicTest", "aentnpwj"), 2)
}

func TestSmallFileOfVectors(t *testing.T) {
	v := readVectors(t).IndexFileSmall
	w := newWorld(t, v.HashSlotNum, v.IndexNum)
	f, err := w.index.writable()
	require.NoError(t, err)
	for _, put := range v.Puts {
		hash := keyHash(0, put[0].(string))
		require.NoError(t, f.insert(hash, message.LogOffset(put[1].(float64)), int64(put[2].(float64))))
	}
	b := images(t, w.cfg.Dir)[0]
	require.Len(t, b, int(v.FileSize))
	require.Equal(t, v.HeaderHex, hex.EncodeToString(b[:headerSize]))
	for i, want := range v.EntriesHexFromIndex1 {
		at := f.entryAt(int32(i + 1))
		require.Equal(t, want, hex.EncodeToString(b[at:at+entrySize]))
	}
	for s := range v.HashSlotNum {
		got := int32(binary.BigEndian.Uint32(b[headerSize+slotSize*s:]))
		require.Equal(t, v.Slots[strconv.Itoa(int(s))], got, "slot %d", s)
	}
}

// TestFileIsFull is RocketMQ's test: 399 of 400 keys fit, and key 60 is found.
func TestFileIsFull(t *testing.T) {
	w := newWorld(t, 100, 400)
	for i := range 399 {
		w.put("t", strconv.Itoa(i))
	}
	require.Len(t, w.index.Files(), 1)
	require.EqualValues(t, 400, w.index.Files()[0].Header.Count)
	require.Len(t, w.query("t", "60"), 1)
	w.put("t", "399")
	require.Len(t, w.index.Files(), 2)
}
