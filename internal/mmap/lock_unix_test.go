//go:build unix

package mmap

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// javaLock does what FileChannel.tryLock(0, 1, false) of the Java runtime does: a POSIX record lock.
func javaLock(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	return err
}

func TestJavaAndWeExcludeEachOther(t *testing.T) {
	f := newFile(t, 4)
	release := holdInChild(t, "java", f.Name())
	require.ErrorIs(t, LockFile(f), ErrLocked)
	release()
	require.NoError(t, LockFile(f))
	require.Equal(t, childRefused, inChild(t, "java", f.Name()))
}

func TestRecordLockWithTable(t *testing.T) {
	f := newFile(t, 4)
	require.NoError(t, recordLock(f))
	require.Equal(t, childRefused, inChild(t, "java", f.Name()))
	require.ErrorIs(t, recordLock(reopen(t, f)), ErrLocked, "the table")
	require.NoError(t, f.Close())
	require.NoError(t, recordLock(reopen(t, f)))
}
