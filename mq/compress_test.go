package mq

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestCompress has the body in the log and the one that a consumer gets.
func TestCompress(t *testing.T) {
	noise := make([]byte, 5000)
	random := rand.NewChaCha8([32]byte{})
	_, err := random.Read(noise)
	require.NoError(t, err)
	for _, test := range []struct {
		name  string
		cfg   ProducerConfig
		body  string
		small bool // in the log
	}{
		{"off", ProducerConfig{}, strings.Repeat("squeeze ", 1000), false},
		{"under", ProducerConfig{CompressOver: 4096}, strings.Repeat("x", 4095), false},
		{"just", ProducerConfig{CompressOver: 4096}, strings.Repeat("x", 4096), true},
		{"fast", ProducerConfig{CompressOver: 4096, CompressLevel: 1}, strings.Repeat("squeeze ", 1000), true},
		{"small", ProducerConfig{CompressOver: 1, CompressLevel: 9}, "x", false},
		{"noise", ProducerConfig{CompressOver: 4096}, string(noise), false},
		{"as large as can be", ProducerConfig{CompressOver: 4096}, strings.Repeat("x", 64<<10), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := openHouse(t)
			h.createTopic(t, "orders", 1)
			test.cfg.Group, test.cfg.NameService, test.cfg.Connect = "senders", h.names, h.names.Connect
			p, err := NewProducer(test.cfg)
			require.NoError(t, err)
			defer p.Close()
			m := text(t, "orders", test.body)
			for range 3 { // what is used again is used again
				r, err := p.Send(t.Context(), m)
				require.NoError(t, err)
				stored, err := h.store.LookMessageByOffset(t.Context(), r.OffsetMsgID.Offset)
				require.NoError(t, err)
				require.Equal(t, test.small, stored.SysFlag&message.FlagCompressed != 0)
				require.Equal(t, test.small, len(stored.Body) < len(test.body))
				if !test.small {
					require.Equal(t, test.body, string(stored.Body))
				}
			}
			require.Equal(t, test.body, string(m.Body), "the caller's body is as it was")
			c := h.consumer(t, ConsumerConfig{Topic: "orders"})
			for range 3 {
				got, err := c.Receive(soon(t))
				require.NoError(t, err)
				require.Equal(t, test.body, string(got.Body))
			}
		})
	}
}

// TestCompressConcurrently shares the buffers.
func TestCompressConcurrently(t *testing.T) {
	c := compressor{over: 1, level: DefaultCompressLevel}
	var wg sync.WaitGroup
	for i := range 8 {
		body := bytes.Repeat([]byte{byte('a' + i)}, 3000+i)
		wg.Go(func() {
			for range 50 {
				d := c.compress(body)
				got, err := message.Inflate(message.FlagCompressed, d.out, len(body))
				if err != nil || !bytes.Equal(got, body) {
					t.Error(err, "the bytes of another")
				}
				c.release(d)
			}
		})
	}
	wg.Wait()
}

func TestCompressConfigRefuses(t *testing.T) {
	for _, level := range []int{-1, 10} {
		_, err := NewProducer(ProducerConfig{Group: "g", CompressOver: -1, CompressLevel: level})
		require.ErrorContains(t, err, "CompressOver (negative)")
		require.ErrorContains(t, err, "CompressLevel (from 1)")
	}
}
