package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// Cleaning is done by the maintenance goroutine alone. For each file of the log
// it unlinks the file, oldest first, syncs the directory, moves the minimum of
// every queue, and removes what only points at messages that are gone. A crash
// in between leaves files that nothing needs: what is there is told from the
// directory, and no file names another. A get in between finds the message gone.

// follower is made from the log. Its files that only point at messages before
// logMin can go; RemoveBefore returns their paths.
type follower interface {
	RemoveBefore(logMin message.LogOffset) (removed []string, err error)
	Bytes() int64 // of all its files
}

// Consumed tells up to where a queue was consumed: the smallest offset that a
// registered group has still to read, false if no group is registered for it.
type Consumed func(topic string, queueID int32) (message.QueueOffset, bool)

// SetConsumed tells the store what the consumer groups have consumed; nil ends
// that. See Retention.Groups: as long as nothing is known, nothing counts as
// consumed. A queue of message.ScheduleTopic or message.TimerTopic is consumed up
// to what was delivered: messages that wait are not removed, for no reason and
// whatever Retention.Groups says, while f is there to tell of them. The store calls f from a goroutine of its own, once for each queue,
// when it looks for something to remove. f must not call the store.
func (s *DefaultMessageStore) SetConsumed(f Consumed) {
	if f == nil {
		s.consumed.Store(nil)
		return
	}
	s.consumed.Store(&f)
	s.NotifyConsumed()
}

// NotifyConsumed says that groups went on. It returns at once.
func (s *DefaultMessageStore) NotifyConsumed() {
	if s.cfg.Retention.Groups == RemoveConsumed {
		kick(s.cleanKick)
	}
}

// DeleteExpired removes what Retention allows, now and whatever the hour, and
// returns what it removed, also together with an error. The store does the same
// by itself. What was removed stays so after a crash.
//
// Source: RocketMQ store/DefaultMessageStore.java, executeDeleteFilesManually.
func (s *DefaultMessageStore) DeleteExpired(ctx context.Context) (Removal, error) {
	return s.askToClean(ctx, cleaning{anyHour: true})
}

// RemoveBefore removes the files of the log all of whose messages are before
// off, whatever their age: never the one that is written to, none that is not
// dispatched, and none that Retention.Groups keeps. Beyond that it is as
// DeleteExpired.
func (s *DefaultMessageStore) RemoveBefore(ctx context.Context, off message.LogOffset) (Removal, error) {
	return s.askToClean(ctx, cleaning{anyHour: true, before: off})
}

// cleaning says what a cleaning is to do beyond Retention.
type cleaning struct {
	anyHour bool
	before  message.LogOffset // see RemoveBefore
	drop    <-chan struct{}   // remove the oldest file, if this is still what room.changed returns

	answer chan cleaned
}

type cleaned struct {
	removal Removal
	err     error
}

// askToClean has the maintenance goroutine do it.
func (s *DefaultMessageStore) askToClean(ctx context.Context, c cleaning) (Removal, error) {
	if err := s.checkOpen(); err != nil {
		return Removal{}, err
	}
	c.answer = make(chan cleaned, 1)
	select {
	case s.cleanings <- c:
	case <-s.stop:
		return Removal{}, fmt.Errorf("store: %w", message.ErrClosed)
	case <-ctx.Done():
		return Removal{}, ctx.Err()
	}
	select {
	case a := <-c.answer:
		return a.removal, typed(a.err)
	case <-ctx.Done():
		return Removal{}, ctx.Err()
	}
}

// clean chooses and removes.
func (s *DefaultMessageStore) clean(c cleaning) (Removal, error) {
	if s.building.Load() != nil { // what is not in its queue yet would be
		return Removal{LogStart: s.log.MinOffset()}, nil
	}
	sit := s.situation(c)
	chosen := s.cfg.Retention.choose(sit)
	s.tellHeldBack(sit, chosen)
	var removal Removal
	var err error
	for len(chosen) > 0 && err == nil {
		n := 1 // files with the same reason go together
		for n < len(chosen) && chosen[n].reason == chosen[0].reason {
			n++
		}
		err = s.remove(chosen[:n], &removal)
		chosen = chosen[n:]
	}
	if err == nil && s.followed != s.log.MinOffset() { // a crash, or an error, left this
		err = s.follow(&removal)
	}
	removal.LogStart = s.log.MinOffset()
	if err != nil {
		s.cfg.Logger.Warn("files not removed; will try again", "dir", s.dir, "err", err)
	}
	return removal, err
}

