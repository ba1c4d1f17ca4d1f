package interop

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// serve does what Driver.java does, with PocketMQ's store, until its input ends.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	replies := replyWriter{out: out}
	workers := make(map[string]chan command)
	var running sync.WaitGroup
	defer running.Wait()
	defer func() {
		for _, w := range workers {
			close(w)
		}
	}()
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("command %.200s: %w", line, err)
		}
		if workers[c.Store] == nil {
			w := make(chan command, 1000)
			workers[c.Store] = w
			running.Go(func() {
				var p peer
				for c := range w {
					result, err := p.execute(ctx, c)
					replies.write(c.ID, result, err)
				}
			})
		}
		workers[c.Store] <- c
	}
}

type replyWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *replyWriter) write(id int64, result any, err error) {
	line := map[string]any{"id": id, "result": result}
	if err != nil {
		line["error"] = err.Error()
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, "%s\n", text)
}

// peer does the commands of one store.
type peer struct {
	s   *store.DefaultMessageStore
	end message.LogOffset // of what was put
}

func (p *peer) execute(ctx context.Context, c command) (any, error) {
	switch c.Op {
	case "open":
		return nil, p.open(ctx, *c.Open)
	case "put":
		return p.put(ctx, c.Message)
	case "list":
		if err := p.dispatched(ctx); err != nil {
			return nil, err
		}
		l := listing{MinLog: int64(p.s.MinOffset()), MaxLog: int64(p.s.MaxOffset())}
		for _, q := range p.s.Queues() {
			l.Queues = append(l.Queues, queueBounds{queueKey{q.Topic, q.QueueID}, int64(q.MinOffset), int64(q.MaxOffset)})
		}
		return l, nil
	case "ask":
		if err := p.dispatched(ctx); err != nil {
			return nil, err
		}
		answers := make([]answer, len(c.Questions))
		for i, q := range c.Questions {
			var err error
			if answers[i], err = p.answer(ctx, q); err != nil {
				return nil, fmt.Errorf("question %d, %+v: %w", i, q, err)
			}
		}
		return answers, nil
	case "close":
		return nil, p.s.Close()
	}
	return nil, fmt.Errorf("no operation %s", c.Op)
}

// dispatched returns when all that was put can be read.
func (p *peer) dispatched(ctx context.Context) error {
	end := max(p.end, p.s.MaxOffset())
	return errors.Join(p.s.WaitDispatched(ctx, end), p.s.WaitIndexed(ctx, end))
}

func (p *peer) open(ctx context.Context, a openArgs) (err error) {
	mode := store.FlushAsync
	if a.Sync {
		mode = store.FlushSync
	}
	p.end = 0
	p.s, err = store.Open(ctx, a.Dir, store.Config{
		Flush: mode, SegmentSize: a.SegmentSize, ConsumeQueueFileSize: a.QueueFileSize,
		IndexSlots: int32(a.IndexSlots), IndexEntries: int32(a.IndexEntries),
	})
	return err
}

func (p *peer) put(ctx context.Context, m *put) (placement, error) {
	inner, err := m.message()
	if err != nil {
		return placement{}, err
	}
	var r store.PutMessageResult
	if m.Batch {
		r, err = p.s.PutMessages(ctx, &message.MessageExtBatch{MessageExtBrokerInner: inner})
	} else if inner, err = delayLevels.Park(inner); err == nil { // a broker's part
		r, err = p.s.PutMessage(ctx, &inner)
	}
	if err != nil {
		return placement{}, err
	}
	p.end = r.LogOffset + message.LogOffset(r.Bytes)
	return placement{
		Status: r.Status.String(), LogOffset: int64(r.LogOffset), QueueOffset: int64(r.QueueOffset), Bytes: int64(r.Bytes),
		StoreTime: r.StoreTimestamp, ID: r.MessageID(),
	}, nil
}

// delayLevels is RocketMQ's default.
var delayLevels = func() message.DelayLevels {
	levels, err := message.ParseDelayLevels(message.DefaultDelayLevels)
	if err != nil {
		panic(err)
	}
	return levels
}()

// message is what PocketMQ's store takes.
func (m *put) message() (message.MessageExtBrokerInner, error) {
	born, err := parseHost(m.BornHost)
	if err != nil {
		return message.MessageExtBrokerInner{}, err
	}
	host, err := parseHost(m.StoreHost)
	if err != nil {
		return message.MessageExtBrokerInner{}, err
	}
	return message.MessageExtBrokerInner{MessageExt: message.MessageExt{
		Message:   message.Message{Topic: m.Topic, Flag: m.Flag, Body: m.Body, Properties: message.Properties(m.Properties)},
		QueueID:   m.QueueID,
		SysFlag:   message.SysFlag(m.SysFlag),
		BornHost:  born,
		StoreHost: host, BornTimestamp: m.BornTime,
		ReconsumeTimes:            m.ReconsumeTimes,
		PreparedTransactionOffset: message.LogOffset(m.Prepared),
	}}, nil
}

