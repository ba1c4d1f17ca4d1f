package main

import (
	"context"
	"fmt"
	"os"
)

func Example() {
	dir, err := os.MkdirTemp("", "pocketmq-reminders-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := run(context.Background(), dir, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 4 reminders are on disk, and one was cancelled
	// wake up: ringing, attempt 1
	// have tea: the bell is broken
	// go home: ringing, attempt 1
	// have tea: ringing, attempt 2
	// call home: ringing, attempt 1
}
