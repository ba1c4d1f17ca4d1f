package store_test

import (
	"context"
	"fmt"
	"log"
	"os"

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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
