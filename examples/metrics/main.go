// Metrics shows how to watch a store with nothing but the standard library: it
// publishes numbers and health as an expvar, sends some messages, and prints
// what a monitor would read at /debug/vars.
//
//	go run ./examples/metrics [-listen localhost:8080] DIR
package main

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

func main() {
	listen := flag.String("listen", "", "serve http://ADDRESS/debug/vars until interrupted")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: metrics [-listen ADDRESS] DIR")
		os.Exit(2)
	}
	if err := run(context.Background(), flag.Arg(0), *listen, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, listen string, out io.Writer) (err error) {
	s, err := store.Open(ctx, dir, store.Config{Events: events(out)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	publish("pocketmq", s)
	m := &message.MessageExtBrokerInner{}
	m.Topic, m.Body = "readings", []byte("21.5")
	for range 100 {
		if _, err := s.PutMessage(ctx, m); err != nil {
			return err
		}
	}
	if err := s.WaitDispatched(ctx, s.MaxOffset()); err != nil {
		return err
	}
	if listen != "" {
		server := &http.Server{Addr: listen, ReadHeaderTimeout: time.Second} // with expvar's handler
		return server.ListenAndServe()
	}
	return show(out, expvar.Get("pocketmq"))
}

// events prints what happens rarely. Functions like these must return soon.
func events(out io.Writer) store.Events {
	return store.Events{
		Recovered:     func(r store.Recovery) { fmt.Fprintln(out, "opened, clean:", r.Clean) },
		WritesRefused: func(err error) { fmt.Fprintln(out, "no more writes:", err) },
		DiskFull:      func(e store.DiskFullEvent) { fmt.Fprintln(out, "disk full:", e.Err) },
	}
}

// vars is what is published, by the names of the JSON.
type vars struct {
	State         string
	Reasons       []string
	Messages      int64
	Bytes         int64
	PutMessages   int64
	PutFailures   int64
	DispatchLag   int64
	DispatchAgeMs int64
	Put, Sync     latency
	GroupMean     float64 // messages per sync
	DiskFree      int64
	UntilFullSec  float64 // left out when the disk does not fill up
}

type latency struct {
	Count        int64
	P50, P99     time.Duration // ns
	Max          time.Duration
	BucketsByMax map[int64]int64 `json:",omitempty"` // how many took up to so many ns, and more than those of the bucket before
}

// publish makes the store readable under a name, at each request anew.
func publish(name string, s *store.DefaultMessageStore) {
	expvar.Publish(name, expvar.Func(func() any { return look(s) }))
}

func look(s *store.DefaultMessageStore) vars {
	st, h := s.Stats(), s.Health()
	v := vars{
		State: h.State.String(), Messages: st.Messages, Bytes: st.Bytes, PutMessages: st.PutMessages, PutFailures: st.PutFailures,
		DispatchLag: st.DispatchLag, DispatchAgeMs: st.DispatchAge.Milliseconds(), Put: summary(st.PutLatency), Sync: summary(st.SyncLatency),
		GroupMean: st.GroupSize.Mean(), DiskFree: st.DiskFree,
	}
	for _, r := range h.Reasons {
		v.Reasons = append(v.Reasons, r.Code.String()+": "+r.Text)
	}
	if st.UntilFull != store.Forever {
		v.UntilFullSec = st.UntilFull.Seconds()
	}
	return v
}

func summary(h store.Histogram[time.Duration]) latency {
	l := latency{Count: h.Count(), P50: h.Quantile(0.5), P99: h.Quantile(0.99), Max: h.Max(), BucketsByMax: make(map[int64]int64)}
	for b := range h.Buckets() {
		l.BucketsByMax[int64(b.Upper)] = b.Count
	}
	return l
}

// show prints of the published JSON what is the same in each run.
func show(out io.Writer, published expvar.Var) error {
	var v vars
	if err := json.Unmarshal([]byte(published.String()), &v); err != nil {
		return err
	}
	if v.Put.P50 <= 0 || v.Put.P99 < v.Put.P50 || v.Put.Max < v.Put.P99 {
		return fmt.Errorf("latencies that contradict each other: %+v", v.Put)
	}
	fmt.Fprintln(out, "state:", v.State)
	fmt.Fprintln(out, "messages:", v.Messages)
	fmt.Fprintln(out, "puts timed:", v.Put.Count)
	fmt.Fprintln(out, "syncs timed:", v.Sync.Count > 0) // the last one is counted after its put has returned
	fmt.Fprintln(out, "messages per sync:", v.GroupMean)
	return nil
}
