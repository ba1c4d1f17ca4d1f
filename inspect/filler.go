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
func IsFiller(v message.View) bool { return isFiller(v.SysFlag(), v.Topic()) }

func isFiller(flag message.SysFlag, topic []byte) bool {
	return flag.Transaction() == message.TransactionRollback && strings.HasPrefix(FillerTopic, string(topic))
}
