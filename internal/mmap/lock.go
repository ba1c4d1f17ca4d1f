package mmap

import "errors"

// ErrLocked is matched by the error of LockFile when somebody else holds the lock.
var ErrLocked = errors.New("file is locked by another owner")
