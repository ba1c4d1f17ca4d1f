package pocketmq_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pocketmq/pocketmq"
)

func Example() {
	ctx := context.Background()
	node, err := pocketmq.Open(ctx, dir)
	check(err)
	defer node.Close()

	producer, err := node.Producer("shop")
	check(err)
	_, err = producer.Send(ctx, &pocketmq.Message{Topic: "orders", Body: []byte("one coffee")})
	check(err) // nil: the message is on disk

	consumer, err := node.Consumer(ctx, "kitchen", "orders")
	check(err)
	order, err := consumer.Receive(ctx)
	check(err)
	fmt.Println(string(order.Body))
	// Output: one coffee
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
