package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
)

var (
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	ids   = regexp.MustCompile(`\b[0-9A-F]{32}\b`)
)

// golden is output with its times and ids replaced.
func golden(text string) string {
	return ids.ReplaceAllString(times.ReplaceAllString(text, "TIME-------------------T"), "ID-----------------------------D")
}

// shop is a store with two topics, and groups that are behind.
func shop(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	ok(t, "", "topics", "create", dir, "orders", "--queues", "2", "--max-depth", "100")
	ok(t, "", "topics", "create", dir, "bills", "--read-queues", "2", "--write-queues", "1", "--perm", "r", "--order")
	ok(t, "coffee\ntea\n", "send", dir, "--topic", "orders", "--queue", "1", "--key", "k1 k2", "--tag", "hot")
	ok(t, "juice\n", "send", dir, "--topic", "orders", "--queue", "1", "--key", "k1")
	ok(t, "", "tail", dir, "--topic", "orders", "--group", "kitchen", "--count", "2")
	ok(t, "", "tail", dir, "--topic", "orders", "--group", "bar")
	return dir
}

// cases are commands that read, and what they print.
var cases = []struct {
	args string
	want string
}{
	{"topics list DIR", "" +
		"TOPIC   READ QUEUES  WRITE QUEUES  PERM  MESSAGES  MAX DEPTH\n" +
		"bills   2            1             R--   0         -\n" +
		"orders  2            2             RW-   3         100\n"},
	{"topics list DIR --json", `[
  {
    "name": "bills",
    "readQueues": 2,
    "writeQueues": 1,
    "perm": "R--",
    "messages": 0
  },
  {
    "name": "orders",
    "readQueues": 2,
    "writeQueues": 2,
    "perm": "RW-",
    "messages": 3,
    "maxDepth": 100
  }
]
`},
	{"groups list DIR", "" +
		"GROUP    TOPICS  LAG\n" +
		"bar      1       0\n" +
		"kitchen  1       1\n"},
	{"groups list DIR --json", `[
  {
    "group": "bar",
    "topics": [
      "orders"
    ],
    "lag": 0
  },
  {
    "group": "kitchen",
    "topics": [
      "orders"
    ],
    "lag": 1
  }
]
`},
	{"stats DIR --topic orders", "" +
		"TOPIC   QUEUE  MIN  MAX  MESSAGES  LAST MESSAGE\n" +
		"orders  0      0    0    0         -\n" +
		"orders  1      0    3    3         TIME-------------------T\n" +
		"\n" +
		"GROUP    TOPIC   QUEUE  OFFSET  END  LAG  LAST CONSUMED\n" +
		"bar      orders  0      0       0    0    -\n" +
		"bar      orders  1      3       3    0    TIME-------------------T\n" +
		"kitchen  orders  0      0       0    0    -\n" +
		"kitchen  orders  1      2       3    1    TIME-------------------T\n"},
	{"stats DIR --topic bills", "" +
		"TOPIC  QUEUE  MIN  MAX  MESSAGES  LAST MESSAGE\n" +
		"bills  0      0    0    0         -\n" +
		"bills  1      0    0    0         -\n"},
	{"stats DIR --group kitchen", "" +
		"GROUP    TOPIC   QUEUE  OFFSET  END  LAG  LAST CONSUMED\n" +
		"kitchen  orders  0      0       0    0    -\n" +
		"kitchen  orders  1      2       3    1    TIME-------------------T\n"},
	{"stats DIR --group kitchen --topic orders --json", `{
  "queues": [
    {
      "topic": "orders",
      "queue": 0,
      "min": 0,
      "max": 0,
      "messages": 0
    },
    {
      "topic": "orders",
      "queue": 1,
      "min": 0,
      "max": 3,
      "messages": 3,
      "lastMessage": "TIME-------------------T"
    }
  ],
  "groups": [
    {
      "group": "kitchen",
      "topic": "orders",
      "queue": 0,
      "offset": 0,
      "end": 0,
      "lag": 0
    },
    {
      "group": "kitchen",
      "topic": "orders",
      "queue": 1,
      "offset": 2,
      "end": 3,
      "lag": 1,
      "lastConsumed": "TIME-------------------T"
    }
  ]
}
`},
	{"query DIR --topic orders --key k1", "" +
		"TOPIC   QUEUE  OFFSET  TIME                      TAG  KEYS     SIZE  ID\n" +
		"orders  1      0       TIME-------------------T  hot  \"k1 k2\"  7     ID-----------------------------D\n" +
		"orders  1      1       TIME-------------------T  hot  \"k1 k2\"  4     ID-----------------------------D\n" +
		"orders  1      2       TIME-------------------T  -    k1       6     ID-----------------------------D\n"},
	{"query DIR --topic orders --key k2 --max 1", "" +
		"TOPIC   QUEUE  OFFSET  TIME                      TAG  KEYS     SIZE  ID\n" +
		"orders  1      1       TIME-------------------T  hot  \"k1 k2\"  4     ID-----------------------------D\n"},
	{"query DIR --topic orders --key k1 --from 2001-01-01T00:00:00Z --to 4102444800000 --max 1 --body", "" +
		"1 2 TIME-------------------T tag= keys=k1 juice\n"},
	{"query DIR --topic orders --key k1 --max 1 --json --body", `[
  {
    "topic": "orders",
    "queue": 1,
    "offset": 2,
    "logOffset": 373,
    "id": "ID-----------------------------D",
    "uniqueKey": "ID-----------------------------D",
    "time": "TIME-------------------T",
    "keys": [
      "k1"
    ],
    "size": 6,
    "body": "juice\n"
  }
]
`},
}

