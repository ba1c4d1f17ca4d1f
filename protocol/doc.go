// Package protocol is what clients, brokers and the name service say to each
// other: interfaces with one typed method per operation, their requests and
// answers, RocketMQ's response codes, and the rules for names. There is no
// behavior in it and no encoding: in one process the values are handed over as
// they are, and another implementation of the same interfaces may send them
// over a network.
//
// Requests and answers are passed by value. Who receives one does not keep its
// slices beyond the call, unless a field says otherwise.
package protocol
