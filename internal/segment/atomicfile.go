package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFileAtomic replaces the file at path by data. When it returns nil the new version is durable; when it returns
// an error path holds the old version or the new one, whole, and no temporary file is left unless removing it failed
// too. A crash at any moment leaves one whole version at path; path.tmp may remain and is overwritten next time.
//
// With keepBackup the version replaced stays as path.bak. It gets there by link, so that path is never missing; on
// filesystems without links by rename, and then there is a moment in which only path.bak exists. Writers of one path
// must exclude each other.
func WriteFileAtomic(fsys FS, path string, data []byte, perm os.FileMode, keepBackup bool) error {
	tmp := path + ".tmp"
	if err := writeSynced(fsys, tmp, data, perm); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := replace(fsys, tmp, path, keepBackup); err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, removeIfThere(fsys, tmp)))
	}
	return nil
}

// writeSynced makes a file with data that are durable; the entry in the directory is not. On an error the file is gone.
func writeSynced(fsys FS, path string, data []byte, perm os.FileMode) error {
	if err := removeIfThere(fsys, path); err != nil {
		return err
	}
	h, err := fsys.Create(path, perm)
	if err != nil {
		return err
	}
	_, err = h.WriteAt(data, 0)
	if err == nil {
		err = h.Sync()
	}
	if err := errors.Join(err, h.Close()); err != nil {
		return errors.Join(err, fsys.Remove(path))
	}
	return nil
}

// replace gives tmp the place of path.
func replace(fsys FS, tmp, path string, keepBackup bool) error {
	aside := false
	var err error
	if keepBackup {
		aside, err = backUp(fsys, path)
	}
	if err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err != nil && aside {
		return errors.Join(err, fsys.Rename(path+".bak", path))
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// backUp makes path.bak the version at path, if there is one. aside tells that nothing is left at path.
func backUp(fsys FS, path string) (aside bool, err error) {
	if _, err := fsys.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	bak, link := path+".bak", path+".bak.tmp"
	if err := removeIfThere(fsys, link); err != nil {
		return false, err
	}
	if err := fsys.Link(path, link); err != nil {
		return moveAside(fsys, path, bak)
	}
	// Renaming one name of a file over another name of it does nothing and leaves both, so the link may survive.
	return false, errors.Join(fsys.Rename(link, bak), removeIfThere(fsys, link))
}

// moveAside is backUp without links. The directory is synced between this rename and the one that brings the new
// version, so that no crash can keep the second and lose the first.
func moveAside(fsys FS, path, bak string) (aside bool, err error) {
	if err := fsys.Rename(path, bak); err != nil {
		return false, err
	}
	return true, fsys.SyncDir(filepath.Dir(path))
}

func removeIfThere(fsys FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadFile returns the bytes of the file at path, which must be a regular file and no link.
func ReadFile(fsys FS, path string) ([]byte, error) {
	h, err := fsys.OpenRead(path)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	data, err := readAll(h)
	if err := errors.Join(err, h.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

func readAll(h Handle) ([]byte, error) {
	size, err := h.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if n, err := h.ReadAt(data, 0); n < len(data) {
		return nil, unexpected(err)
	}
	return data, nil
}

// unexpected is the error for a read that got less than the file holds: the end of the file is no normal end there.
func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
