package main

import (
	"context"
	"fmt"
	"os"
)

func Example() {
	dir, err := os.MkdirTemp("", "pocketmq-metrics-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := run(context.Background(), dir, "", os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// opened, clean: true
	// state: healthy
	// messages: 100
	// puts timed: 100
	// syncs timed: true
	// messages per sync: 1
}