// TestAdminOutput compares what commands print, of a store that is closed and of one
// that is in use.
func TestAdminOutput(t *testing.T) {
	dir := shop(t)
	check := func(t *testing.T) {
		t.Helper()
		for _, test := range cases {
			args := strings.Fields(strings.Replace(test.args, "DIR", dir, 1))
			require.Equal(t, test.want, golden(ok(t, "", args...)), test.args)
		}
	}
	t.Run("closed", check)
	require.Equal(t, ""+
		"MESSAGES  LOG BYTES  LOG FILES  LAST MESSAGE              STATE\n"+
		"3         548        1          TIME-------------------T  closed properly\n"+
		"\n"+
		"TOPIC   QUEUES  MESSAGES  MAX DEPTH\n"+
		"bills   2       0         -\n"+
		"orders  2       3         100\n"+
		"\n"+
		"GROUP    TOPIC   LAG\n"+
		"bar      orders  0\n"+
		"kitchen  orders  1\n", golden(ok(t, "", "stats", dir)))
	node, err := pocketmq.Open(t.Context(), dir)
	require.NoError(t, err)
	defer node.Close()
	t.Run("in use", check)
	require.Contains(t, ok(t, "", "stats", dir), "in use, or not closed properly")
}

// TestQueryByIDs finds messages by the ids that query itself tells.
func TestQueryByIDs(t *testing.T) {
	dir := shop(t)
	var lines []foundLine
	require.NoError(t, json.Unmarshal([]byte(ok(t, "", "query", dir, "--topic", "orders", "--key", "k1", "--json")), &lines))
	require.Len(t, lines, 3)
	find := func(t *testing.T) {
		t.Helper()
		for i, body := range []string{"coffee", "tea", "juice"} {
			require.Contains(t, ok(t, "", "query", dir, "--id", lines[i].ID, "--body"), " "+body+"\n")
			require.Contains(t, ok(t, "", "query", dir, "--topic", "orders", "--unique-key", lines[i].UniqueKey, "--body"), " "+body+"\n")
		}
		fails(t, "no message with key k3 in topic orders", "query", dir, "--topic", "orders", "--key", "k3")
		fails(t, "no message with key "+lines[0].UniqueKey, "query", dir, "--topic", "orders", "--key", lines[0].UniqueKey)
		fails(t, "topic unknown does not exist", "query", dir, "--topic", "unknown", "--key", "k1")
		fails(t, "no message with key k1", "query", dir, "--topic", "bills", "--key", "k1")
		fails(t, "no message with key k1", "query", dir, "--topic", "orders", "--key", "k1", "--to", "2001-01-01T00:00:00Z")
		within := lines[0].ID[:16] + fmt.Sprintf("%016X", 5)
		fails(t, "no message at this offset", "query", dir, "--id", within)
		fails(t, "10.0.0.1:43512", "query", dir, "--id", "0A0000010000A9F80000000000000000")
	}
	t.Run("closed", find)
	node, err := pocketmq.Open(t.Context(), dir)
	require.NoError(t, err)
	defer node.Close()
	t.Run("in use", find)
}

