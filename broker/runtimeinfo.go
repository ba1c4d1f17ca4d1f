package broker

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// runtimeInfo remembers counters of the store from one RuntimeInfo to the next, for
// what RocketMQ tells per second and per day. Nothing runs for it in between.
type runtimeInfo struct {
	now    func() time.Time
	booted time.Time

	mu      sync.Mutex
	samples []sample // oldest first; the first one is of the start
	day     time.Time
	// morning and yesterday are the counters when this day, and the one before,
	// began, as far as anybody had asked.
	morning, yesterday sample
}

// sample is counters at a time.
type sample struct {
	at       time.Time
	put, got int64
}

// spans are those over which messages per second are told.
var spans = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

func newRuntimeInfo(now func() time.Time) *runtimeInfo {
	at := now()
	return &runtimeInfo{now: now, booted: at, day: dayOf(at), samples: []sample{{at: at}}}
}

func dayOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())
}

// take notes the counters, and forgets what no span needs any more.
func (r *runtimeInfo) take(s sample) {
	if day := dayOf(s.at); day.After(r.day) {
		r.yesterday, r.morning, r.day = r.morning, r.samples[len(r.samples)-1], day
	}
	if s.at.Sub(r.samples[len(r.samples)-1].at) >= time.Second {
		r.samples = append(r.samples, s)
	}
	for len(r.samples) > 1 && s.at.Sub(r.samples[1].at) >= spans[len(spans)-1] {
		r.samples = r.samples[1:]
	}
}

// rates are messages per second up to s, over the spans: each from the last sample
// that is as old, or from the first one there is.
func (r *runtimeInfo) rates(s sample, count func(sample) int64) string {
	var text string
	for i, span := range spans {
		from := r.samples[0]
		for _, old := range r.samples {
			if s.at.Sub(old.at) >= span {
				from = old
			}
		}
		rate := 0.0
		if seconds := s.at.Sub(from.at).Seconds(); seconds > 0 {
			rate = float64(count(s)-count(from)) / seconds
		}
		if i > 0 {
			text += " "
		}
		text += strconv.FormatFloat(rate, 'f', 4, 64)
	}
	return text
}

// RuntimeInfo is how the broker is, under RocketMQ's keys: those that mean something
// in one process. Rates are those between calls: over the last 10 s, minute and 10
// minutes, or as long as somebody has asked. Counters begin with the store, and
// those of days are as of the last call of a day.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, prepareRuntimeInfo.
func (b *Broker) RuntimeInfo(context.Context) (map[string]string, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	st := b.store.Stats()
	info := map[string]string{
		protocol.InfoVersion: "PocketMQ " + version(), "brokerVersion": rocketMQVersion,
		"commitLogMinOffset": number(int64(st.LogStart)), "commitLogMaxOffset": number(int64(st.LogEnd)),
		"dispatchBehindBytes": number(st.DispatchLag), "remainHowManyDataToFlush": fmt.Sprintf("%d B", st.DirtyBytes),
		"putMessageTimesTotal": number(st.PutMessages), "putMessageFailedTimes": number(st.PutFailures), "putMessageSizeTotal": number(st.PutBytes),
		"earliestMessageTimeStamp": number(b.earliestMessage(st)), "startAcceptSendRequestTimeStamp": number(b.runtime.booted.UnixMilli()),
		"bootTimestamp": number(b.runtime.booted.UnixMilli()),
	}
	if st.PutMessages > 0 {
		info["putMessageAverageSize"] = strconv.FormatFloat(float64(st.PutBytes)/float64(st.PutMessages), 'f', 2, 64)
	}
	if st.DiskTotal > 0 {
		used := strconv.FormatFloat(1-float64(st.DiskFree)/float64(st.DiskTotal), 'f', 4, 64)
		info["commitLogDiskRatio"], info["consumeQueueDiskRatio"] = used, used
		info["commitLogDirCapacity"] = fmt.Sprintf("Total : %d B, Free : %d B.", st.DiskTotal, st.DiskFree)
	}
	b.addRates(info, st)
	b.addDelays(info)
	return info, nil
}

// addRates adds what is told per second and per day.
func (b *Broker) addRates(info map[string]string, st store.Stats) {
	r := b.runtime
	r.mu.Lock()
	defer r.mu.Unlock()
	s := sample{r.now(), st.PutMessages, st.GetMessages}
	r.take(s)
	up := s.at.Sub(r.booted)
	info["runtime"] = fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]", int(up.Hours())/24, int(up.Hours())%24, int(up.Minutes())%60, int(up.Seconds())%60)
	put, got := func(s sample) int64 { return s.put }, func(s sample) int64 { return s.got }
	info[protocol.InfoPutTPS] = r.rates(s, put)
	for _, key := range [...]string{protocol.InfoTransferedTPS, "getFoundTps", "getTotalTps"} {
		info[key] = r.rates(s, got)
	}
	info["msgPutTotalYesterdayMorning"], info["msgGetTotalYesterdayMorning"] = number(r.yesterday.put), number(r.yesterday.got)
	info["msgPutTotalTodayMorning"], info["msgGetTotalTodayMorning"] = number(r.morning.put), number(r.morning.got)
	info["msgPutTotalTodayNow"], info["msgGetTotalTodayNow"] = number(s.put), number(s.got)
}

// addDelays adds "delivered,max" of each delay level that has a queue.
func (b *Broker) addDelays(info map[string]string) {
	for topic, id := range b.store.QueueIDs() {
		if topic == message.ScheduleTopic {
			info["scheduleMessageOffset_"+number(int64(id)+1)] = number(int64(b.delays.consumed(id))) + "," + number(int64(b.store.MaxOffsetInQueue(topic, id)))
		}
	}
}

// earliestMessage is when the oldest message was stored, in ms since the Unix epoch;
// -1 when there is none, as in RocketMQ.
func (b *Broker) earliestMessage(st store.Stats) int64 {
	if st.LogStart == st.LogEnd {
		return -1
	}
	return b.now().Add(-st.OldestAge).UnixMilli()
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// rocketMQVersion is the number that RocketMQ 4.9.3 has among its versions.
//
// Source: RocketMQ common/MQVersion.java.
const rocketMQVersion = "399"

// version is that of the module, as the build knows it.
func version() string {
	const module = "github.com/pocketmq/pocketmq"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "(unknown)"
}
