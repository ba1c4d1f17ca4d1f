package protocol

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]error{
		"":                       message.ErrIllegal,
		"   ":                    message.ErrIllegal,
		"a.b":                    message.ErrIllegal,
		"a@b":                    message.ErrIllegal,
		"..":                     message.ErrIllegal,
		"ä":                      message.ErrIllegal,
		"a\x00":                  message.ErrIllegal,
		strings.Repeat("t", 128): message.ErrLimit,
		strings.Repeat("t", 127): nil,
		"%RETRY%a-b_c|9Z":        nil,
	} {
		require.ErrorIs(t, CheckTopic(name), want, "%q", name)
	}
	require.NoError(t, CheckGroup(strings.Repeat("g", 255)))
	require.ErrorIs(t, CheckGroup(strings.Repeat("g", 256)), message.ErrLimit)
}

func TestSystemTopics(t *testing.T) {
	for topic, test := range map[string]struct{ system, forbidden bool }{
		"TBW102":                      {true, false},
		"SCHEDULE_TOPIC_XXXX":         {true, true},
		"RMQ_SYS_TRANS_HALF_TOPIC":    {true, true},
		"RMQ_SYS_TRANS_OP_HALF_TOPIC": {true, true},
		"TRANS_CHECK_MAX_TIME_TOPIC":  {true, true},
		"SELF_TEST_TOPIC":             {true, true},
		"OFFSET_MOVED_EVENT":          {true, true},
		"BenchmarkTest":               {true, false},
		"RMQ_SYS_TRACE_TOPIC":         {true, false},
		"rmq_sys_wheel_timer":         {true, true},
		"%RETRY%group":                {false, false},
		"orders":                      {false, false},
	} {
		require.Equal(t, test.system, IsSystemTopic(topic), topic)
		require.Equal(t, test.forbidden, CheckSendTopic(topic) != nil, topic)
	}
}

func TestError(t *testing.T) {
	err := fmt.Errorf("outer: %w", &Error{Code: ServiceNotAvailable, Remark: "broker a", Err: message.ErrFlush})
	require.ErrorIs(t, err, ServiceNotAvailable)
	require.NotErrorIs(t, err, SystemError)
	require.ErrorIs(t, err, message.ErrFlush)
	require.EqualError(t, err, "outer: SERVICE_NOT_AVAILABLE: broker a: sync to disk failed")
	require.Equal(t, ServiceNotAvailable, CodeOf(err))
	require.Equal(t, Success, CodeOf(nil))
	require.Equal(t, SystemError, CodeOf(errors.New("other")))
	require.Equal(t, TopicNotExist, CodeOf(fmt.Errorf("x: %w", TopicNotExist)))
	require.Equal(t, "response code 99", ResponseCode(99).String())
}

func TestTexts(t *testing.T) {
	for p, want := range map[Perm]string{0: "---", PermRead: "R--", PermReadWrite: "RW-", 7: "RWX", PermInherit: "--X"} {
		require.Equal(t, want, p.String())
	}
	require.Equal(t, "SINGLE_TAG", SingleTag.String())
	require.Equal(t, "MULTI_TAG", MultiTag.String())
	require.Equal(t, "orders@a:3", MessageQueue{"orders", "a", 3}.String())
}

func TestQueueOrder(t *testing.T) {
	want := []MessageQueue{{"a", "a", 9}, {"a", "b", 2}, {"a", "b", 10}, {"b", "a", 0}}
	got := []MessageQueue{want[3], want[2], want[0], want[1]}
	slices.SortFunc(got, MessageQueue.Compare)
	require.Equal(t, want, got)
}

// TestRouteQueues has a broker each that is whole, read-only, write-only and
// without a master.
func TestRouteQueues(t *testing.T) {
	data := func(name string, perm Perm) QueueData {
		return QueueData{BrokerName: name, ReadQueueNums: 2, WriteQueueNums: 1, Perm: perm}
	}
	r := TopicRoute{
		Queues: []QueueData{data("d", PermReadWrite), data("c", PermWrite), data("b", PermRead), data("a", PermReadWrite)},
		Brokers: []BrokerData{
			{Name: "a", Addrs: map[int64]string{MasterID: "x"}},
			{Name: "b", Addrs: map[int64]string{MasterID: "x"}},
			{Name: "c", Addrs: map[int64]string{MasterID: "x"}},
			{Name: "d", Addrs: map[int64]string{1: "x"}},
		},
	}
	require.Equal(t, []MessageQueue{{"t", "a", 0}, {"t", "c", 0}}, r.WriteQueues("t"))
	require.Equal(t, []MessageQueue{{"t", "a", 0}, {"t", "a", 1}, {"t", "b", 0}, {"t", "b", 1}, {"t", "d", 0}, {"t", "d", 1}}, r.ReadQueues("t"))
}

func TestOverloaded(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("[OVERLOAD]"), false},
		{&Error{Code: SystemBusy}, true},
		{fmt.Errorf("outer: %w", &Error{Code: FlowControl}), true},
		{&Error{Code: SystemError, Remark: "[REJECTREQUEST]x"}, true},
		{&Error{Code: SystemError, Remark: "[OVERLOAD]x"}, true},
		{&Error{Code: SystemError, Remark: "[TIMEOUT_CLEAN_QUEUE]x"}, true},
		{&Error{Code: SystemError, Remark: "[PCBUSY_CLEAN_QUEUE]x"}, true},
		{&Error{Code: SystemError, Remark: "[PC_SYNCHRONIZED]x"}, true},
		{&Error{Code: SystemError, Remark: "x[OVERLOAD]"}, false},
		{&Error{Code: NoPermission, Remark: "[OVERLOAD]"}, false},
	} {
		require.Equal(t, test.want, Overloaded(test.err), "%v", test.err)
	}
}
