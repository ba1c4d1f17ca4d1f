package mq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func TestTypeOf(t *testing.T) {
	for _, test := range []struct {
		properties []string
		want       MessageType
	}{
		{nil, MessageNormal},
		{[]string{"TAGS", "red"}, MessageNormal},
		{[]string{"TRAN_MSG", "true"}, MessageHalf},
		{[]string{"TRAN_MSG", "false"}, MessageNormal},
		{[]string{"DELAY", "3"}, MessageDelay},
		{[]string{"__STARTDELIVERTIME", "1700000000000"}, MessageDelay},
		{[]string{"TRAN_MSG", "true", "DELAY", "3"}, MessageDelay},
	} {
		require.Equal(t, test.want, typeOf(text(t, "t", "x", test.properties...).Properties), "%v", test.properties)
	}
	for n, typ := range []MessageType{MessageNormal, MessageHalf, MessageCommit, MessageDelay} {
		require.EqualValues(t, n, typ, "the number in traces")
	}
	for mode, want := range map[SendMode]string{ModeSync: "SYNC", ModeAsync: "ASYNC", ModeOneway: "ONEWAY", 7: "SendMode(7)"} {
		require.Equal(t, want, mode.String())
	}
}

// TestHooks has what two hooks see of each way to send.
func TestHooks(t *testing.T) {
	var seen []string
	var last SendContext
	note := func(text string) func(context.Context, SendContext) {
		return func(_ context.Context, c SendContext) {
			seen = append(seen, text)
			last = c
		}
	}
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p, err := NewProducer(ProducerConfig{
		Group: "senders", NameService: h.names, Connect: h.names.Connect, CompressOver: 1,
		Hooks: []SendMessageHook{{note("before 1"), note("after 1")}, {Before: note("before 2")}, {After: note("after 3")}},
	})
	require.NoError(t, err)
	defer p.Close()
	m := text(t, "orders", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "DELAY", "0")
	check := func(mode SendMode, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, []string{"before 1", "before 2", "after 1", "after 3"}, seen)
		require.Equal(t, mode, last.Mode)
		require.Equal(t, "senders", last.Group)
		require.Equal(t, m.Body, last.Message.Body, "not compressed")
		require.Equal(t, MessageDelay, last.Type)
		require.Equal(t, queue("orders", 0), last.Queue)
		require.Equal(t, 1, last.Attempt)
		require.Equal(t, SendOK, last.Result.Status)
		require.NoError(t, last.Err)
		seen = nil
	}
	r, err := p.Send(t.Context(), m)
	check(ModeSync, err)
	require.Equal(t, r, last.Result)
	require.Equal(t, r.MsgID, last.Message.UniqueKey())
	require.Nil(t, last.Batch)
	_, err = p.SendToQueue(t.Context(), m, queue("orders", 0))
	check(ModeSync, err)
	_, err = p.SendFuture(t.Context(), m).Wait(t.Context())
	check(ModeAsync, err)
	err = p.SendOneway(t.Context(), m)
	check(ModeOneway, err)
	results, err := p.SendBatch(t.Context(), []*message.Message{m, text(t, "orders", "second")})
	check(ModeSync, err)
	require.Len(t, last.Batch, 2)
	require.Equal(t, results[0], last.Result)
}

// TestHooksOfRetries calls them for each attempt, with the error of each.
func TestHooksOfRetries(t *testing.T) {
	var attempts []string
	p, a, _ := flakyProducer(t, ProducerConfig{Hooks: []SendMessageHook{{After: func(_ context.Context, c SendContext) {
		attempts = append(attempts, fmt.Sprintf("%d %s %v %v", c.Attempt, c.Queue.BrokerName, c.Result.Status, protocol.CodeOf(c.Err)))
	}}}})
	a.set(failing(protocol.SystemError), nil)
	retried := 0
	for range 4 {
		attempts = nil
		r, err := p.Send(t.Context(), text(t, "t", "x"))
		require.NoError(t, err)
		if r.Attempts == 2 {
			retried++
			require.Equal(t, []string{"1 a NOT_STORED SYSTEM_ERROR", "2 b SEND_OK SUCCESS"}, attempts)
		}
	}
	require.Equal(t, 1, retried)
}

func TestHookPanics(t *testing.T) {
	var log bytes.Buffer
	ouch := func(context.Context, SendContext) { panic("ouch") }
	p, _, _ := flakyProducer(t, ProducerConfig{
		Hooks: []SendMessageHook{{ouch, ouch}}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	_, err := p.Send(t.Context(), text(t, "t", "x"))
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(log.Bytes(), []byte("panic=ouch")))
}

// TestCheckForbidden has refusals that are final: no other broker is asked, and
// none is kept away from.
func TestCheckForbidden(t *testing.T) {
	errOwn := errors.New("no orders on sundays")
	for name, forbidden := range map[string]func(context.Context, SendContext) error{
		"error": func(context.Context, SendContext) error { return errOwn },
		"panic": func(context.Context, SendContext) error { panic(errOwn) },
	} {
		t.Run(name, func(t *testing.T) {
			called := false
			p, a, b := flakyProducer(t, ProducerConfig{
				CheckForbidden: []func(context.Context, SendContext) error{
					func(_ context.Context, c SendContext) error {
						if c.Message.Topic != "t" || c.Queue.Topic != "t" || c.Group != "g" {
							return errors.New("not told what to check")
						}
						return nil
					},
					forbidden,
				},
				Hooks: []SendMessageHook{{Before: func(context.Context, SendContext) { called = true }}},
			})
			for name, err := range map[string]error{
				"send":   func() error { _, err := p.Send(t.Context(), text(t, "t", "x")); return err }(),
				"oneway": p.SendOneway(t.Context(), text(t, "t", "x")),
				"batch": func() error {
					_, err := p.SendBatch(t.Context(), []*message.Message{text(t, "t", "x"), text(t, "t", "y")})
					return err
				}(),
			} {
				require.ErrorIs(t, err, ErrForbidden, name)
				require.ErrorIs(t, err, errOwn, name)
				require.Equal(t, protocol.NoCode, CodeOf(err), name)
				var sendErr *SendError
				require.ErrorAs(t, err, &sendErr)
				require.Zero(t, sendErr.Attempts)
			}
			require.Zero(t, a.sends.Load()+b.sends.Load())
			require.False(t, called)
			require.False(t, p.faults.probing)
		})
	}
}
