package interop

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

// directory is a store's directory on its way through a test.
type directory struct {
	name string
	path string
	seed uint64
	args openArgs
	rand *rand.Rand // for what is put and asked
	fate *rand.Rand // for how turns end
	pool pool
	want truth

	told    *interview // what is in it, as was answered last
	teller  side       // who answered
	writer  side       // who wrote last
	before  situation  // how its turn ended
	sent    []*put     // during which that was a kill, and not acknowledged
	copies  int
	lost    queueKey // the queue that RocketMQ does not build again, if any; see F35
	fresh   bool     // nothing was ever written
	crashed bool     // RocketMQ has recovered it after a kill
}

// newDirectory draws sizes small enough for files to roll.
func newDirectory(root string, seed uint64) *directory {
	r := rand.New(rand.NewPCG(seed, 1))
	name := fmt.Sprintf("seed%d", seed)
	return &directory{
		name: name, path: filepath.Join(root, name), seed: seed, rand: r, pool: newPool(r), fresh: true,
		fate: rand.New(rand.NewPCG(seed, 3)),
		want: truth{queues: make(map[queueKey][]*kept)},
		args: openArgs{
			SegmentSize:   oneOf(r, []int64{64 << 10, 128 << 10, 256 << 10, 1 << 20}),
			QueueFileSize: 20 * oneOf(r, []int64{8, 20, 100, 300}),
			IndexSlots:    oneOf(r, []int{10, 100, 1000}),
			IndexEntries:  oneOf(r, []int{100, 400, 4000}),
			Sync:          r.IntN(3) == 0,
		},
	}
}

func oneOf[T any](r *rand.Rand, values []T) T { return values[r.IntN(len(values))] }

// pool holds the names that the messages of a directory share.
type pool struct {
	topics []string
	tags   []string
	keys   []string
}

func newPool(r *rand.Rand) pool {
	p := pool{
		topics: []string{"orders", "%RETRY%billing", "тема-主题"},
		tags:   []string{"TagA", "TagB", "Ünïcode", "主😀", "a||b", "C"},
		keys:   []string{"k1", "k2", "ключ", "😀", "Aa", "BB"}, // the hashes of the last two are equal
	}
	p.topics = append(p.topics, letters(r, 1+r.IntN(message.MaxTopicLength)))
	return p
}

func letters(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[r.IntN(64)]
	}
	return string(b)
}

// workload draws messages and batches.
func (d *directory) workload(n int) []*put {
	puts := make([]*put, n)
	for i := range puts {
		puts[i] = d.newPut()
	}
	return puts
}

func (d *directory) newPut() *put {
	r := d.rand
	m := &put{
		queueKey: queueKey{oneOf(r, d.pool.topics), int32(r.IntN(3))},
		Flag:     int32(r.Uint32()),
		BornTime: 1_600_000_000_000 + r.Int64N(1e11), BornHost: randomHost(r), StoreHost: randomHost(r),
		ReconsumeTimes: int32(r.IntN(4)),
	}
	if r.IntN(10) == 0 {
		m.SysFlag = 1 << r.IntN(2) // compressed, many tags: the store looks at neither
	}
	switch kind := r.IntN(100); {
	case kind < 10:
		d.makeBatch(m)
		return m
	case kind < 15:
		m.SysFlag |= int32(message.TransactionPrepared)
	case kind < 19:
		m.SysFlag |= int32(message.TransactionCommit)
		m.Prepared = r.Int64N(1 << 40)
	case kind < 23:
		m.SysFlag |= int32(message.TransactionRollback)
		m.Prepared = r.Int64N(1 << 40)
	}
	m.Body = d.body()
	m.Properties = d.properties()
	if r.IntN(12) == 0 { // not due while a test runs; 25 is more than there are
		m.Properties = with(m.Properties, message.PropertyDelayLevel, oneOf(r, []string{"16", "17", "18", "25"}))
	}
	c := m.content(m.Flag, m.Body, m.Properties)
	m.contents = []content{c}
	return m
}

