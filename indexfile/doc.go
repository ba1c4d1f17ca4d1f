// Package indexfile is RocketMQ's IndexFile and IndexService: files that lead
// from a message key to log offsets. Each is a hash table that is filled once:
// slots, and behind them entries in the order of the log, chained by slot.
//
// Laws of the package:
//
//   - All of it can be rebuilt from the log: losing it loses no message. What
//     can not be used is dropped and named, with the log offset to feed from.
//   - An entry knows only the hash of its key. Query asks its caller about
//     every candidate, so that a collision is never an answer.
//   - Entries lie in log order. A record that is given again adds nothing; one
//     that was taken half is completed.
//   - Memory of a file is touched under a pin and a guard, and written only
//     where the file has blocks: a full disk is an error matching
//     segment.ErrNoSpace from Put, which can be tried again.
//   - One goroutine writes (the dispatcher); any number queries. A query finds
//     every record whose Put returned before the query began. One whose Put is
//     under way may be found or missed, but hides no other: entry, slot and
//     count are written in this order, slot and count as single words.
//
// # Durability
//
// Put leaves entries in the page cache: they survive the process. Flush makes
// them durable. After a stop that was not clean Repair keeps what a Flush had
// covered, whatever became of the rest.
//
// # Space
//
// A file has its full length from the start. Header and slots get their blocks
// when it is made, because slots are written at random; entries get theirs in
// steps as they come. So the smallest file that holds an entry takes 40+4·slots
// bytes and one step: 20 MB in RocketMQ's geometry, little in a small one.
package indexfile
