package broker

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

func TestTopicsFileText(t *testing.T) {
	b := openBroker(t, Config{Now: fixed(1650000000000)})
	for range 5 {
		createTopic(t, b, "orders", 8)
	}
	text, err := os.ReadFile(configFile(b.store, topicsFile))
	require.NoError(t, err)
	require.Equal(t, topicsText, string(text))
}

// TestTopicsOfOthersAreKept opens a directory of a later RocketMQ and changes a
// topic: what this version does not know stays.
func TestTopicsOfOthersAreKept(t *testing.T) {
	s := openStore(t, t.TempDir())
	require.NoError(t, s.WriteConfig(topicsFile, []byte(`{"dataVersion":{"counter":7,"stateVersion":2,"timestamp":1},
		"topicConfigTable":{"orders":{"attributes":{"x":"y"},"order":true,"topicFilterType":"MULTI_TAG"},
		"TBW102":{"perm":7,"readQueueNums":8,"writeQueueNums":8}}}`)))
	b := openBroker(t, Config{Store: s, Now: fixed(42)})
	topic, err := b.GetTopic(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, protocol.TopicConfig{
		Name: "orders", ReadQueueNums: 16, WriteQueueNums: 16, Perm: protocol.PermReadWrite,
		FilterType: protocol.MultiTag, Order: true,
	}, topic)

	createTopic(t, b, "orders", 2)
	doc, err := s.ReadConfig(topicsFile, func([]byte) error { return nil })
	require.NoError(t, err)
	require.Equal(t, `{
	"dataVersion":{
		"counter":8,
		"stateVersion":2,
		"timestamp":42
	},
	"topicConfigTable":{
		"TBW102":{
			"perm":7,
			"readQueueNums":8,
			"writeQueueNums":8
		},
		"orders":{
			"attributes":{
				"x":"y"
			},
			"order":true,
			"perm":6,
			"readQueueNums":2,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"orders",
			"topicSysFlag":0,
			"writeQueueNums":2
		}
	}
}`, string(doc))
}

func TestCreateTopicRefuses(t *testing.T) {
	b := openBroker(t, Config{Name: "broker-a"})
	for _, test := range []struct {
		name        string
		read, write int32
		cause       error
		text        string
	}{
		{"", 1, 1, message.ErrIllegal, "blank"},
		{"   ", 1, 1, message.ErrIllegal, "blank"},
		{"a/b", 1, 1, message.ErrIllegal, "character"},
		{"ü", 1, 1, message.ErrIllegal, "character"},
		{strings.Repeat("x", 128), 1, 1, message.ErrLimit, "128 bytes, limit is 127"},
		{"t", 0, 1, message.ErrLimit, "readQueueNums: 0"},
		{"t", 1, -1, message.ErrLimit, "writeQueueNums: -1"},
		{"t", MaxQueueNums + 1, 1, message.ErrLimit, "limit is 65536"},
		{"TBW102", 1, 1, protocol.SystemError, "system topic"},
		{"rmq_sys_x", 1, 1, protocol.SystemError, "system topic"},
		{"SCHEDULE_TOPIC_XXXX", 1, 1, protocol.SystemError, "system topic"},
		{"broker-a", 1, 1, protocol.SystemError, "system topic"},
		{"DefaultCluster", 1, 1, protocol.SystemError, "system topic"},
		{"DefaultCluster_REPLY_TOPIC", 1, 1, protocol.SystemError, "system topic"},
	} {
		err := b.CreateTopic(t.Context(), protocol.TopicConfig{Name: test.name, ReadQueueNums: test.read, WriteQueueNums: test.write})
		require.ErrorIs(t, err, protocol.SystemError, test.name)
		require.ErrorIs(t, err, test.cause, test.name)
		require.ErrorContains(t, err, test.text)
	}
	createTopic(t, b, strings.Repeat("x", 127), 1)
	topics, err := b.ListTopics(t.Context())
	require.NoError(t, err)
	require.Len(t, topics, 1)
}

