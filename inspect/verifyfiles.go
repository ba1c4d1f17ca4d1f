package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/internal/barekeys"
)

func (v *verifier) path(name string) string { return filepath.Join(v.dir, name) }

// verifyConfig wants the files in config/ to parse, and lock to hold what
// RocketMQ writes.
func (v *verifier) verifyConfig() error {
	if b, err := os.ReadFile(v.path(lockFile)); err == nil && string(b) != lockFile && !v.used() {
		v.report(Note, LockWrong, v.path(lockFile), 0, "holds %q, RocketMQ writes %q", shorten(string(b)), lockFile)
	}
	return v.verifyEach(configDir, ConfigWrong, func(path string, b []byte) error {
		if !isConfig(path) {
			return nil
		}
		return checkConfig(b)
	})
}

// verifyEach gives the files of a directory to check. One that changes meanwhile
// is passed over.
func (v *verifier) verifyEach(dir string, kind FindingKind, check func(path string, b []byte) error) error {
	entries, err := os.ReadDir(v.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(v.dir, dir, e.Name())
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if why := check(path, b); why != nil {
			if again, err := os.ReadFile(path); err == nil && bytes.Equal(again, b) {
				v.report(Error, kind, path, offsetOf(why), "%v", why)
			}
		}
	}
	return nil
}

// CheckFile returns nil for a JSON file of config/ that parses, or of pocketmq/ that
// matches its checksum, parses and makes sense. It knows which by the directory's name.
func CheckFile(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if filepath.Base(filepath.Dir(path)) != ownDir {
		return checkConfig(b)
	}
	return checkOwn(path, b)
}

// isConfig reports whether a file of config/ holds JSON.
func isConfig(path string) bool {
	return strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".json.bak")
}

// placedError is an error at a byte of a file.
type placedError struct {
	at  int64
	why error
}

func (e *placedError) Error() string { return e.why.Error() }
func (e *placedError) Unwrap() error { return e.why }

func offsetOf(err error) int64 {
	var placed *placedError
	if errors.As(err, &placed) {
		return placed.at
	}
	return 0
}

// checkConfig returns nil for a JSON object, whose keys may be bare integers.
func checkConfig(b []byte) error {
	if len(b) == 0 {
		return errors.New("is empty")
	}
	text := barekeys.Quote(b)
	d := json.NewDecoder(bytes.NewReader(text))
	var object map[string]json.RawMessage
	err := d.Decode(&object)
	if err == nil && object == nil {
		err = errors.New("null instead of an object")
	}
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("text behind the end")
		}
	}
	if err == nil {
		return nil
	}
	// Where it is in the text as it was read, with quotation marks, is a little
	// behind where it is in the file.
	at := d.InputOffset()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		at = int64(len(b))
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = syntax.Offset
	}
	return &placedError{min(at, int64(len(b))), fmt.Errorf("does not parse: %w", err)}
}

// ownText returns what follows the checksum of a file in pocketmq/.
func ownText(b []byte) ([]byte, error) {
	sum, text, ok := bytes.Cut(b, []byte("\n"))
	if want := fmt.Sprintf("%016x", xxhash.Sum64(text)); !ok || string(sum) != want {
		return nil, fmt.Errorf("checksum %q, that of the text is %s", shorten(string(sum)), want)
	}
	if !json.Valid(text) {
		return nil, errors.New("does not parse")
	}
	return text, nil
}

// shorten keeps error texts readable.
func shorten(s string) string {
	const keep = 40
	if len(s) <= keep {
		return s
	}
	return s[:keep] + "…"
}
