// Package bench measures PocketMQ through its public API, beside the limits of
// the machine in the same run:
//
//	go test -run '^$' -bench . ./bench
//	go test -run '^$' -bench . ./bench -large    # also what takes minutes, or many GiB
//
// Names are kept stable and in the form that benchstat reads. Each benchmark
// says its flush promise in its name; only rows with the same promise can be
// compared. What a put costs includes the dispatcher: a run ends when all that
// was put can be read from its queue, and the count is checked then. Stores have
// the default Config unless the benchmark says otherwise. Stores that are read
// from, or that need many queues, are filled outside the time and are shared by the
// rows of a benchmark.
//
// A metric "p99-ns" is the time that 99 % of the operations stay within, of all of
// them, without rounding; so are p50 and p99.9, and max is the longest.
//
// Writing, with bodies of 64 B to 1 MiB and 1 to 256 writers:
//
//	BenchmarkPut            each writer waits for the answer
//	BenchmarkPutBatch       batches of 100 messages, or of 2 MiB
//	BenchmarkPutAsync       nobody waits before the end
//	BenchmarkPutQueues      round robin over 1 to 10,000 queues (100,000: -large)
//	BenchmarkFirstPut       a new store, and one message
//	BenchmarkSend           producer, broker and store
//	BenchmarkSendOneSlow    two brokers, of which one is slow
//
// Reading:
//
//	BenchmarkGet            a queue from its beginning, as views into mapped files
//	BenchmarkGetCopy        the same, copied
//	BenchmarkGetRandom      one message at a time, by its queue offset, copied
//	BenchmarkGetTag         those with a tag that 1 of 2, or 1 of 100, have
//	BenchmarkQueryKey       by one of a million unique keys, in index files of the default
//	                        size and of RocketMQ's (10 million: -large)
//	BenchmarkVerify         inspect.Verify
//
// Both at a time, and what happens in between:
//
//	BenchmarkVisible        from a put to the reader who waits for it
//	BenchmarkDispatchLag    how far queues are behind the log at full speed
//	BenchmarkTimerDelivery  how late messages with a time of delivery come
//	BenchmarkMixed          a writer, a reader, and retention that removes files
//
// The store as a whole:
//
//	BenchmarkOpen           after a kill and after a Close, with 1 GiB of history (2 and
//	                        10 GiB: -large, others: -histories)
//	BenchmarkQueueMemory    Go's heap by queue
//
// The limits:
//
//	BenchmarkLimitCopy      CRC-32 and copy of the same bytes into mapped files that
//	                        were prepared the same way: what memory allows
//	BenchmarkLimitSync      writers=1: append and fdatasync; more: append under a mutex, one
//	                        fdatasync for all who wait: what the disk allows
//	BenchmarkLimitReadSequential, BenchmarkLimitReadRandom
//	                        copy of the same records out of the same mapped files
//	BenchmarkLimitRead      reads the log that BenchmarkVerify verifies
//	BenchmarkLimitWake      wakes a goroutine
package bench
