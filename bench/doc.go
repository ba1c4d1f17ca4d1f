// Package bench measures PocketMQ through its public API, beside the limits of
// the machine in the same run:
//
//	go test -run '^$' -bench . ./bench
//
// Names are kept stable and in the form that benchstat reads. Each benchmark
// says its flush promise in its name; only rows with the same promise can be
// compared. What a put costs includes the dispatcher: a run ends when all that
// was put can be read from its queue, and the count is checked then.
//
//	BenchmarkLimitCopy  CRC-32 and copy of the same bytes into mapped files that
//	                    were prepared the same way: what memory allows
//	BenchmarkLimitSync  writers=1: append and fdatasync; writers=64: append under
//	                    a mutex, one fdatasync for all who wait: what the disk allows
package bench