func TestQueryRefuses(t *testing.T) {
	dir := shop(t)
	fails(t, "at least one of the flags", "query", dir)
	fails(t, "--topic is needed", "query", dir, "--key", "k")
	fails(t, "key id", "query", dir, "--key", "k", "--id", "x")
	fails(t, "topic id", "query", dir, "--topic", "orders", "--id", "x")
	fails(t, "has 1 characters, not 32 or 56", "query", dir, "--id", "x")
	fails(t, "--max 0 is not positive", "query", dir, "--topic", "orders", "--key", "k", "--max", "0")
	fails(t, `--from "yesterday" is neither a time`, "query", dir, "--topic", "orders", "--key", "k", "--from", "yesterday")
	fails(t, "begin (after end): 5 ms, limit is 3", "query", dir, "--topic", "orders", "--key", "k", "--from", "5", "--to", "3")
	fails(t, "there is no store", "query", t.TempDir(), "--topic", "orders", "--key", "k")
}

// TestTopicsUpdateAndDelete changes only what is given, and removes a topic with all
// that is its own.
func TestTopicsUpdateAndDelete(t *testing.T) {
	dir := shop(t)
	ok(t, "", "topics", "update", dir, "orders", "--write-queues", "1")
	ok(t, "", "topics", "update", dir, "bills", "--perm", "rw", "--max-depth", "7")
	require.Equal(t, ""+
		"TOPIC   READ QUEUES  WRITE QUEUES  PERM  MESSAGES  MAX DEPTH\n"+
		"bills   2            1             RW-   0         7\n"+
		"orders  2            1             RW-   3         100\n", ok(t, "", "topics", dir))
	topics, err := os.ReadFile(filepath.Join(dir, "config", "topics.json"))
	require.NoError(t, err)
	require.Contains(t, string(topics), "\"bills\":{\n\t\t\t\"order\":true,")

	fails(t, "topic unknown does not exist", "topics", "update", dir, "unknown", "--queues", "2")
	fails(t, "a topic in order stays so", "topics", "update", dir, "bills", "--order=false")
	fails(t, "--perm \"x\" is neither", "topics", "update", dir, "orders", "--perm", "x")
	fails(t, "maxDepth (negative): -1 messages", "topics", "update", dir, "orders", "--max-depth", "-1")
	fails(t, "readQueueNums: 0 queues, at least 1 are needed", "topics", "create", dir, "x", "--queues", "0")
	fails(t, "conflicts with a system topic", "topics", "create", dir, "TBW102")
	fails(t, "requires at least 2 arg(s)", "topics", "delete", dir)
	fails(t, "topic unknown does not exist", "topics", "delete", dir, "unknown")

	ok(t, "", "topics", "delete", dir, "orders")
	require.NotContains(t, ok(t, "", "topics", dir), "orders")
	require.Equal(t, "GROUP  TOPICS  LAG\n", ok(t, "", "groups", "list", dir))
	fails(t, "topic orders does not exist", "stats", dir, "--topic", "orders")
	require.Contains(t, ok(t, "", "verify", dir), ": 0 errors, 0 notes\n")
	ok(t, "", "topics", "create", dir, "orders", "--queues", "2")
	require.Contains(t, ok(t, "", "topics", dir), "orders  2            2             RW-   0         -\n")
	ok(t, "milk\n", "send", dir, "--topic", "orders", "--queue", "1", "--key", "k1")
	require.Equal(t, "milk\n", ok(t, "", "tail", dir, "--topic", "orders", "--raw", "--group", "kitchen"))
	require.Contains(t, golden(ok(t, "", "stats", dir, "--topic", "orders")), "orders  1      3    4    1         TIME")
	require.Contains(t, ok(t, "", "query", dir, "--topic", "orders", "--key", "k1", "--body"), "keys=k1 milk\n")

	node, err := pocketmq.Open(t.Context(), dir)
	require.NoError(t, err)
	defer node.Close()
	require.Equal(t, 1, strings.Count(ok(t, "", "query", dir, "--topic", "orders", "--key", "k1", "--body"), "\n"), "in use")
	for _, args := range [][]string{{"topics", "update", dir, "orders"}, {"topics", "delete", dir, "orders"}, {"groups", "delete", dir, "g"}, {"groups", "clone", dir, "g", "h"},
		{"groups", "reset", dir, "g", "--topic", "orders", "--to", "end"}} {
		fails(t, fmt.Sprintf("directory is in use by process %d on ", os.Getpid()), args...)
	}
}