func parseHost(text string) (message.Host, error) {
	digits, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(digits)
	if err != nil {
		return message.Host{}, err
	}
	addr, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseInt(port, 10, 32)
	if !ok || err != nil {
		return message.Host{}, fmt.Errorf("host %q", text)
	}
	return message.Host{Addr: addr, Port: int32(n)}, nil
}

func showHost(h message.Host) string {
	return hex.EncodeToString(h.Addr.AsSlice()) + ":" + strconv.Itoa(int(h.Port))
}

// answer puts a question to the store.
func (p *peer) answer(ctx context.Context, q question) (a answer, err error) {
	off := message.QueueOffset(q.Offset)
	switch q.Op {
	case "get":
		return p.get(ctx, q)
	case "bounds":
		a.Min, a.Max = int64(p.s.MinOffsetInQueue(q.Topic, q.QueueID)), int64(p.s.MaxOffsetInQueue(q.Topic, q.QueueID))
	case "unit":
		at, _ := p.s.CommitLogOffsetInQueue(q.Topic, q.QueueID, off)
		a.Number = int64(at)
		a.Time = orNone(p.s.MessageStoreTimestamp(q.Topic, q.QueueID, off))
	case "earliest":
		a.Time = orNone(p.s.EarliestMessageTime(q.Topic, q.QueueID))
	case "byTime":
		lower, err1 := p.s.OffsetInQueueByTime(ctx, q.Topic, q.QueueID, q.Time, store.BoundaryLower)
		upper, err2 := p.s.OffsetInQueueByTime(ctx, q.Topic, q.QueueID, q.Time, store.BoundaryUpper)
		a.Number, a.Upper, err = int64(lower), int64(upper), errors.Join(err1, err2)
	case "look":
		a.Message, err = p.look(ctx, message.LogOffset(q.Offset))
	case "query":
		return p.query(ctx, q)
	default:
		err = fmt.Errorf("no question %s", q.Op)
	}
	return a, err
}

// orNone is RocketMQ's way of saying that there is no time.
func orNone(ms int64, ok bool) int64 {
	if !ok {
		return -1
	}
	return ms
}

// RocketMQ's limits of one get, on a store far smaller than memory.
const (
	maxTransferBytes = 262144
	maxTransferCount = 32
)

func (p *peer) get(ctx context.Context, q question) (answer, error) {
	query := store.GetQuery{
		Group: "interop", Topic: q.Topic, QueueID: q.QueueID, Offset: message.QueueOffset(q.Offset),
		MaxCount: max(1, min(q.MaxNum, maxTransferCount)), MaxBytes: maxTransferBytes,
	}
	if q.Tags != nil {
		query.TagFilter = message.ParseTagFilter(*q.Tags)
	}
	r, err := p.s.GetMessage(ctx, query)
	if err != nil {
		return answer{}, err
	}
	defer r.Release()
	return answer{
		Status: r.Status.String(), Next: int64(r.NextBeginOffset), Min: int64(r.MinOffset), Max: int64(r.MaxOffset),
		Records: places(r.Messages),
	}, nil
}

func (p *peer) query(ctx context.Context, q question) (answer, error) {
	r, err := p.s.QueryMessage(ctx, store.KeyQuery{Topic: q.Topic, Key: q.Key, MaxNum: q.MaxNum, Begin: q.Begin, End: q.End})
	if err != nil {
		return answer{}, err
	}
	defer r.Release()
	return answer{Records: places(r.Messages)}, nil
}

func places(views []message.View) []recordPlace {
	var all []recordPlace
	for _, v := range views {
		sum := sha256.Sum256(v.Raw())
		all = append(all, recordPlace{int64(v.LogOffset()), int64(v.QueueOffset()), v.Size(), hex.EncodeToString(sum[:])})
	}
	return all
}

func (p *peer) look(ctx context.Context, off message.LogOffset) (*seen, error) {
	m, err := p.s.LookMessageByOffset(ctx, off)
	if errors.Is(err, message.ErrOffsetNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &seen{
		QueueOffset: int64(m.QueueOffset), LogOffset: int64(m.LogOffset), Size: m.StoreSize,
		StoreTime: m.StoreTimestamp, BodyCRC: int32(m.BodyCRC),
		content: content{
			queueKey: queueKey{m.Topic, m.QueueID}, Flag: m.Flag, SysFlag: int32(m.SysFlag), BornTime: m.BornTimestamp,
			BornHost: showHost(m.BornHost), StoreHost: showHost(m.StoreHost), ReconsumeTimes: m.ReconsumeTimes,
			Prepared: int64(m.PreparedTransactionOffset), BodySHA256: bodySum(m.Body), Properties: propertyMap(m.Properties),
		},
	}, nil
}

func bodySum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// propertyMap is nil for no properties.
func propertyMap(p message.Properties) map[string]string {
	var m map[string]string
	for name, value := range p.All() {
		if m == nil {
			m = make(map[string]string)
		}
		m[name] = value
	}
	return m
}
