package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// A store without broker and clients: put a message, read it back.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "store")
	check(err)
	defer os.RemoveAll(dir)

	s, err := store.Open(ctx, dir, store.Config{})
	check(err)
	defer s.Close()

	m := message.MessageExtBrokerInner{}
	m.Topic, m.QueueID, m.Body = "orders", 0, []byte("one coffee")
	put, err := s.PutMessage(ctx, &m)
	check(err) // nil: the message is on disk

	check(s.WaitDispatched(ctx, put.LogOffset+1)) // read your own write
	got, err := s.GetMessage(ctx, store.GetQuery{Topic: "orders", QueueID: 0, Offset: put.QueueOffset, MaxCount: 32})
	check(err)
	defer got.Release()
	for _, v := range got.Messages { // valid until Release
		fmt.Println(got.Status, v.QueueOffset(), string(v.Body()))
	}
	// Output: FOUND 0 one coffee
}

// All messages of a queue with one of two tags.
func ExampleDefaultMessageStore_Messages() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "store")
	check(err)
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, dir, store.Config{})
	check(err)
	defer s.Close()

	for i, tag := range []string{"red", "green", "blue", "green"} {
		m := message.MessageExtBrokerInner{}
		m.Topic, m.Body = "lights", fmt.Append(nil, "number ", i)
		m.Properties, err = message.NewProperties(message.PropertyTags, tag)
		check(err)
		_, err := s.PutMessage(ctx, &m)
		check(err)
	}
	check(s.WaitDispatched(ctx, s.MaxOffset()))

	query := store.GetQuery{Topic: "lights", TagFilter: message.ParseTagFilter("green || blue"), Verify: true}
	for v, err := range s.Messages(ctx, query) {
		check(err)
		fmt.Printf("%d %s\n", v.QueueOffset(), v.Body()) // v is valid in this round only
	}
	// Output:
	// 1 number 1
	// 2 number 2
	// 3 number 3
}

// One goroutine with many puts under way, each confirmed when it is on disk.
func ExampleDefaultMessageStore_PutMessageAsync() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "store")
	check(err)
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, dir, store.Config{})
	check(err)

	var confirmed atomic.Int64
	for i := range 1000 {
		m := message.MessageExtBrokerInner{}
		m.Topic, m.Body = "orders", fmt.Append(nil, "order ", i)
		s.PutMessageAsync(ctx, &m, func(_ store.PutMessageResult, err error) {
			check(err) // nil: the message is on disk
			confirmed.Add(1)
		})
	}
	check(s.Close()) // waits for the last callback
	fmt.Println(confirmed.Load(), "orders are on disk")
	// Output: 1000 orders are on disk
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
