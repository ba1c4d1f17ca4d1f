// Package message holds PocketMQ's model of a message and the exact bytes of
// Apache RocketMQ 4.9.3: records of the commit log, property strings, batches,
// message ids and tags codes. It touches no file.
//
// Laws of the package:
//
//   - Encoding is exact. A record that was decoded encodes to the same bytes.
//   - Lengths are checked in bytes before anything is written, and compared
//     with the bytes that are there before anything is read or allocated.
//     Decoding never panics, whatever the input.
//   - A caller's Message is never modified. Properties are an immutable,
//     ordered string, so copies of a Message share them safely.
//
// The words that all other packages share (offset types, sentinels) live here
// too, because this is the lowest package.
package message