// situation is that of this moment. The dispatcher's position is taken first:
// what comes behind it is not looked at.
func (s *DefaultMessageStore) situation(c cleaning) situation {
	dispatched := s.dispatcher.Position()
	seen := s.disk.look()
	r := s.cfg.Retention
	sit := situation{
		files: s.log.FileList(), bound: s.log.FileStart(dispatched), manual: c.before,
		anyHour: c.anyHour || seen.excess(r.DiskMaxUsedSpaceRatio) > 0,
		excess:  seen.excess(r.DiskCleanForciblyRatio), stored: s.lastStored,
	}
	consumed := s.consumed.Load()
	if r.Groups != IgnoreGroups {
		sit.consumed = s.consumedTo(dispatched)
		sit.bound = min(sit.bound, sit.consumed)
	} else if consumed != nil {
		sit.bound = min(sit.bound, s.deliveredTo(*consumed, message.ScheduleTopic, dispatched))
	}
	sit.untimed = sit.bound
	if consumed != nil {
		sit.bound = min(sit.bound, s.deliveredTo(*consumed, message.TimerTopic, dispatched))
	}
	if r.MaxAge > 0 {
		sit.now = s.cfg.Now()
	}
	if time.Since(s.forced) < cleanInterval {
		sit.excess = 0
	}
	if c.drop != nil && c.drop == s.room.changed() {
		sit.drop = 1
	}
	return sit
}

// consumedTo is the log offset before which everything was consumed by those
// groups that count; dispatched at most. Timed messages are not among it: see
// situation.
func (s *DefaultMessageStore) consumedTo(dispatched message.LogOffset) message.LogOffset {
	consumed := s.consumed.Load()
	if consumed == nil {
		return 0
	}
	queues, err := s.queues.LoadAll()
	if err != nil {
		return 0 // nobody knows what it holds
	}
	to := dispatched
	for _, q := range queues {
		if q.Topic == message.TimerTopic {
			continue
		}
		next, registered := (*consumed)(q.Topic, q.ID)
		if !registered && s.cfg.Retention.Groups == KeepUnconsumed {
			continue
		}
		if !registered {
			next = 0
		}
		to = min(to, firstFrom(q, next, dispatched))
	}
	return to
}

// deliveredTo is the log offset before which every message that waited in the topic
// was delivered; none if all were.
func (s *DefaultMessageStore) deliveredTo(consumed Consumed, topic string, none message.LogOffset) message.LogOffset {
	to := none
	for _, q := range s.queues.All() {
		if q.Topic != topic {
			continue
		}
		if _, err := consumequeue.Find(s.queues, q.Topic, q.ID); err != nil { // it opens the queue
			return 0 // nobody knows what it holds
		}
		if next, ok := consumed(q.Topic, q.ID); ok {
			to = min(to, firstFrom(q, next, none))
		}
	}
	return to
}

// firstFrom is the log offset of the queue's first message at or after off; none
// if there is no such message, 0 if it is not known.
func firstFrom(q *consumequeue.Queue, off message.QueueOffset, none message.LogOffset) message.LogOffset {
	for off = max(off, q.Min()); off < q.Max(); off++ {
		u, ok := q.At(off)
		switch {
		case !ok:
			return 0
		case !u.IsBlank() && u.Size > 0:
			return u.LogOffset
		}
	}
	return none
}

