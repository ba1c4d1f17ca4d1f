package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
)

// tailFlags are the flags of tail.
type tailFlags struct {
	topic, from, group string
	queue              int32
	follow, raw, json  bool
	count              int64
}

func (c *cli) tail() *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail DIR",
		Short: "Print messages",
		Long: "tail prints the messages of a topic: queue, offset, time, tag, keys and body on a line, the body quoted\n" +
			"when it is not printable. Messages of one queue come in order.\n\n" +
			"Without --group it reads the files and disturbs nobody, also while another process sends. With --group\n" +
			"it goes on where the group ended, commits what was printed, and needs the directory for itself.",
		Example: "  pocketmq tail /var/lib/queue --raw --queue 0 > copy.log",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runTail(cmd.Context(), args[0], f)
		},
	}
	cmd.Flags().StringVarP(&f.topic, "topic", "t", defaultTopic, "topic to read")
	cmd.Flags().Int32VarP(&f.queue, "queue", "q", -1, "queue to read; all when negative")
	cmd.Flags().StringVar(&f.from, "from", "begin", "where to begin in each queue: begin, end, or an offset")
	cmd.Flags().StringVarP(&f.group, "group", "g", "", "consumer group to read and commit for")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "wait for more at the end, until Ctrl-C")
	cmd.Flags().Int64VarP(&f.count, "count", "n", math.MaxInt64, "print so many messages at most")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "print bodies only, exactly as they are")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line")
	cmd.MarkFlagsMutuallyExclusive("raw", "json")
	cmd.MarkFlagsMutuallyExclusive("group", "from")
	cmd.MarkFlagsMutuallyExclusive("group", "queue")
	cmd.Flags().Lookup("count").DefValue = "all"
	return cmd
}

func (c *cli) runTail(ctx context.Context, dir string, f tailFlags) error {
	start, err := f.start()
	if err != nil {
		return err
	}
	if f.count < 0 {
		return fmt.Errorf("--count %d is negative", f.count)
	}
	out := &output{w: bufio.NewWriterSize(c.stdout, 64<<10), print: f.printer(), left: f.count, skipped: func(err error) {
		fmt.Fprintln(c.stderr, "pocketmq: skipped:", err)
	}}
	if f.group != "" {
		err = c.withExisting(ctx, dir, func(node *pocketmq.Node) error { return tailGroup(ctx, node, f, out) })
	} else if err = c.recoverStore(ctx, dir); err == nil {
		err = tailFiles(ctx, dir, f, start, out)
	}
	err = errors.Join(err, out.w.Flush())
	if f.follow && errors.Is(err, context.Canceled) {
		return nil // that is how following ends
	}
	if err == nil && out.damaged > 0 {
		return fmt.Errorf("%d messages of topic %s could not be read", out.damaged, f.topic)
	}
	return err
}

// Where to begin, beside offsets.
const (
	fromBegin = -1
	fromEnd   = -2
)

// start reads --from.
func (f tailFlags) start() (message.QueueOffset, error) {
	switch f.from {
	case "begin":
		return fromBegin, nil
	case "end":
		return fromEnd, nil
	}
	off, err := strconv.ParseUint(f.from, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("--from %q is neither begin, end nor an offset", f.from)
	}
	return message.QueueOffset(off), nil
}

func (f tailFlags) printer() printer {
	switch {
	case f.raw:
		return printRaw
	case f.json:
		return printJSON
	}
	return printText
}

// output prints messages until it has printed enough.
type output struct {
	w       *bufio.Writer
	print   printer
	left    int64 // messages still wanted
	damaged int64
	skipped func(error) // hears of messages that can not be read
}

func (o *output) message(m *pocketmq.MessageExt) error {
	o.left--
	return o.print(o.w, m)
}

func (o *output) skip(messages int64, err error) {
	o.damaged += messages
	o.skipped(err)
}
