package bench

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// slowBroker takes two seconds longer for each message than the broker behind it.
type slowBroker struct {
	protocol.Broker

	sends *atomic.Int64
}

func (s slowBroker) SendMessage(ctx context.Context, req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
	s.sends.Add(1)
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return protocol.SendMessageResponse{Code: protocol.SystemError}, &protocol.Error{Code: protocol.SystemError, Err: ctx.Err()}
	}
	return s.Broker.SendMessage(ctx, req)
}

// BenchmarkSendOneSlow has eight senders and two brokers, one of them slow, after
// it was met. "of-alone" is the throughput as a part of that of the healthy broker
// alone, with the same load in the same run, the median of 25 parts; "slow-sends" is how many messages
// were sent to the slow one meanwhile.
func BenchmarkSendOneSlow(b *testing.B) {
	b.Run("flush=async/size=1024/senders=8", benchmarkSendOneSlow)
}

func benchmarkSendOneSlow(b *testing.B) {
	const senders, size, rounds = 8, 1024, 25
	ctx := context.Background()
	var names broker.NameService
	var slowSends atomic.Int64
	for name, topics := range map[string][]string{"well": {"alone", "both"}, "slow": {"both"}} {
		s, err := store.Open(ctx, b.TempDir(), store.Config{Flush: store.FlushAsync})
		check(b, err)
		defer func() { check(b, s.Close()) }()
		br, err := broker.New(ctx, broker.Config{Name: name, Store: s, NameService: &names})
		check(b, err)
		defer func() { check(b, br.Close()) }()
		for _, topic := range topics {
			check(b, br.CreateTopic(ctx, protocol.TopicConfig{Name: topic, ReadQueueNums: 4, WriteQueueNums: 4}))
		}
	}
	p, err := mq.NewProducer(mq.ProducerConfig{
		Group: "bench", NameService: &names,
		Connect: func(ctx context.Context, data protocol.BrokerData) (protocol.Broker, error) {
			br, err := names.Connect(ctx, data)
			if err == nil && data.Name == "slow" {
				return slowBroker{br, &slowSends}, nil
			}
			return br, err
		},
	})
	check(b, err)
	defer func() { check(b, p.Close()) }()
	sendTo := func(topic string) func(int) error {
		m := newMessage(size, 0).Message
		m.Topic = topic
		return func(int) error { _, err := p.Send(ctx, &m); return err }
	}

	for slowSends.Load() == 0 {
		check(b, sendTo("both")(0))
	}
	// In turn, because what the machine gives changes while it runs.
	var ratios []float64
	var both time.Duration
	sends := [2]func(int) error{sendTo("alone"), sendTo("both")}
	met := slowSends.Load()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range rounds {
		var took [2]time.Duration
		for j := range 2 {
			which := (i + j) % 2 // neither is always the second
			n := b.N*(i+1)/rounds - b.N*i/rounds
			took[which] = timed(func() { eachOf(b, n, senders, sends[which]) })
		}
		ratios = append(ratios, float64(took[0])/float64(took[1]))
		both += took[1]
	}
	b.StopTimer()
	slices.Sort(ratios)
	b.ReportMetric(ratios[rounds/2], "of-alone")
	b.ReportMetric(float64(both)/float64(b.N), "ns/op") // of the loads with both, and not of all
	b.ReportMetric(float64(slowSends.Load()-met), "slow-sends")
}
