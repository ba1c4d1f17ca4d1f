package golden

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Archives of a case. Groups name theirs in Group.Store.
const (
	StoreArchive = "store.tar.gz"       // what the case's reads were made on, or what was opened for them
	AfterArchive = "store_after.tar.gz" // reopening cases: the same after it was opened and stopped again
)

const (
	manifestFile = "manifest.json.gz"
	topFolder    = "store/" // in every archive
)

// Case is one recorded store.
type Case struct {
	Manifest

	dir string
}

// Root finds testdata/golden of the module that holds the working directory,
// which for a test is the directory of its package.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		root := filepath.Join(dir, "testdata", "golden")
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			_, err := os.Stat(root)
			return root, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no directory above the working directory holds go.mod")
		}
		dir = parent
	}
}

// Cases lists the names of all cases, sorted.
func Cases() ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	manifests, err := filepath.Glob(filepath.Join(root, "*", manifestFile))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(manifests))
	for i, m := range manifests {
		names[i] = filepath.Base(filepath.Dir(m))
	}
	slices.Sort(names)
	return names, nil
}

// Load reads the manifest of a case.
func Load(name string) (*Case, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	c := &Case{dir: filepath.Join(root, name)}
	z, err := c.inflate(manifestFile)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", name, err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", name, err)
	}
	if err := c.decode(text); err != nil {
		return nil, fmt.Errorf("case %s: %w", name, err)
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if name := "store_" + g.Group + ".tar.gz"; g.Store == "" && c.Has(name) {
			g.Store = name // not every group names it
		}
	}
	return c, nil
}

// decode reads a manifest's text. Strings in it are Java's: sequences of UTF-16
// units. One that is no text would come out of encoding/json as another string,
// so it is refused.
func (m *Manifest) decode(text []byte) error {
	if at := loneSurrogate(text); at >= 0 {
		return fmt.Errorf("a string with half a character at byte %d", at)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(m)
}

// loneSurrogate returns the position of the first \u escape in JSON text that
// is half of a surrogate pair without the other half, or -1.
func loneSurrogate(text []byte) int {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(text[i:])
		switch {
		case !ok:
			i++ // the escaped character, which may be a backslash
		case unit < 0xD800 || unit > 0xDFFF:
			i += len(`uXXXX`)
		default:
			low, ok := escapedUnit(text[i+len(`\uXXXX`):])
			if unit >= 0xDC00 || !ok || low < 0xDC00 || low > 0xDFFF {
				return i
			}
			i += len(`uXXXX\uXXXX`)
		}
	}
	return -1
}

// escapedUnit reads the UTF-16 unit of the escape \uXXXX at the start of b.
func escapedUnit(b []byte) (uint64, bool) {
	if len(b) < len(`\uXXXX`) || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return unit, err == nil
}

// Has reports whether the case has an archive of that name.
func (c *Case) Has(archive string) bool {
	_, err := os.Stat(filepath.Join(c.dir, archive))
	return err == nil
}

// inflate reads a compressed file of the case.
func (c *Case) inflate(name string) (io.Reader, error) {
	packed, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return z, nil
}

// Unpack writes the store directory of an archive into dir, which must be
// there, and gives files and directories the modification times they had.
func (c *Case) Unpack(archive, dir string) error {
	z, err := c.inflate(archive)
	if err != nil {
		return err
	}
	if err := unpack(tar.NewReader(z), dir); err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	return nil
}

func unpack(archive *tar.Reader, dir string) error {
	type stamp struct {
		path string
		time time.Time
	}
	var stamps []stamp // set last: creating a file touches its directory
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(h.Name, topFolder)
		if !ok || name != "" && !filepath.IsLocal(name) {
			return fmt.Errorf("%s is not below %s", h.Name, topFolder)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := unpackEntry(archive, h, path); err != nil {
			return err
		}
		stamps = append(stamps, stamp{path, h.ModTime})
	}
	for _, s := range slices.Backward(stamps) {
		if err := os.Chtimes(s.path, s.time, s.time); err != nil {
			return err
		}
	}
	return nil
}

func unpackEntry(archive *tar.Reader, h *tar.Header, path string) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(path, 0o700)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%s is neither a file nor a directory", h.Name)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	data := make([]byte, h.Size)
	if _, err := io.ReadFull(archive, data); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Files reads every file below dir, by slash-separated path relative to it.
func Files(dir string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(path)
		return err
	})
	return files, err
}
