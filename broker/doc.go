// Package broker is RocketMQ's broker in process: it owns a store's topics, groups
// and consumer offsets, admits messages, delivers delayed and timed ones, hands
// replies to the clients that asked, and serves pulls that wait for messages.
// Broker implements protocol.Broker; NameService
// implements protocol.NameService for brokers of one process.
//
// Laws of the package:
//
//   - A topic is on disk before its first message is.
//   - Nothing is stored that would not be delivered: transactions are refused,
//     because this version does not serve them.
//   - A delayed message is delivered when it is due, not before, and once: also
//     after a crash, if what config/delayOffset.json says came from this broker.
//     So is one with a time of its own, unless it was cancelled before.
//   - A message that was sent again within Config.Dedup is stored once, and never taken
//     for known without reading the one that is there.
//   - Offsets may be lost back to the last save, so messages may come twice.
//     They are never moved forward on their own. A damaged file is an error,
//     not an empty one.
//   - A broker without traffic writes nothing.
//
// The files topics.json, subscriptionGroup.json, consumerOffset.json and
// delayOffset.json in config/ have the form that Apache RocketMQ 4.9.3 writes;
// fields that this version does not know are kept.
package broker
