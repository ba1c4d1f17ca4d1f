package main

import (
	"context"
	"fmt"
	"os"
)

func Example() {
	dir, err := os.MkdirTemp("", "pocketmq-disks-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := run(context.Background(), dir, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// one is missing
	//   large: works
	//   small: works
	//   missing: not open
	// 2000 messages later
	//   large: works
	//   small: is full
	//   missing: not open
	// the missing one is there, and used
	//   large: works
	//   small: is full
	//   missing: works
	// all of it received
	// there is room, and it is used
	//   large: works
	//   small: works
	//   missing: works
	// all of it received
}
