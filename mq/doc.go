// Package mq has producers and consumers. They talk to brokers through package
// protocol, so they neither know nor care where a broker lives.
//
// Laws of the package:
//
//   - Send returns nil exactly when the broker kept its promise. A message that
//     was stored without it comes back with both a result and an error.
//   - A caller's Message is never modified, nor kept beyond the call; the body of an
//     asynchronous send is kept until its callback.
//   - A consumer gets every message of its queues at least once, in the order
//     of each queue, with its checksum verified. What can not be delivered is
//     an error with its position, never a silent gap; the consumer goes on.
//   - A message in transaction is seen by nobody unless its sender says so, at once or
//     when a broker asks.
//   - Producers of one InstanceName are one client to the brokers: it has a client
//     id, at most one producer of each group, and keeps itself known to all brokers
//     from its first producer to its last, so that they can ask it things and hand
//     it replies.
//   - A request ends exactly once: with its reply, with its time, or with Close.
//   - Every goroutine of a producer, a consumer or a reader ends in its Close.
package mq
