package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK          = 0
	exitFindings    = 1 // verify found an error
	exitFailed      = 2 // usage, files, or a store that does not open
	exitInterrupted = 130
)

// errFindings ends verify when it has reported what it found.
var errFindings = errors.New("the store has errors")

// cli is what commands read from and write to.
type cli struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{stdin, stdout, stderr}
	root := &cobra.Command{
		Use:   "pocketmq",
		Short: "A durable message queue in a directory",
		Long: "pocketmq works with store directories, which have the layout of Apache RocketMQ 4.9.\n\n" +
			"Exit status: 0 done; 1 verify found an error; 2 failed; 130 interrupted.",
		Version:       version(),
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(c.send(), c.tail(), c.topics(), c.delay(), c.groups(), c.query(), c.stats(), c.info(), c.verify(), c.dump(), c.repair(), c.backup())
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return c.exit(root.ExecuteContext(ctx))
}

// exit says on one line what went wrong, and returns the exit code.
func (c *cli) exit(err error) int {
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return exitOK // nobody wants to read any more
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(c.stderr, "pocketmq: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(c.stderr, "pocketmq:", strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitFailed
}

// version is that of the module, as the build knows it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
