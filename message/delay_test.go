package message

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func defaultLevels(t testing.TB) DelayLevels {
	t.Helper()
	d, err := ParseDelayLevels(DefaultDelayLevels)
	require.NoError(t, err)
	return d
}

func TestDefaultDelayLevelsAreRocketMQs(t *testing.T) {
	s, m, h := time.Second, time.Minute, time.Hour
	require.Equal(t, DelayLevels{
		s, 5 * s, 10 * s, 30 * s, m, 2 * m, 3 * m, 4 * m, 5 * m, 6 * m, 7 * m, 8 * m, 9 * m, 10 * m, 20 * m, 30 * m, h, 2 * h,
	}, defaultLevels(t))
}

func TestParseDelayLevelsReadsEveryUnit(t *testing.T) {
	d, err := ParseDelayLevels(" 0s  2m 3h\t4d ")
	require.NoError(t, err)
	require.Equal(t, DelayLevels{0, 2 * time.Minute, 3 * time.Hour, 96 * time.Hour}, d)

	d, err = ParseDelayLevels("")
	require.NoError(t, err)
	require.Empty(t, d)
}

func TestParseDelayLevelsRefusesOtherTexts(t *testing.T) {
	for _, item := range []string{
		"1", "s", "1x", "1S", "-1s", "1.5s", "1s,5s", "s1", "1\u00b5", "\u00b5", "\xff", "0x1s", "1_0s", "1ms",
		"9223372037s", "106752d", "9223372036854775807s", "9223372036854775808s", "99999999999999999999d",
	} {
		_, err := ParseDelayLevels("1s " + item + " 2s")
		require.Equal(t, &IllegalError{
			Field: "delay levels", Value: item, Reason: "is not a whole number with a unit s, m, h or d",
		}, err, item)
	}
}

// Seconds times 1000 do not fit 32 bits from 25 days on.
func TestDelaysOf30DaysAreMilliseconds(t *testing.T) {
	d, err := ParseDelayLevels("2592000s 43200m 720h 30d 106751d")
	require.NoError(t, err)
	for level := 1; level <= 4; level++ {
		require.Equal(t, int64(2_592_000_000), d.DeliveryTime(level, 0))
	}
	require.Equal(t, int64(106751*86_400_000), d.DeliveryTime(5, 0), "the longest whole number of days")
}

func TestDeliveryTimeIsStoreTimePlusDelay(t *testing.T) {
	d := defaultLevels(t)
	const stored = 1650000000123
	for level, want := range map[int]int64{
		1: 1650000001123, 3: 1650000010123, 18: 1650007200123,
		0: 1650000001123, -1: 1650000001123, 19: 1650000001123, // unknown: one second
	} {
		require.Equal(t, want, d.DeliveryTime(level, stored), "level %d", level)
	}
}

