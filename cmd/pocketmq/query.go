package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// queryFlags are the flags of query.
type queryFlags struct {
	topic, key, unique, id string
	from, to               string
	most                   int
	body, json             bool
}

func (c *cli) query() *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{
		Use:   "query DIR",
		Short: "Find messages by key or id",
		Long: "query finds messages of a topic by a word of their keys, oldest first, by unique key, or the message of an id as\n" +
			"sends return it. By unique key it is the one stored first.\n\n" +
			"The store may be in use. Then keys are looked for in the whole log, because the index may be behind it.",
		Example: "  pocketmq query /var/lib/queue --topic orders --key 4711 --body\n" +
			"  pocketmq query /var/lib/queue --id 7F3A114C00002A9F0000000000000400",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runQuery(cmd.Context(), args[0], f)
		},
	}
	cmd.Flags().StringVarP(&f.topic, "topic", "t", "", "topic of the messages; not with --id")
	cmd.Flags().StringVarP(&f.key, "key", "k", "", "word of the keys")
	cmd.Flags().StringVar(&f.unique, "unique-key", "", "unique key")
	cmd.Flags().StringVar(&f.id, "id", "", "id of 32 or 56 hexadecimal digits: address of the store, and place in its log")
	cmd.Flags().StringVar(&f.from, "from", "", "stored at this time or later, as 2026-01-31T08:00:00Z or milliseconds since 1970")
	cmd.Flags().StringVar(&f.to, "to", "", "stored at this time or before")
	cmd.Flags().IntVarP(&f.most, "max", "n", protocol.DefaultQueryNum, "most messages, the newest")
	cmd.Flags().BoolVar(&f.body, "body", false, "with bodies: as tail prints messages, or in JSON")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("key", "unique-key", "id")
	cmd.MarkFlagsOneRequired("key", "unique-key", "id")
	cmd.MarkFlagsMutuallyExclusive("topic", "id")
	for _, name := range []string{"from", "to", "max"} {
		cmd.MarkFlagsMutuallyExclusive(name, "id")
		cmd.MarkFlagsMutuallyExclusive(name, "unique-key")
	}
	return cmd
}

func (c *cli) runQuery(ctx context.Context, dir string, f queryFlags) error {
	find, look, err := f.ways()
	if err != nil {
		return err
	}
	var found []*message.MessageExt
	err = c.withAdmin(ctx, dir, func(admin *mq.Admin, node *pocketmq.Node) error {
		err := node.Store().WaitIndexed(ctx, node.Store().MaxOffset())
		if err == nil {
			found, err = find(ctx, admin)
		}
		return err
	})
	if errors.Is(err, pocketmq.ErrLocked) || errors.Is(err, store.ErrReadOnly) {
		found, err = look(ctx, dir)
	}
	if err != nil {
		return err
	}
	return c.printFound(found, f)
}

// ways are how to find what is asked for: through a broker, and in the files.
func (f queryFlags) ways() (find func(context.Context, *mq.Admin) ([]*message.MessageExt, error), look func(context.Context, string) ([]*message.MessageExt, error), err error) {
	if f.id != "" {
		id, err := message.ParseOffsetMessageID(f.id)
		find = func(ctx context.Context, admin *mq.Admin) ([]*message.MessageExt, error) {
			m, err := admin.ViewMessage(ctx, f.id)
			return []*message.MessageExt{m}, err
		}
		look = func(_ context.Context, dir string) ([]*message.MessageExt, error) { return viewFiles(dir, id) }
		return find, look, err
	}
	if f.topic == "" {
		return nil, nil, errors.New("--topic is needed with --key and --unique-key")
	}
	if f.most < 1 {
		return nil, nil, fmt.Errorf("--max %d is not positive", f.most)
	}
	req := protocol.QueryMessageRequest{Topic: f.topic, Key: f.key, MaxNum: f.most}
	if f.unique != "" {
		req.Key, req.Unique = f.unique, true
	}
	if req.Begin, err = parseTime("from", f.from); err != nil {
		return nil, nil, err
	}
	if req.End, err = parseTime("to", f.to); err != nil {
		return nil, nil, err
	}
	find = func(ctx context.Context, admin *mq.Admin) ([]*message.MessageExt, error) {
		return admin.QueryMessage(ctx, req)
	}
	look = func(ctx context.Context, dir string) ([]*message.MessageExt, error) { return queryFiles(ctx, dir, req) }
	return find, look, nil
}

// parseTime reads a time in text, or as milliseconds since 1970; 0 when it is empty.
func parseTime(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("--%s %q is neither a time as 2026-01-31T08:00:00Z nor milliseconds since 1970", flag, text)
	}
	return t.UnixMilli(), nil
}

// foundLine is a message as query prints it.
type foundLine struct {
	Topic     string   `json:"topic"`
	Queue     int32    `json:"queue"`
	Offset    int64    `json:"offset"`
	LogOffset int64    `json:"logOffset"`
	ID        string   `json:"id"`
	UniqueKey string   `json:"uniqueKey,omitempty"`
	Time      string   `json:"time"`
	Tag       string   `json:"tag,omitempty"`
	Keys      []string `json:"keys,omitempty"`
	Size      int      `json:"size"` // of the body
	jsonBody
}

func (c *cli) printFound(found []*message.MessageExt, f queryFlags) error {
	if f.body && !f.json {
		for _, m := range found {
			if err := printText(c.stdout, m); err != nil {
				return err
			}
		}
		return nil
	}
	lines := []foundLine{}
	var rows [][]any
	for _, m := range found {
		l := foundLine{
			Topic: m.Topic, Queue: m.QueueID, Offset: int64(m.QueueOffset), LogOffset: int64(m.LogOffset), ID: m.OffsetMessageID().String(),
			UniqueKey: m.UniqueKey(), Time: timeText(m.StoreTimestamp), Tag: m.Tags(), Keys: m.Keys(), Size: len(m.Body),
		}
		if f.body {
			l.jsonBody = bodyInJSON(m.Body)
		}
		lines = append(lines, l)
		rows = append(rows, []any{l.Topic, l.Queue, l.Offset, l.Time, word(l.Tag), word(strings.Join(l.Keys, " ")), l.Size, l.ID})
	}
	if f.json {
		return encodeJSON(c.stdout, lines, "  ")
	}
	return table(c.stdout, []string{"TOPIC", "QUEUE", "OFFSET", "TIME", "TAG", "KEYS", "SIZE", "ID"}, rows)
}
