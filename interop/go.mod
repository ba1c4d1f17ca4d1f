module github.com/pocketmq/pocketmq/interop

go 1.25.0

require (
	github.com/pocketmq/pocketmq v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/edsrzf/mmap-go v1.2.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/pocketmq/pocketmq => ../
