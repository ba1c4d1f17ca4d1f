package commitlog

import (
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// FileInfo describes one file of the log.
type FileInfo struct {
	Path string
	Base message.LogOffset // where it begins
	End  message.LogOffset // where the next one begins
}

// Size is the file's length in bytes.
func (f FileInfo) Size() int64 { return int64(f.End - f.Base) }

// FileList describes the files of this moment, oldest first. The newest may be
// one that nothing was written to yet.
func (l *Log) FileList() []FileInfo {
	files := l.files.Snapshot()
	infos := make([]FileInfo, len(files))
	for i, f := range files {
		infos[i] = FileInfo{f.Path(), message.LogOffset(f.Base()), message.LogOffset(f.End())}
	}
	return infos
}

// Active is the start of the file that the next append goes to.
func (l *Log) Active() message.LogOffset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.FileStart(message.LogOffset(l.end))
}

// FileStart is the log offset at which the file of off begins.
func (l *Log) FileStart(off message.LogOffset) message.LogOffset {
	return off - off%message.LogOffset(l.size)
}

// RemoveBefore removes the files that end at or before off, oldest first, and
// returns their paths: each loses its name, then the directory is synced. A file
// that may still have to be synced stays, and so does the last one. Readers that
// pinned a file keep its memory; from then on Acquire does not find it, and
// MinOffset is behind it. After an error the files named are removed and the
// others are as before.
//
// Source: RocketMQ store/MappedFileQueue.java, deleteExpiredFileByTime.
func (l *Log) RemoveBefore(off message.LogOffset) ([]string, error) {
	removed, err := l.files.RemoveBefore(int64(min(off, l.FileStart(l.Durable()))))
	if err != nil {
		return removed, fmt.Errorf("commit log: %w", err)
	}
	return removed, nil
}
