package mq

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/protocol"
)

// TestSendStatusOfCodes: a status other than NOT_STORED is given for exactly those
// codes that say that the message is in the log, under RocketMQ's names.
func TestSendStatusOfCodes(t *testing.T) {
	for code, want := range map[protocol.ResponseCode]string{
		protocol.Success:           "SEND_OK",
		protocol.FlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
		protocol.FlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
		protocol.SlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
	} {
		require.Equal(t, want, statusOf(code).String())
	}
	for code := range protocol.ResponseCode(300) {
		require.Equal(t, code.Stored(), statusOf(code) != SendNotStored, code.String())
	}
}
