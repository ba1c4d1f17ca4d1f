package store

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/pocketmq/pocketmq/internal/segment"
)

// Checkpoint layout, big-endian, 4096 bytes of which the rest is zero:
//
//	offset size field              meaning
//	     0    8 physicMsgTimestamp store time (ms) up to which the log is on disk
//	     8    8 logicsMsgTimestamp store time (ms) up to which consume queues are
//	    16    8 indexMsgTimestamp  end of the last index file that is full
//
// Source: RocketMQ store/StoreCheckpoint.java.
const (
	checkpointFile   = "checkpoint"
	checkpointSize   = 4096
	checkpointPhysic = 0
	checkpointLogics = checkpointPhysic + 8
	checkpointIndex  = checkpointLogics + 8

	// checkpointMargin is subtracted when the file is read: RocketMQ takes its
	// times a little early.
	checkpointMargin = 3000
)

// checkpoint is what RocketMQ recovers by. The last value is kept as it is
// found.
type checkpoint struct{ physic, logics, index int64 }

// minTimestamp is the store time up to which log and queues are on disk.
func (c checkpoint) minTimestamp() int64 {
	return max(0, min(c.physic, c.logics)-checkpointMargin)
}

// loadCheckpoint reads the file; one that is missing or too short counts as all
// zero, which costs recovery time and nothing else.
func loadCheckpoint(fsys segment.FS, dir string) (checkpoint, error) {
	b, err := segment.ReadFile(fsys, filepath.Join(dir, checkpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint{}, nil
	}
	if err != nil || len(b) < checkpointIndex+8 {
		return checkpoint{}, err
	}
	be := binary.BigEndian
	return checkpoint{
		physic: int64(be.Uint64(b[checkpointPhysic:])),
		logics: int64(be.Uint64(b[checkpointLogics:])),
		index:  int64(be.Uint64(b[checkpointIndex:])),
	}, nil
}

// save replaces the file; it is durable on return. The caller has synced what
// the values vouch for.
func (c checkpoint) save(fsys segment.FS, dir string, mode fs.FileMode) error {
	b := make([]byte, checkpointSize)
	be := binary.BigEndian
	be.PutUint64(b[checkpointPhysic:], uint64(c.physic))
	be.PutUint64(b[checkpointLogics:], uint64(c.logics))
	be.PutUint64(b[checkpointIndex:], uint64(c.index))
	return segment.WriteFileAtomic(fsys, filepath.Join(dir, checkpointFile), b, mode, false)
}
