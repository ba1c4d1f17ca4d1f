package main

var rocketMQ = peer{
	name:   "RocketMQ store (Java)",
	module: "org.apache.rocketmq:rocketmq-store:4.9.3",
	gives: map[promise]string{
		processCrash: "`ASYNC_FLUSH`, the default; synced within 500 ms",
		powerLoss:    "`SYNC_FLUSH`; writers share syncs",
	},
	batch: pocketmqStore.batch,
	notes: "`DefaultMessageStore` in a Java process, not through a broker. Defaults, and `useReentrantLockWhenPutMessage` with " +
		"`SYNC_FLUSH`, as its documentation advises; a heap of 2 GiB. Before the measurement the same workload runs half as long in " +
		"another directory, so that the virtual machine has compiled it. Reads are 32 at a time by `getMessage`.",
	java: "RocketMQ",
}
