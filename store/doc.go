// Package store is RocketMQ's DefaultMessageStore in process: messages go into
// one commit log, and every (topic, queue id) is a dense sequence of offsets
// into it. Its directory has the layout of Apache RocketMQ 4.9.3.
//
// Laws of the package:
//
//   - Acknowledged means kept: a put returns nil exactly when the promise of
//     the FlushMode was kept.
//   - A failed sync is final until the store is opened again.
//   - Readers see only what is kept: under FlushSync a message is dispatched,
//     found and announced after its sync.
//   - One process owns a directory.
//   - Memory that is mapped is valid until Release, never longer.
//
// Open recovers, and reports what it did; Close ends every goroutine that Open
// started.
package store
