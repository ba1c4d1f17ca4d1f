package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// What Open may answer, beside the sentinels of package message.
var (
	// ErrNotDirectory: the path is something else than a directory.
	ErrNotDirectory = errors.New("not a directory")
	// ErrReadOnly: the directory can not be written.
	ErrReadOnly = errors.New("directory is not writable")
	// ErrNetworkFilesystem: see Config.AllowNetworkFilesystem.
	ErrNetworkFilesystem = errors.New("directory is on a network file system")
	// ErrForeignFile: a queue or log directory has an entry that does not
	// belong there. Nothing was changed.
	ErrForeignFile = segment.ErrForeignFile
	// ErrFileSize: a file has another size than configured, or than the others.
	ErrFileSize = segment.ErrFileSize
	// ErrGap: a file is missing between others.
	ErrGap = segment.ErrGap
	// ErrFormat: what is in pocketmq/ was written by a later version.
	ErrFormat = errors.New("unknown format version")
	// ErrMoved: while the store was open somebody replaced or removed a file of
	// its log. The store refuses writes from then on.
	ErrMoved = segment.ErrMoved
)

// typed adds the sentinel of package message to an error of a lower package.
func typed(err error) error {
	if err == nil {
		return nil
	}
	for _, m := range []struct{ low, high error }{
		{segment.ErrNoSpace, message.ErrDiskFull},
		{segment.ErrFault, message.ErrCorrupt},
		{segment.ErrClosed, message.ErrClosed},
		{segment.ErrLocked, message.ErrLocked},
	} {
		if errors.Is(err, m.low) && !errors.Is(err, m.high) {
			return fmt.Errorf("%w: %w", m.high, err)
		}
	}
	return err
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// checkFilesystem refuses what locks and mapped files can not be trusted on. A
// directory that does not exist yet will be on the file system of its parent.
func (c Config) checkFilesystem(dir string) error {
	for filepath.Dir(dir) != dir {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	info, err := c.filesystem(dir)
	if err == nil && info.Network && !c.AllowNetworkFilesystem {
		return fmt.Errorf("%s: %w (%s); see Config.AllowNetworkFilesystem", dir, ErrNetworkFilesystem, info.Name)
	}
	return nil // what can not be told is not refused
}

// advice says what to do about a directory that can not be opened.
func advice(err error, dir string) string {
	if errors.Is(err, indexfile.ErrUnknownGeometry) {
		return fmt.Sprintf(" (nothing was changed; set Config.IndexSlots and Config.IndexEntries, or remove %s to have it built again)", filepath.Join(dir, "index"))
	}
	for _, target := range []error{message.ErrCorrupt, ErrFileSize, ErrGap, segment.ErrFault} {
		if errors.Is(err, target) {
			return fmt.Sprintf(" (nothing was changed; look with \"pocketmq verify %s\", salvage with \"pocketmq repair\")", dir)
		}
	}
	return ""
}