func TestTopicByFirstMessage(t *testing.T) {
	for _, test := range []struct {
		name     string
		cfg      Config
		topic    string
		template string
		wanted   int32
		queues   int32 // 0: refused
	}{
		{"defaults", Config{}, "t", "", 0, 4},
		{"client wants fewer", Config{}, "t", "TBW102", 2, 2},
		{"client wants more", Config{}, "t", "TBW102", 9, 4},
		{"configured", Config{TopicQueueNums: 6}, "t", "TBW102", 9, 6},
		{"off", Config{NoAutoCreateTopic: true}, "t", "TBW102", 4, 0},
		{"off, retry topic", Config{NoAutoCreateTopic: true}, "%RETRY%g", "TBW102", 4, 1},
		{"other template", Config{NoAutoCreateTopic: true}, "t", "mother", 4, 3},
		{"template without inheritance", Config{}, "t", "plain", 4, 0},
		{"no template", Config{}, "t", "nowhere", 4, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := openBroker(t, test.cfg)
			require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: "mother", ReadQueueNums: 3, WriteQueueNums: 3, Perm: 7}))
			createTopic(t, b, "plain", 3)
			resp, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
				Message:      message.Message{Topic: test.topic, Body: []byte("x")},
				DefaultTopic: test.template, DefaultTopicQueueNums: test.wanted,
			})
			if test.queues == 0 {
				require.ErrorIs(t, err, protocol.TopicNotExist)
				require.Equal(t, protocol.TopicNotExist, resp.Code)
				require.Empty(t, b.store.Queues())
				return
			}
			require.NoError(t, err)
			want := protocol.TopicConfig{Name: test.topic, ReadQueueNums: test.queues, WriteQueueNums: test.queues, Perm: protocol.PermReadWrite}
			got, err := b.GetTopic(t.Context(), test.topic)
			require.NoError(t, err)
			require.Equal(t, want, got)

			text, err := b.store.ReadConfig(topicsFile, func([]byte) error { return nil })
			require.NoError(t, err)
			_, onDisk, err := parseTopics(text)
			require.NoError(t, err)
			require.Equal(t, want, onDisk[test.topic])
		})
	}
}

// TestTopicNotOnDiskNoMessage takes the directory for the file away: the topic
// is not made, and so the message is not stored.
func TestTopicNotOnDiskNoMessage(t *testing.T) {
	b := openBroker(t, Config{})
	breakConfig(t, b.store)
	_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: "t", Body: []byte("x")}})
	require.ErrorIs(t, err, protocol.SystemError)
	_, err = b.GetTopic(t.Context(), "t")
	require.ErrorIs(t, err, protocol.TopicNotExist)
	require.Empty(t, b.store.Queues())
}

// breakConfig puts a file where the configuration's directory should be.
func breakConfig(t *testing.T, s *store.DefaultMessageStore) (repair func()) {
	t.Helper()
	dir := configFile(s, "")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(strings.TrimSuffix(dir, "/"), nil, 0o600))
	return func() { require.NoError(t, os.Remove(strings.TrimSuffix(dir, "/"))) }
}

func TestAdopt(t *testing.T) {
	type queueID struct {
		topic string
		id    int32
	}
	queue := func(topic string, id int32) queueID { return queueID{topic, id} }
	known := protocol.TopicConfig{Name: "known", ReadQueueNums: 2, WriteQueueNums: 2, Perm: protocol.PermRead, Order: true}
	wider := known
	wider.ReadQueueNums = 6
	for _, test := range []struct {
		name   string
		queues []queueID
		want   []protocol.TopicConfig
	}{
		{"nothing", nil, nil},
		{"known", []queueID{queue("known", 0), queue("known", 1)}, nil},
		{"more queues than known", []queueID{queue("known", 0), queue("known", 5)}, []protocol.TopicConfig{wider}},
		{"unknown", []queueID{queue("b", 0), queue("b", 2), queue("a", 0)}, []protocol.TopicConfig{
			{Name: "a", ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermReadWrite},
			{Name: "b", ReadQueueNums: 3, WriteQueueNums: 3, Perm: protocol.PermReadWrite},
		}},
		{"the broker's own", []queueID{queue("SCHEDULE_TOPIC_XXXX", 3), queue("rmq_sys_x", 0)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, adopt(map[string]protocol.TopicConfig{"known": known}, func(yield func(string, int32) bool) {
				for _, q := range test.queues {
					if !yield(q.topic, q.id) {
						return
					}
				}
			}))
		})
	}
}

