// Prometheus shows how to export a store to Prometheus. It is a module of its
// own, so that the library does not depend on Prometheus' client; collector.go
// is meant to be copied.
//
//	go run . DIR        # in this directory; then look at http://localhost:9100/metrics
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pocketmq/pocketmq/store"
)

const address = "localhost:9100"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: prometheus DIR")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve opens the store and answers Prometheus until ctx ends.
func serve(ctx context.Context, dir string) (err error) {
	s, err := store.Open(ctx, dir, store.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	server := &http.Server{Addr: address, Handler: handler(s), ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler answers with the metrics of s.
func handler(s *store.DefaultMessageStore) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}
