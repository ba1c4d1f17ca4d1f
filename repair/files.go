package repair

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/inspect"
)

// copyQueues copies the consume queues of which the log has no message: what
// numbers come next is known to them alone. The others are built from the log.
func (r *repair) copyQueues() error {
	for _, q := range r.report.Queues {
		if q.Kept > 0 || q.Dir == "" {
			continue
		}
		to := filepath.Join("consumequeue", q.Topic, strconv.Itoa(int(q.QueueID)))
		if err := r.copyQueue(q.Dir, to); err != nil {
			return err
		}
	}
	return nil
}

func (r *repair) copyQueue(from, to string) error {
	files, err := inspect.Files(from)
	if err != nil {
		return err
	}
	for i, f := range files {
		if f.Size != r.report.QueueFileSize || i > 0 && f.Base != files[i-1].End() {
			r.lost(to, fmt.Errorf("%s has a size or place that the other files do not have", filepath.Base(f.Path)))
			return nil
		}
	}
	for _, f := range files {
		if err := r.copyFile(f.Path, filepath.Join(to, filepath.Base(f.Path))); err != nil {
			return err
		}
	}
	return nil
}

// copyConfig copies the files of config/ that parse.
func (r *repair) copyConfig() error {
	return r.copyEach("config", func(name string) (string, bool) {
		return strings.TrimSuffix(name, ".bak"), strings.HasSuffix(strings.TrimSuffix(name, ".bak"), ".json")
	})
}

// copyOwn copies the files of pocketmq/ that are right, and are not derived from
// the log.
func (r *repair) copyOwn() error {
	return r.copyEach("pocketmq", func(name string) (string, bool) {
		return name, strings.HasSuffix(name, ".json") && name != "recovery.json"
	})
}

// copyEach copies files of a directory. want says for which name a file is, and
// whether it is wanted at all; of several for one name the first sound one, in
// order, is copied.
func (r *repair) copyEach(dir string, want func(name string) (string, bool)) error {
	entries, err := os.ReadDir(filepath.Join(r.dir, dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, e := range entries { // sorted: a .bak comes behind the file that it is of
		name, wanted := want(e.Name())
		if !wanted || !e.Type().IsRegular() || done[name] {
			continue
		}
		from := filepath.Join(r.dir, dir, e.Name())
		if err := inspect.CheckFile(from); err != nil {
			r.lost(filepath.Join(dir, e.Name()), err)
			continue
		}
		done[name] = true
		if err := r.copyFile(from, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (r *repair) lost(path string, err error) {
	r.report.FilesLost = append(r.report.FilesLost, FileLost{path, err})
}

// copyFile copies a file to a path in the output; it is on disk on return.
func (r *repair) copyFile(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	path := filepath.Join(r.tmp, to)
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	dst, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err == nil {
		err = dst.Sync()
	}
	r.report.Files = append(r.report.Files, to)
	return errors.Join(err, dst.Close())
}
