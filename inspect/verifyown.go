package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/message"
)

// verifyOwn looks at each file in pocketmq/, and compares what they say together
// with log and queues.
func (v *verifier) verifyOwn() error {
	if err := v.verifyEach(ownDir, OwnFileWrong, checkOwn); err != nil {
		return err
	}
	if p := v.own.primary; p != nil && p.Format > formatVersion {
		v.report(Error, FormatNewer, v.ownPath(primaryFile), 0, "format version %d, this program reads up to %d", p.Format, formatVersion)
		return nil
	}
	if v.own.point == nil {
		return nil
	}
	found, err := v.comparePoint()
	if err != nil || len(found) == 0 {
		return err
	}
	if v.used() { // it may be another one by now
		again, err := readOwn(v.dir)
		if err != nil || !reflect.DeepEqual(again, v.own) {
			return err
		}
	}
	for _, f := range found {
		v.pass(f)
	}
	return nil
}

func (v *verifier) ownPath(name string) string { return filepath.Join(v.dir, ownDir, name) }

// checkOwn looks at one file in pocketmq/ by itself.
func checkOwn(path string, b []byte) error {
	if filepath.Base(path) == timersFile {
		_, err := parseTimers(b)
		return err
	}
	if filepath.Ext(path) != ".json" {
		return nil
	}
	text, err := ownText(b)
	if err != nil {
		return err
	}
	switch filepath.Base(path) {
	case primaryFile:
		var p primary
		if err := json.Unmarshal(text, &p); err != nil {
			return fmt.Errorf("does not parse: %w", err)
		}
		return p.check()
	case recoveryFile:
		if err := json.Unmarshal(text, new(point)); err != nil {
			return fmt.Errorf("does not parse: %w", err)
		}
	}
	return nil
}

// comparePoint compares the recovery point with everything else.
func (v *verifier) comparePoint() ([]Finding, error) {
	p, path := v.own.point, v.ownPath(recoveryFile)
	if g := v.own.primary; g != nil && g.Generation != p.Generation {
		return []Finding{newFinding(Note, OwnFileWrong, path, 0, "is of generation %d, the store of %d: it is of no use, and the next open reads the whole log",
			p.Generation, g.Generation)}, nil
	}
	var found []Finding
	if size := v.logFileSize(); p.SegmentSize > 0 && size > 0 && size != p.SegmentSize {
		found = append(found, newFinding(Error, FileSize, v.log.files[0].Path, 0, "has %d bytes, files of the log had %d", size, p.SegmentSize))
	}
	switch why, err := v.compareLast(p); {
	case err != nil:
		return nil, err
	case why != "" && v.lacks(p):
		found = append(found, newFinding(Note, OwnFileWrong, path, 0, "%s", why))
	case why != "":
		f := newFinding(Error, OwnFileWrong, path, 0, "%s", why)
		f.Run = runRepair // the log may have lost messages
		found = append(found, f)
	}
	if v.own.wrong != "" {
		return append(found, newFinding(Error, OwnFileWrong, path, 0, "%s", v.own.wrong)), nil
	}
	return append(found, v.compareLedger()...), nil
}

// logFileSize is that of the first file of the log, 0 for none.
func (v *verifier) logFileSize() int64 {
	if len(v.log.files) == 0 {
		return 0
	}
	return v.log.files[0].Size
}

// lacks reports whether the log begins behind the point's last record: files were
// removed, and not by the owner of the point.
func (v *verifier) lacks(p *point) bool {
	return p.Last.LogOffset < max(int64(v.sum.LogStart), v.log.retired)
}

// compareLast wants the record in front of the point to be the one that the point
// knows, and says why it is not. That it can not be read was reported with the log.
func (v *verifier) compareLast(p *point) (why string, err error) {
	last := p.Last
	end := last.LogOffset + last.Size
	switch {
	case last.Size == 0: // the log was empty
		return "", nil
	case v.lacks(p):
		return fmt.Sprintf("names the record at log offset %d, which is not in the log any more", last.LogOffset), nil
	case p.LogOffset > v.walk.pos:
		return fmt.Sprintf("vouches for the log up to %d, it ends at %d", p.LogOffset, v.walk.pos), nil
	case p.LogOffset < end:
		return fmt.Sprintf("vouches for the log up to %d, but its last record ends at %d", p.LogOffset, end), nil
	}
	if _, there := v.log.find(last.LogOffset); !there {
		return "", nil // a missing file
	}
	v.log.forget()
	r, kind, err := v.log.at(last.LogOffset)
	if errors.Is(err, message.ErrCorrupt) || errors.Is(err, errRetired) {
		err = nil
	}
	switch {
	case err != nil || kind == message.KindDamaged:
		return "", err
	case kind != message.KindRecord:
		return fmt.Sprintf("names a record at log offset %d, where there is none", last.LogOffset), nil
	}
	hash := xxhash.Sum64(r.Raw())
	same := int64(r.Size()) == last.Size && r.StoreTimestamp() == last.StoreTimestamp && hash == last.Hash
	if !same && r.Check() == nil {
		why = fmt.Sprintf("names a record of %d bytes at log offset %d with checksum %016x, stored at %d ms; there is one of %d bytes with %016x, stored at %d",
			last.Size, last.LogOffset, last.Hash, last.StoreTimestamp, r.Size(), hash, r.StoreTimestamp())
	}
	return why, nil
}

// compareLedger wants each queue to have the messages that the ledger says it has.
// Those that the log has, and the queue does not, were reported.
func (v *verifier) compareLedger() []Finding {
	type place struct {
		ledgerEntry

		at int
	}
	path := v.ownPath(v.own.point.Queues.File)
	var found []Finding
	var order []queueKey
	last := make(map[queueKey]place) // only the last entry of a queue counts
	for at := 0; at < len(v.own.ledger); {
		e, ok := parseLedgerEntry(v.own.ledger[at:])
		if !ok {
			found = append(found, newFinding(Error, OwnFileWrong, path, int64(at), "the last %d bytes are no entry", len(v.own.ledger)-at))
			break
		}
		if _, known := last[e.queueKey]; !known {
			order = append(order, e.queueKey)
		}
		last[e.queueKey] = place{e, at}
		at += e.size
	}
	for _, key := range order {
		e, n := last[key], v.numbers[key]
		switch {
		case n != nil && n.reported:
		case n == nil || n.queue == nil || len(n.queue.units.files) == 0:
			found = append(found, newFinding(Error, OwnFileWrong, path, int64(e.at), "names queue %q/%d with messages [%d, %d), which has no file",
				key.topic, key.id, e.first, e.max))
		case n.queue.max < e.max:
			found = append(found, newFinding(Error, OwnFileWrong, path, int64(e.at), "names queue %q/%d with messages [%d, %d), its files end at %d",
				key.topic, key.id, e.first, e.max, n.queue.max))
		}
	}
	return found
}
