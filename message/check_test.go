package message

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckTopicAcceptsWhatFits(t *testing.T) {
	for _, topic := range []string{
		"t",
		strings.Repeat("t", 127),
		strings.Repeat("\u8ba2", 42) + "t", // 127 bytes
		"%RETRY%" + strings.Repeat("g", 120),
		"...", ".a", "a.", "a..b", "a b", "a-b_c|d%e", "\u8ba2\u5355", "\U0001F600",
	} {
		require.NoError(t, CheckTopic(topic), topic)
	}
}

func TestCheckTopicRefusesMoreThan127Bytes(t *testing.T) {
	for topic, n := range map[string]int64{
		strings.Repeat("t", 128):              128,
		strings.Repeat("t", 255):              255,
		strings.Repeat("t", 256):              256,
		strings.Repeat("\u8ba2", 43):          129, // of only 43 characters
		strings.Repeat("\u8ba2", 64):          192, // −64 as a signed byte
		"%RETRY%" + strings.Repeat("g", 121):  128,
		"%DLQ%" + strings.Repeat("g", 123):    128,
		strings.Repeat("\xff", 128):           128,
		strings.Repeat("../", 50):             150,
		strings.Repeat("\U0001F600", 100_000): 400_000,
	} {
		err := CheckTopic(topic)
		require.Equal(t, &LimitError{Field: "topic", Limit: 127, Value: n}, err)
		require.ErrorIs(t, err, ErrLimit)
	}
}

func TestCheckTopicRefusesWhatIsNoSafeName(t *testing.T) {
	for topic, reason := range map[string]string{
		"":                   "is empty",
		".":                  "is not a name for a directory",
		"..":                 "is not a name for a directory",
		"a/b":                "has a path separator or a NUL",
		"/":                  "has a path separator or a NUL",
		"../../etc":          "has a path separator or a NUL",
		`a\b`:                "has a path separator or a NUL",
		"a\x00b":             "has a path separator or a NUL",
		"\x00":               "has a path separator or a NUL",
		"\xff":               "is not UTF-8",
		"a\xc3":              "is not UTF-8",
		"\xed\xa0\x80":       "is not UTF-8",
		"\xc0\xaf":           "is not UTF-8", // an overlong slash
		"\xf4\x90\x80\x80":   "is not UTF-8",
		"\u8ba2"[:2] + "abc": "is not UTF-8",
	} {
		err := CheckTopic(topic)
		require.Equal(t, &IllegalError{Field: "topic", Value: topic, Reason: reason}, err, "%q", topic)
		require.ErrorIs(t, err, ErrIllegal)
	}
}

func TestCheckLimitsEachField(t *testing.T) {
	const maxBody = 1000
	ok := MessageExt{Message: Message{Topic: "t", Body: make([]byte, maxBody), Properties: Properties(make([]byte, 32767))}}
	ok.QueueID = math.MaxInt32
	require.NoError(t, ok.Check(maxBody))
	require.Equal(t, maxBody+MaxRecordOverhead-126-24, ok.RecordSize())

	for _, c := range []struct {
		name   string
		change func(*MessageExt)
		want   error
	}{
		{"topic of 128 bytes", func(m *MessageExt) { m.Topic = strings.Repeat("t", 128) },
			&LimitError{Field: "topic", Limit: 127, Value: 128}},
		{"no topic", func(m *MessageExt) { m.Topic = "" },
			&IllegalError{Field: "topic", Reason: "is empty"}},
		{"body of one byte more", func(m *MessageExt) { m.Body = make([]byte, maxBody+1) },
			&LimitError{Field: "body", Limit: maxBody, Value: maxBody + 1}},
		{"properties of 32,768 bytes", func(m *MessageExt) { m.Properties = Properties(make([]byte, 32768)) },
			&LimitError{Field: "properties", Limit: 32767, Value: 32768}},
		{"properties of 40,000 bytes", func(m *MessageExt) { m.Properties = Properties(make([]byte, 40000)) },
			&LimitError{Field: "properties", Limit: 32767, Value: 40000}},
		{"properties of 65,535 bytes", func(m *MessageExt) { m.Properties = Properties(make([]byte, 65535)) },
			&LimitError{Field: "properties", Limit: 32767, Value: 65535}},
		{"properties of 65,536 bytes", func(m *MessageExt) { m.Properties = Properties(make([]byte, 65536)) },
			&LimitError{Field: "properties", Limit: 32767, Value: 65536}},
		{"properties of 32,768 bytes in fewer characters",
			func(m *MessageExt) { m.Properties = Properties("k\x01" + strings.Repeat("\u8ba2", 10922)) },
			&LimitError{Field: "properties", Limit: 32767, Value: 32768}},
		{"queue id -1", func(m *MessageExt) { m.QueueID = -1 },
			&IllegalError{Field: "queue id", Value: "-1", Reason: "is negative"}},
		{"smallest queue id", func(m *MessageExt) { m.QueueID = math.MinInt32 },
			&IllegalError{Field: "queue id", Value: "-2147483648", Reason: "is negative"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := ok
			c.change(&m)
			require.Equal(t, c.want, m.Check(maxBody))
		})
	}
}