// TestTailAfterDeletion does not show what was deleted.
func TestTailAfterDeletion(t *testing.T) {
	dir := shop(t)
	ok(t, "", "topics", "delete", dir, "orders")
	require.Empty(t, ok(t, "", "tail", dir, "--topic", "orders"))
	ok(t, "", "topics", "create", dir, "orders", "--queues", "2")
	require.Empty(t, ok(t, "", "tail", dir, "--topic", "orders", "--raw"))
	ok(t, "milk\n", "send", dir, "--topic", "orders", "--queue", "1")
	require.Equal(t, "milk\n", ok(t, "", "tail", dir, "--topic", "orders", "--raw"))
	require.Equal(t, "milk\n", ok(t, "", "tail", dir, "--topic", "orders", "--raw", "--from", "0"))
}

func TestGroupsResetCloneDelete(t *testing.T) {
	dir := shop(t)
	lag := func(group string) string {
		t.Helper()
		for line := range strings.Lines(ok(t, "", "groups", "list", dir)) {
			if f := strings.Fields(line); f[0] == group {
				return f[2]
			}
		}
		return "unknown"
	}
	reset := func(args ...string) { ok(t, "", append([]string{"groups", "reset", dir}, args...)...) }
	reset("bar", "--topic", "orders", "--to", "begin")
	require.Equal(t, "3", lag("bar"))
	reset("bar", "--topic", "orders", "--to", "end")
	require.Equal(t, "3", lag("bar"), "not forward")
	reset("bar", "--topic", "orders", "--to", "end", "--force")
	require.Equal(t, "0", lag("bar"))
	reset("bar", "--topic", "orders", "--to", "2001-01-01T00:00:00Z")
	require.Equal(t, "3", lag("bar"))
	reset("bar", "--topic", "orders", "--queue", "1", "--offset", "2", "--force")
	require.Equal(t, "1", lag("bar"))
	ok(t, "", "groups", "clone", dir, "bar", "club")
	require.Equal(t, "1", lag("club"))
	ok(t, "", "groups", "delete", dir, "club", "bar")
	require.Equal(t, "unknown", lag("club"))
	require.Equal(t, "unknown", lag("bar"))

	fails(t, "group bar has no offset in topic orders", "groups", "reset", dir, "bar", "--topic", "orders", "--to", "begin")
	fails(t, "offset: 9 (queue offset), limit is 3", "groups", "reset", dir, "kitchen", "--topic", "orders", "--queue", "1", "--offset", "9")
	fails(t, "queue id: 2 (counted from 0), limit is 1", "groups", "reset", dir, "kitchen", "--topic", "orders", "--queue", "2", "--offset", "0")
	fails(t, `--to "soon" is neither`, "groups", "reset", dir, "kitchen", "--topic", "orders", "--to", "soon")
	fails(t, "at least one of the flags", "groups", "reset", dir, "kitchen", "--topic", "orders")
	fails(t, "required flag(s) \"topic\" not set", "groups", "reset", dir, "kitchen", "--to", "end")
	fails(t, "topic unknown does not exist", "groups", "reset", dir, "kitchen", "--topic", "unknown", "--to", "end")
	fails(t, "group unknown has no offsets to clone", "groups", "clone", dir, "unknown", "x")
	fails(t, "subscription group unknown does not exist", "groups", "delete", dir, "unknown")
	fails(t, "group unknown is not known", "stats", dir, "--group", "unknown")
}

// TestFullTopic has the command line refuse messages beyond the limit of a topic.
func TestFullTopic(t *testing.T) {
	dir := t.TempDir()
	ok(t, "", "topics", "create", dir, "lines", "--queues", "1", "--max-depth", "2")
	r := pocketmqIn(t, "a\nb\nc\n", "send", dir, "--batch", "1")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "2 messages acknowledged")
	require.Contains(t, r.stderr, "depth of topic lines: 3 messages, limit is 2")
	require.Equal(t, "a\nb\n", ok(t, "", "tail", dir, "--raw"))
}

// TestNodeAdmin is administration by the facade.
func TestNodeAdmin(t *testing.T) {
	node, err := pocketmq.Open(t.Context(), shop(t))
	require.NoError(t, err)
	defer node.Close()
	admin, err := node.Admin()
	require.NoError(t, err)
	topics, err := admin.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []mq.Topic{
		{Broker: node.Broker().Name(), TopicConfig: protocol.TopicConfig{Name: "bills", ReadQueueNums: 2, WriteQueueNums: 1, Perm: protocol.PermRead, Order: true}},
		{Broker: node.Broker().Name(), TopicConfig: protocol.TopicConfig{Name: "orders", ReadQueueNums: 2, WriteQueueNums: 2, Perm: protocol.PermReadWrite, MaxDepth: 100}},
	}, topics)
}
