// Package interop holds PocketMQ's store against that of Apache RocketMQ 4.9.3,
// which runs in a Java process of its own, on the same directories: what one of
// them wrote, the other must answer the same.
//
// There are only tests here. README.md says what they show and how to run them.
package interop
