package mq_test

import (
	"fmt"

	"github.com/pocketmq/pocketmq/mq"
)

// The body of a message of the trace topic.
func ExampleDecodeTrace() {
	body := mq.AppendTrace(nil, &mq.TraceRecord{
		Type: mq.TracePub, Timestamp: 1700000000123, Region: "DefaultRegion", Group: "senders", Topic: "orders",
		MsgID: "7F00000100012A3B4C5D000000010000", Keys: "invoice-7", StoreHost: "127.0.0.1:10911", BodyLength: 42, CostTime: 5, Success: true,
	})
	body = mq.AppendTrace(body, &mq.TraceRecord{
		Type: mq.TraceSubAfter, Timestamp: 1700000000456, Group: "readers", RequestID: "7F00000100012A3B4C5D000000020001",
		MsgID: "7F00000100012A3B4C5D000000010000", Keys: "invoice-7", CostTime: 12, Success: true,
	})
	records, err := mq.DecodeTrace(body)
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range records {
		fmt.Println(r.Type, r.Group, r.Keys, r.CostTime, "ms", r.Success)
	}
	// Output:
	// Pub senders invoice-7 5 ms true
	// SubAfter readers invoice-7 12 ms true
}
