package main

import (
	"context"
	"fmt"
	"os"
)

func Example() {
	dir, err := os.MkdirTemp("", "pocketmq-outbox-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := run(context.Background(), dir, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// order-1: COMMIT_MESSAGE
	// order-2: ROLLBACK_MESSAGE
	// order-3: UNKNOW
	// order-4: UNKNOW
	// the program starts again
	// the broker asks about order-3: COMMIT_MESSAGE
	// the broker asks about order-4: ROLLBACK_MESSAGE
	// order-1 shipped: true
	// order-2 shipped: false
	// order-3 shipped: true
	// order-4 shipped: false
}