// The limit counts the body alone, so a message that was accepted can be put
// again with more properties.
func TestBodyLimitDoesNotCountProperties(t *testing.T) {
	m := MessageExt{Message: Message{Topic: "t", Body: make([]byte, 4<<20)}}
	require.NoError(t, m.Check(4<<20))
	m.Properties = mustProperties(t, "RETRY_TOPIC", strings.Repeat("t", 30<<10))
	require.NoError(t, m.Check(4<<20))
	require.Error(t, m.Check(4<<20-1))
}

func TestEmptyBodyIsAllowed(t *testing.T) {
	m := MessageExt{Message: Message{Topic: "t"}}
	require.NoError(t, m.Check(0))
}

func TestPropertiesAtTheLimitReadBack(t *testing.T) {
	m := MessageExt{Message: Message{Topic: strings.Repeat("t", 127), Properties: Properties("k\x01" + strings.Repeat("v", 32765))}}
	require.NoError(t, m.Check(0))
	got := readOK(t, recordOf(m)).Message()
	require.Equal(t, m.Properties, got.Properties)
	require.Equal(t, m.Topic, got.Topic)
}

func TestErrorsNameFieldLimitAndValue(t *testing.T) {
	limit := &LimitError{Field: "body", Limit: 4, Value: 5}
	require.EqualError(t, limit, "body: 5 bytes, limit is 4")
	require.EqualError(t, &LimitError{Field: "batch", Limit: 4, Value: 5, Unit: "messages"}, "batch: 5 messages, limit is 4")
	require.EqualError(t, &IllegalError{"topic", "a/b", "has a slash"}, `topic "a/b": has a slash`)
	require.ErrorIs(t, fmt.Errorf("put: %w", limit), ErrLimit)
	require.False(t, errors.Is(limit, ErrIllegal))
	require.False(t, errors.Is(&IllegalError{}, ErrLimit))
}

func TestCorruptionErrorNamesThePlaceAndTheCause(t *testing.T) {
	err := &CorruptionError{File: "x/00", Offset: 42, Err: fs.ErrInvalid}
	require.EqualError(t, err, "corrupt data in x/00 at offset 42: invalid argument")
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, err, fs.ErrInvalid)
	require.False(t, errors.Is(err, ErrLimit))
	require.EqualError(t, &CorruptionError{Offset: 42, Err: fs.ErrInvalid}, "corrupt data at offset 42: invalid argument")
}

func TestHostReadsAndNamesItself(t *testing.T) {
	for _, s := range []string{"192.0.2.1:10911", "0.0.0.0:0", "[2001:db8::1]:65535", "[::ffff:192.0.2.1]:1", "[::]:0"} {
		h, err := ParseHost(s)
		require.NoError(t, err)
		require.Equal(t, s, h.String())
		require.Equal(t, strings.HasPrefix(s, "["), h.IsV6(), s)

		var b [hostWidthV6]byte
		require.Equal(t, h.width(), h.put(b[:]))
		require.Equal(t, h, hostAt(b[:], h.width()))
	}
	require.Equal(t, "0.0.0.0:0", Host{}.String())
	require.Equal(t, "0.0.0.0:-1", Host{Port: -1}.String())

	h, err := ParseHost("[fe80::1%eth0]:1")
	require.NoError(t, err)
	require.Equal(t, "[fe80::1]:1", h.String(), "a record has no room for a zone")
}

func TestParseHostRefusesNamesAndGarbage(t *testing.T) {
	for _, s := range []string{"", "localhost:1", "192.0.2.1", "192.0.2.1:", "192.0.2.1:65536", "192.0.2.1:-1", "2001:db8::1:1", strings.Repeat("x", 1000)} {
		_, err := ParseHost(s)
		require.Error(t, err, s)
		require.Less(t, len(err.Error()), 3000)
	}
}

// A log may hold topics that RocketMQ let through; they still must be safe names.
func TestCheckStoredTopicAllowsWhatALengthByteHolds(t *testing.T) {
	for _, topic := range []string{"t", strings.Repeat("t", 128), strings.Repeat("\u8ba2", 85)} {
		require.NoError(t, CheckStoredTopic(topic))
	}
	require.Equal(t, &LimitError{Field: "topic", Limit: 255, Value: 256}, CheckStoredTopic(strings.Repeat("t", 256)))
	for _, topic := range []string{"", ".", "..", "a/b", `a\b`, "a\x00", "\xff"} {
		require.ErrorIs(t, CheckStoredTopic(topic), ErrIllegal, "%q", topic)
	}
}