// makeBatch fills m with a few elements.
func (d *directory) makeBatch(m *put) {
	m.Batch = true
	if d.rand.IntN(3) == 0 {
		m.Properties = "batch\x01" + letters(d.rand, 1+d.rand.IntN(20))
	}
	for range 1 + d.rand.IntN(8) {
		body, properties, flag := randomBytes(d.rand, d.rand.IntN(600)), d.properties(), int32(d.rand.Uint32())
		var err error
		m.Body, err = message.AppendBatchElement(m.Body, &message.Message{Flag: flag, Body: body, Properties: message.Properties(properties)})
		if err != nil {
			panic(err)
		}
		m.contents = append(m.contents, m.content(flag, body, properties+"\x02"+m.Properties))
	}
}

// content is what must be stored.
func (m *put) content(flag int32, body []byte, properties string) content {
	c := content{
		queueKey: m.queueKey, Flag: flag, SysFlag: m.SysFlag, BornTime: m.BornTime, BornHost: m.BornHost, StoreHost: m.StoreHost,
		ReconsumeTimes: m.ReconsumeTimes, Prepared: m.Prepared, BodySHA256: bodySum(body),
		Properties: propertyMap(message.Properties(properties)),
	}
	if isV6(m.BornHost) {
		c.SysFlag |= int32(message.FlagBornHostV6)
	}
	if isV6(m.StoreHost) {
		c.SysFlag |= int32(message.FlagStoreHostV6)
	}
	if level, err := strconv.Atoi(c.Properties[message.PropertyDelayLevel]); err == nil && c.queued() {
		level = min(level, len(delayLevels))
		c.Properties[message.PropertyDelayLevel] = strconv.Itoa(level)
		c.Properties[message.PropertyRealTopic] = m.Topic
		c.Properties[message.PropertyRealQueueID] = strconv.Itoa(int(m.QueueID))
		c.queueKey = queueKey{message.ScheduleTopic, int32(level - 1)}
	}
	return c
}

// queued reports whether the message has a place in a queue.
func (c *content) queued() bool { return message.SysFlag(c.SysFlag).Queued() }

// body is often short and sometimes long.
func (d *directory) body() []byte {
	switch k := d.rand.IntN(20); {
	case k < 2:
		return nil
	case k < 13:
		return randomBytes(d.rand, d.rand.IntN(200))
	case k < 18:
		return randomBytes(d.rand, d.rand.IntN(4096))
	}
	return randomBytes(d.rand, d.rand.IntN(1+int(min(64<<10, d.args.SegmentSize/2))))
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// properties draws tags, keys and others, in any order.
func (d *directory) properties() string {
	r := d.rand
	var all [][2]string
	if r.IntN(4) > 0 {
		all = append(all, [2]string{message.PropertyTags, oneOf(r, d.pool.tags)})
	}
	if r.IntN(2) > 0 {
		keys := make([]string, 1+r.IntN(3))
		for i := range keys {
			keys[i] = oneOf(r, d.pool.keys)
		}
		all = append(all, [2]string{message.PropertyKeys, strings.Join(keys, strings.Repeat(" ", 1+r.IntN(2)))})
	}
	if r.IntN(2) > 0 {
		all = append(all, [2]string{message.PropertyUniqueKey, fmt.Sprintf("%032X", r.Uint64())})
	}
	for i := range r.IntN(3) {
		all = append(all, [2]string{fmt.Sprint("имя", i), letters(r, 1+r.IntN(40)) + " 值😀"})
	}
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	text := ""
	for _, p := range all {
		text = with(text, p[0], p[1])
	}
	return text
}

func with(properties, name, value string) string {
	p, err := message.Properties(properties).With(name, value)
	if err != nil {
		panic(err)
	}
	return string(p)
}

// randomHost is an address of the ranges for documentation.
func randomHost(r *rand.Rand) string {
	port := 1 + r.IntN(65535)
	if r.IntN(4) == 0 {
		return fmt.Sprintf("20010db8%024x:%d", r.Uint64(), port)
	}
	return fmt.Sprintf("c00002%02x:%d", r.IntN(256), port)
}

func isV6(host string) bool { return len(host) > 32 }