// Numbers and refusals are those of Java 17's Integer.parseInt, except that
// only ASCII digits count.
func TestLevelReadsTheDelayProperty(t *testing.T) {
	d := defaultLevels(t)
	for text, want := range map[string]int{
		"1": 1, "18": 18, "+3": 3, "003": 3,
		"0": 0, "-0": 0, "-1": 0, "-2147483648": 0, // no delay
		"19": 18, "2147483647": 18, // the highest
	} {
		got, err := d.Level(mustProperties(t, PropertyDelayLevel, text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"4x", " 3", "3 ", "1_0", "0x3", "3.0", "+", "-", "2147483648", "-2147483649", "99999999999999999999", "\u0663", "\xff",
	} {
		got, err := d.Level(Properties("DELAY\x01" + text))
		require.Zero(t, got)
		require.Equal(t, &IllegalError{Field: "property DELAY", Value: text, Reason: "is not a 32-bit integer"}, err)
	}
	for _, p := range []Properties{"", "TAGS\x01x", "DELAY\x01", "DELAY", "delay\x013"} {
		got, err := d.Level(p)
		require.NoError(t, err)
		require.Zero(t, got, "%q", p)
	}
	got, err := DelayLevels(nil).Level("DELAY\x013")
	require.NoError(t, err)
	require.Zero(t, got, "without levels nothing is delayed")
}

func parkable(p Properties) MessageExtBrokerInner {
	return MessageExtBrokerInner{MessageExt: MessageExt{
		Message: Message{Topic: "T", Flag: 7, Body: []byte("b"), Properties: p},
		QueueID: 5,
		SysFlag: FlagCompressed,
	}}
}

func TestParkMovesTheMessageToItsLevel(t *testing.T) {
	d := defaultLevels(t)
	for level := 1; level <= 18; level++ {
		m := parkable(mustProperties(t, PropertyTags, "TagA", PropertyDelayLevel, fmt.Sprint(level), "k", "v"))
		before := m
		got, err := d.Park(m)
		require.NoError(t, err)

		want := m
		want.Topic = "SCHEDULE_TOPIC_XXXX"
		want.QueueID = int32(level - 1)
		want.Properties = Properties(fmt.Sprintf("TAGS\x01TagA\x02DELAY\x01%d\x02k\x01v\x02REAL_TOPIC\x01T\x02REAL_QID\x015", level))
		require.Equal(t, want, got)
		require.Equal(t, before, m, "the caller's message")
	}
}

func TestParkLowersTheLevelToTheHighest(t *testing.T) {
	for _, text := range []string{"19", "2147483647"} {
		got, err := defaultLevels(t).Park(parkable(Properties("DELAY\x01" + text)))
		require.NoError(t, err)
		require.EqualValues(t, 17, got.QueueID)
		require.Equal(t, Properties("DELAY\x0118\x02REAL_TOPIC\x01T\x02REAL_QID\x015"), got.Properties)
	}
}

func TestParkReplacesAnEarlierRealTopic(t *testing.T) {
	got, err := defaultLevels(t).Park(parkable("REAL_TOPIC\x01old\x02REAL_QID\x0199\x02DELAY\x011"))
	require.NoError(t, err)
	require.Equal(t, Properties("REAL_TOPIC\x01T\x02REAL_QID\x015\x02DELAY\x011"), got.Properties)
}

func TestParkLeavesOtherMessagesAlone(t *testing.T) {
	d := defaultLevels(t)
	for _, p := range []Properties{"", "TAGS\x01x\x02", "DELAY\x01", "DELAY\x010", "DELAY\x01-1"} {
		m := parkable(p)
		got, err := d.Park(m)
		require.NoError(t, err)
		require.Equal(t, m, got, "%q", p)
	}
	for transaction, parks := range map[SysFlag]bool{
		TransactionNone: true, TransactionPrepared: false, TransactionCommit: true, TransactionRollback: false,
	} {
		m := parkable("DELAY\x011")
		m.SysFlag = m.SysFlag.WithTransaction(transaction)
		got, err := d.Park(m)
		require.NoError(t, err)
		require.Equal(t, parks, got.Topic == ScheduleTopic)
		if !parks {
			require.Equal(t, m, got)
		}
	}
}

func TestParkRefusesWhatIsNoLevel(t *testing.T) {
	for _, text := range []string{"4x", "2147483648"} {
		m := parkable(Properties("DELAY\x01" + text))
		got, err := defaultLevels(t).Park(m)
		require.Equal(t, &IllegalError{Field: "property DELAY", Value: text, Reason: "is not a 32-bit integer"}, err)
		require.Equal(t, m, got)
	}
}

func TestParkRefusesPropertiesThatBecomeTooLong(t *testing.T) {
	const added = len("\x02REAL_TOPIC\x01T\x02REAL_QID\x015")
	fits := Properties("DELAY\x011\x02k\x01" + strings.Repeat("v", 32767-added-len("DELAY\x011\x02k\x01")))
	got, err := defaultLevels(t).Park(parkable(fits))
	require.NoError(t, err)
	require.Len(t, string(got.Properties), 32767)

	m := parkable(fits + "v")
	got, err = defaultLevels(t).Park(m)
	require.Equal(t, &LimitError{Field: "properties", Limit: 32767, Value: 32768}, err)
	require.Equal(t, m, got)
}

func TestParkRefusesATopicItCanNotKeep(t *testing.T) {
	m := parkable("DELAY\x011")
	m.Topic = ""
	got, err := defaultLevels(t).Park(m)
	require.ErrorIs(t, err, ErrIllegal)
	require.Equal(t, m, got)
}

func TestTagsCodeOfAParkedRecordIsItsDueTime(t *testing.T) {
	const tagA = 2598919
	d := defaultLevels(t)
	for _, c := range []struct {
		name, topic string
		p           Properties
		want        int64
	}{
		{"level 3", ScheduleTopic, "DELAY\x013\x02TAGS\x01TagA", 1650000010123},
		{"level 18", ScheduleTopic, "DELAY\x0118\x02TAGS\x01TagA", 1650007200123},
		{"above the highest level", ScheduleTopic, "DELAY\x0199\x02TAGS\x01TagA", 1650007200123},
		{"level 0", ScheduleTopic, "DELAY\x010\x02TAGS\x01TagA", tagA},
		{"negative level", ScheduleTopic, "DELAY\x01-1\x02TAGS\x01TagA", tagA},
		{"no number", ScheduleTopic, "DELAY\x014x\x02TAGS\x01TagA", tagA},
		{"too large a number", ScheduleTopic, "DELAY\x012147483648\x02TAGS\x01TagA", tagA},
		{"empty", ScheduleTopic, "DELAY\x01\x02TAGS\x01TagA", tagA},
		{"no level", ScheduleTopic, "TAGS\x01TagA", tagA},
		{"nothing", ScheduleTopic, "", 0},
		{"delivered: DELAY stays", "T", "DELAY\x013\x02TAGS\x01TagA", tagA},
		{"other topic", "SCHEDULE_TOPIC_XXXX2", "DELAY\x013\x02TAGS\x01TagA", tagA},
		{"no tag", "T", "KEYS\x01k", 0},
		{"negative hash", "T", "TAGS\x01payment", -786681338},
		{"last of two tags", "T", "TAGS\x01x\x02TAGS\x01TagA", tagA},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := MessageExt{Message: Message{Topic: c.topic, Properties: c.p}, StoreTimestamp: 1650000000123}
			v := readOK(t, recordOf(m))
			require.Equal(t, c.want, d.TagsCode(v))
			require.Equal(t, TagsCode([]byte(m.Tags())), DelayLevels(nil).TagsCode(v), "without levels it is the tag's")
		})
	}
}