// lastStored is when the last message of a file that is written to no more was
// stored, false if that can not be told. The queues know which one it is. In a
// file of which no queue knows a message, it is before the first message of the
// next file.
func (s *DefaultMessageStore) lastStored(f commitlog.FileInfo) (time.Time, bool) {
	if t, ok := s.storedLast[f.Base]; ok {
		return t, true
	}
	first, ok := s.storedAt(f.Base)
	if ok && first.Add(s.cfg.Retention.MaxAge).After(s.cfg.Now()) {
		return first, true // too young, and the last one is no older
	}
	last := message.LogOffset(-1)
	queues, err := s.queues.LoadAll()
	for _, q := range queues {
		if u, ok := q.LastBefore(f.End); ok {
			last = max(last, u.LogOffset)
		}
	}
	t, ok := s.storedAt(last)
	if last < f.Base || !ok || err != nil {
		t, ok = s.storedAt(f.End)
	}
	if ok {
		s.storedLast[f.Base] = t
	}
	return t, ok
}

// storedAt is the store timestamp of the record at off, false if there is none
// that can be read.
func (s *DefaultMessageStore) storedAt(off message.LogOffset) (t time.Time, ok bool) {
	f := s.log.Acquire(off)
	if f == nil {
		return time.Time{}, false
	}
	defer f.Unpin()
	err := s.log.View(f, off, func(v message.View) { t = time.UnixMilli(v.StoreTimestamp()) })
	return t, err == nil
}

// remove removes files of the log that have one reason, the oldest ones, and
// what points at them.
func (s *DefaultMessageStore) remove(files []doomed, removal *Removal) error {
	to, reason := files[len(files)-1].file.End, files[0].reason
	if to > s.log.FileStart(s.log.Durable()) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if _, err := s.queues.LoadAll(); err != nil { // what they lose is counted
		return err
	}
	before, messages := len(removal.Files), removal.Messages
	paths, err := s.log.RemoveBefore(to)
	for _, d := range files[:len(paths)] {
		removal.Files = append(removal.Files, RemovedFile{d.file.Path, d.file.Base, d.file.End, reason})
		removal.Bytes += d.file.Size()
		delete(s.storedLast, d.file.Base)
	}
	if len(paths) > 0 {
		err = errors.Join(err, s.follow(removal))
		s.removed(removal.Files[before:], removal.Messages-messages)
	}
	return err
}

// follow makes what is derived from the log begin where the log does. The
// recovery point may name something that is gone, so another one is due.
func (s *DefaultMessageStore) follow(removal *Removal) error {
	start := s.log.MinOffset()
	first, bytes := s.sumOfMins(), s.derivedBytes()
	var errs []error
	for _, f := range s.followers {
		paths, err := f.RemoveBefore(start)
		removal.Derived = append(removal.Derived, paths...)
		errs = append(errs, err)
	}
	removal.Messages += s.sumOfMins() - first
	removal.Bytes += max(0, bytes-s.derivedBytes())
	if len(removal.Files)+len(removal.Derived) > 0 {
		s.pointDue = true
		kick(s.queuesKick)
	}
	err := errors.Join(errs...)
	if err == nil {
		s.followed = start
	}
	return err
}

func (s *DefaultMessageStore) sumOfMins() (sum int64) {
	for _, q := range s.queues.All() {
		sum += int64(q.Min()) // all are loaded, but for those whose files can not be read
	}
	return sum
}

func (s *DefaultMessageStore) derivedBytes() (sum int64) {
	for _, f := range s.followers {
		sum += f.Bytes()
	}
	return sum
}

// removed counts and tells.
func (s *DefaultMessageStore) removed(files []RemovedFile, messages int64) {
	reason := files[0].Reason
	from, to := files[0].From, files[len(files)-1].To
	s.stats.segmentsRemoved[reason].Add(int64(len(files)))
	s.stats.bytesRemoved[reason].Add(int64(to - from))
	s.stats.messagesRemoved[reason].Add(messages)
	if reason == ReasonDisk {
		s.forced = time.Now()
	}
	level, text := slog.LevelInfo, "oldest messages removed"
	if reason == ReasonFull {
		level, text = slog.LevelWarn, "oldest messages dropped: the store is full"
	}
	s.cfg.Logger.Log(context.Background(), level, text, "dir", s.dir, "reason", reason.String(),
		"files", len(files), "messages", messages, "bytes", int64(to-from), "start", to)
	s.room.announce()
	s.observe()
}
