package pocketmq_test

import (
	"context"
	"fmt"
	"os"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/protocol"
)

// A topic is made, filled up to its limit, looked at, and deleted.
func ExampleNode_Admin() {
	dir, err := os.MkdirTemp("", "admin")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()
	node, err := pocketmq.Open(ctx, dir)
	check(err)
	defer node.Close()
	admin, err := node.Admin()
	check(err)
	check(admin.CreateTopic(ctx, pocketmq.TopicConfig{Name: "orders", ReadQueueNums: 1, WriteQueueNums: 1, MaxDepth: 2}))

	producer, err := node.Producer("shop")
	check(err)
	for _, order := range []string{"coffee", "tea", "juice"} {
		_, err := producer.Send(ctx, &pocketmq.Message{Topic: "orders", Body: []byte(order)})
		if err != nil {
			fmt.Println(protocol.CodeOf(err))
		}
	}
	check(node.Store().WaitDispatched(ctx, node.Store().MaxOffset()))
	stats, err := admin.TopicStats(ctx, "orders")
	check(err)
	for _, q := range stats {
		fmt.Printf("queue %d: messages %d to %d\n", q.QueueID, q.MinOffset, q.MaxOffset)
	}
	_, err = admin.ResetOffset(ctx, "kitchen", "orders", protocol.EndOfQueue, true)
	check(err)
	lag, err := admin.ConsumeStats(ctx, "kitchen", "orders")
	check(err)
	fmt.Println("lag", lag[0].Lag())
	check(admin.DeleteTopic(ctx, "orders"))
	topics, err := admin.Topics(ctx)
	check(err)
	fmt.Println(len(topics), "topics")
	// Output:
	// FLOW_CONTROL
	// queue 0: messages 0 to 2
	// lag 0
	// 0 topics
}
