package interop

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The tests of this package:
//
//	rounds_test.go     one side writes and the other answers; taking turns; kills
//	damage_test.go     both repair the same damage
//	owners_test.go     both want one directory
//	workload_test.go   what is written
//	truth_test.go      what must be there
//	interview_test.go  what is asked, and which answers may differ
//	query_test.go      the same for queries by key
//	javalog_test.go    which lines of RocketMQ's log mean damage
//	process_test.go    the processes in which the stores run
//	peer_test.go       PocketMQ in such a process; RocketMQ in one is java/

// TestMain serves stores where this process is a child.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		goleak.VerifyTestMain(m)
	}
	err := serve(context.Background(), os.Stdin, os.Stdout)
	if err == nil {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