// TestTornFiles opens each combination of damage to a file and its backup. The
// newest valid text wins; two bad ones are an error, and never an empty table.
func TestTornFiles(t *testing.T) {
	type content struct{ name, text string }
	files := []struct {
		file    string
		old     string
		newer   string
		isNewer func(t *testing.T, b *Broker) bool
	}{
		{
			topicsFile, topicsText, strings.ReplaceAll(topicsText, ":8", ":9"),
			func(t *testing.T, b *Broker) bool {
				cfg, err := b.GetTopic(t.Context(), "orders")
				require.NoError(t, err)
				return cfg.ReadQueueNums == 9
			},
		},
		{
			offsetsFile, offsetsText, strings.ReplaceAll(offsetsText, ":120", ":1200"),
			func(t *testing.T, b *Broker) bool {
				off, ok := b.offsets.get("orders", "billing", 0)
				require.True(t, ok)
				return off == 1200
			},
		},
	}
	for _, f := range files {
		variants := func(good string) []content {
			return []content{{"good", good}, {"missing", "-"}, {"empty", ""}, {"half", good[:len(good)/2]}, {"mixed", good + good[len(good)/2:]}}
		}
		for _, main := range variants(f.newer) {
			for _, backup := range variants(f.old) {
				t.Run(f.file+" "+main.name+" "+backup.name, func(t *testing.T) {
					s := openStore(t, t.TempDir())
					require.NoError(t, os.MkdirAll(configFile(s, ""), 0o700))
					write(t, configFile(s, f.file), main.text)
					write(t, configFile(s, f.file+".bak"), backup.text)
					b, err := New(t.Context(), Config{Store: s})
					if main.name != "good" && backup.name != "good" && !(main.name == "missing" && backup.name == "missing") {
						require.ErrorIs(t, err, message.ErrCorrupt)
						require.ErrorContains(t, err, f.file)
						return
					}
					require.NoError(t, err)
					defer b.Close()
					if main.name == "good" || backup.name == "good" {
						require.Equal(t, main.name == "good", f.isNewer(t, b))
					}
				})
			}
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if text != "-" {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
}

// TestTopicAfterTemplate has what a topic gets of the topic that it is made after,
// and of who sends to it.
func TestTopicAfterTemplate(t *testing.T) {
	for _, test := range []struct {
		name     string
		template protocol.TopicConfig
		topic    string
		unit     bool
		want     protocol.TopicConfig // zero: refused
	}{
		{
			"filter type and permissions",
			protocol.TopicConfig{Name: "mother", ReadQueueNums: 2, WriteQueueNums: 3, Perm: 7, FilterType: protocol.MultiTag, Order: true, SysFlag: 3},
			"t", false,
			protocol.TopicConfig{Name: "t", ReadQueueNums: 3, WriteQueueNums: 3, Perm: 6, FilterType: protocol.MultiTag},
		},
		{
			"unit", protocol.TopicConfig{Name: "mother", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 7}, "t", true,
			protocol.TopicConfig{Name: "t", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, SysFlag: protocol.TopicUnit},
		},
		{
			"retry topic of a unit", protocol.TopicConfig{Name: "mother", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6}, "%RETRY%g", true,
			protocol.TopicConfig{Name: "%RETRY%g", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, SysFlag: protocol.TopicUnitSub},
		},
		{
			"the inherit bit is missing", protocol.TopicConfig{Name: "mother", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6}, "t", true,
			protocol.TopicConfig{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := openBroker(t, Config{NoAutoCreateTopic: true})
			require.NoError(t, b.CreateTopic(t.Context(), test.template))
			_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
				Message:      message.Message{Topic: test.topic, Body: []byte("x")},
				DefaultTopic: "mother", DefaultTopicQueueNums: 8, UnitMode: test.unit,
			})
			if test.want.Name == "" {
				require.ErrorIs(t, err, protocol.TopicNotExist)
				return
			}
			require.NoError(t, err)
			got, err := b.GetTopic(t.Context(), test.topic)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// TestTemplateOfOthers has TBW102 in a file that RocketMQ wrote: whether topics are
// made after it is for the configuration to say.
func TestTemplateOfOthers(t *testing.T) {
	for _, off := range []bool{false, true} {
		s := openStore(t, t.TempDir())
		require.NoError(t, s.WriteConfig(topicsFile, []byte(`{"topicConfigTable":{"TBW102":{"perm":7,"readQueueNums":8,"writeQueueNums":8}}}`)))
		b := openBroker(t, Config{Store: s, NoAutoCreateTopic: off})
		_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: "t", Body: []byte("x")}})
		require.Equal(t, off, err != nil)
		if off {
			require.ErrorIs(t, err, protocol.TopicNotExist)
		}
	}
}

// TestQueueOfTheBrokersChoice sends to queue -1 of topics with and without queues.
func TestQueueOfTheBrokersChoice(t *testing.T) {
	s := openStore(t, t.TempDir())
	require.NoError(t, s.WriteConfig(topicsFile, []byte(`{"topicConfigTable":{"none":{"writeQueueNums":0},"two":{"readQueueNums":9,"writeQueueNums":2}}}`)))
	b := openBroker(t, Config{Store: s})
	used := map[int32]bool{}
	for range 100 {
		resp := send(t, b, "two", -1, "x")
		stored, err := s.LookMessageByOffset(t.Context(), resp.MessageID.Offset)
		require.NoError(t, err)
		require.Equal(t, stored.QueueID, resp.QueueID)
		used[resp.QueueID] = true
	}
	require.Equal(t, map[int32]bool{0: true, 1: true}, used)
	_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: "none", Body: []byte("x")}, QueueID: -1})
	require.ErrorIs(t, err, protocol.SystemError)
	require.ErrorContains(t, err, "queue id (negative): -1")
}
