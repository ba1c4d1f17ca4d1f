package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// validConfig is what a broker would want of its file: a whole object.
func validConfig(b []byte) error {
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return errors.New("is not an object")
	}
	return nil
}

// TestReadConfigMatrix: of the file and its backup the newest that is whole; an
// error when there are files and none is; "not there" when there is none.
func TestReadConfigMatrix(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	dir := filepath.Join(s.Dir(), configDir)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	states := map[string]string{"good": `{"x":1}`, "empty": "", "half": `{"x"`, "missing": "-"}
	for main, mainText := range states {
		for bak, bakText := range states {
			t.Run(main+" "+bak, func(t *testing.T) {
				write := func(name, text string) {
					path := filepath.Join(dir, name)
					_ = os.Remove(path)
					if text != "-" {
						require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
					}
				}
				if mainText == states["good"] {
					mainText = `{"main":1}`
				}
				write("topics.json", mainText)
				write("topics.json.bak", bakText)
				before := contents(t, dir)
				b, err := s.ReadConfig("topics.json", validConfig)
				switch {
				case main == "good":
					require.NoError(t, err)
					require.Equal(t, `{"main":1}`, string(b))
				case bak == "good":
					require.NoError(t, err)
					require.Equal(t, states["good"], string(b))
				case main == "missing" && bak == "missing":
					require.ErrorIs(t, err, fs.ErrNotExist)
					require.NotErrorIs(t, err, message.ErrCorrupt)
				default:
					require.ErrorIs(t, err, message.ErrCorrupt)
					require.NotErrorIs(t, err, fs.ErrNotExist)
					require.ErrorContains(t, err, "topics.json")
				}
				requireSameFiles(t, before, contents(t, dir))
			})
		}
	}
	_, err := s.ReadConfig("none.json", validConfig)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestWriteConfigKeepsTheVersionBefore, and the store keeps both over a reopen.
func TestWriteConfigKeepsTheVersionBefore(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	for _, text := range []string{"{1}", "{2}", "{3}"} {
		require.NoError(t, s.WriteConfig("topics.json", []byte(text)))
	}
	closeStore(t, s)
	s = openStore(t, s.Dir(), smallConfig(FlushSync))
	b, err := s.ReadConfig("topics.json", validConfig)
	require.NoError(t, err)
	require.Equal(t, "{3}", string(b))
	b, err = os.ReadFile(filepath.Join(s.Dir(), configDir, "topics.json.bak"))
	require.NoError(t, err)
	require.Equal(t, "{2}", string(b))
	entries, err := os.ReadDir(filepath.Join(s.Dir(), configDir))
	require.NoError(t, err)
	require.Len(t, entries, 2, "no temporary file is left")
}

// TestWriteConfigSurvivesPowerLoss: at every moment one of the two is whole and
// not older than the last version that was confirmed.
func TestWriteConfigSurvivesPowerLoss(t *testing.T) {
	fs, dir := newCrashFS(t)
	s := openStore(t, dir, withFS(smallConfig(FlushSync), fs))
	defer func() { closeStore(t, s) }()
	version := func(n byte) []byte { return append(bytes.Repeat([]byte{'{'}, 5000), n, '}') }
	confirmed := byte(0)
	root := scratch(t)
	images := 0
	fs.Hook(func(c crashfs.Call) error {
		if !strings.HasPrefix(c.Path, "store/config") {
			return nil // the store prepares its first file meanwhile
		}
		shot, err := fs.Snapshot()
		if err != nil {
			return err
		}
		for seed := range uint64(4) {
			image := filepath.Join(root, "image")
			_, err := shot.Image(seed, image)
			if err != nil {
				return err
			}
			files := &DefaultMessageStore{cfg: Config{}.withDefaults(), dir: filepath.Join(image, "store")}
			b, err := files.ReadConfig("topics.json", validConfig)
			if err == nil && b[len(b)-2] < confirmed || err != nil && confirmed > 0 {
				t.Errorf("before %v, seed %d: version %d was confirmed: %v", c, seed, confirmed, err)
			}
			images++
			if err := os.RemoveAll(image); err != nil {
				return err
			}
		}
		return nil
	})
	for n := byte(1); n < 4; n++ {
		require.NoError(t, s.WriteConfig("topics.json", version(n)))
		confirmed = n
	}
	fs.Hook(nil)
	require.Greater(t, images, 100)
}

// TestWriteConfigThatFailsChangesNothing: at every operation that fails, the old
// version or the new one is read.
func TestWriteConfigThatFailsChangesNothing(t *testing.T) {
	fs, dir := newCrashFS(t)
	s := openStore(t, dir, withFS(smallConfig(FlushSync), fs))
	require.NoError(t, s.WriteConfig("topics.json", []byte("{old}")))
	for n := 1; ; n++ {
		fault := fs.FailOn(crashfs.AnyOp, "store/config*", n, errInjected)
		inside := fs.FailOn(crashfs.AnyOp, "store/config/*", n, errInjected)
		err := s.WriteConfig("topics.json", []byte("{new}"))
		fired := fault.Fired() + inside.Fired()
		fault.Stop()
		inside.Stop()
		if fired == 0 {
			require.NoError(t, err)
			require.Greater(t, n, 5)
			return
		}
		if err != nil {
			require.ErrorIs(t, err, errInjected)
		}
		b, err := s.ReadConfig("topics.json", validConfig)
		require.NoError(t, err)
		require.Contains(t, []string{"{old}", "{new}"}, string(b))
	}
}
