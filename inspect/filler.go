package inspect

import (
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

// FillerTopic is the topic of fillers.
const FillerTopic = "POCKETMQ_FILLER"

// IsFiller reports whether a record holds the place of what repair could not
// read. It is of a transaction that was rolled back, so neither RocketMQ nor
// PocketMQ puts it into a queue or the index; its topic is FillerTopic, or the
// start of it where there was no room.
func IsFiller(v message.View) bool {
	return v.SysFlag().Transaction() == message.TransactionRollback && strings.HasPrefix(FillerTopic, string(v.Topic()))
}
