package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// filled makes a closed store with three log files and several queue files.
func filled(t *testing.T) string {
	t.Helper()
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "t", 0, 400)
	closeStore(t, s)
	return dir
}

// TestBadDirectories: Open says what is wrong, changes nothing, holds nothing,
// and works when it is put right.
func TestBadDirectories(t *testing.T) {
	log0, log1, log2 := segment.FileName(0), segment.FileName(testSegment), segment.FileName(2*testSegment)
	queue := filepath.Join("consumequeue", "t", "0")
	write := func(path string, n int) error { return os.WriteFile(path, make([]byte, n), 0o600) }
	for name, c := range map[string]struct {
		spoil func(dir string) error
		want  error
		names string // what the error has to tell
	}{
		"foreign file in the log": {func(d string) error { return write(filepath.Join(d, "commitlog", "x.broken"), 5) },
			ErrForeignFile, "x.broken"},
		"old copy in the log": {func(d string) error { return write(filepath.Join(d, "commitlog", log0+".bak"), 5) },
			ErrForeignFile, log0 + ".bak"},
		"directory in the log": {func(d string) error { return os.Mkdir(filepath.Join(d, "commitlog", log2+"0"), 0o700) }, ErrForeignFile, log2 + "0"},
		"named like a file": {func(d string) error {
			return os.Mkdir(filepath.Join(d, "commitlog", segment.FileName(3*testSegment)), 0o700)
		}, ErrForeignFile, segment.FileName(3 * testSegment)},
		"foreign file in a queue": {func(d string) error { return write(filepath.Join(d, queue, "note.txt"), 5) }, ErrForeignFile, "note.txt"},
		"link in the log": {func(d string) error {
			path := filepath.Join(d, "commitlog", log1)
			return errors.Join(os.Rename(path, path+"x"), os.Rename(path+"x", filepath.Join(d, "elsewhere")),
				os.Symlink(filepath.Join(d, "elsewhere"), path))
		}, ErrForeignFile, log1},
		"link to the log": {func(d string) error {
			return errors.Join(os.Rename(filepath.Join(d, "commitlog"), filepath.Join(d, "elsewhere")),
				os.Symlink("elsewhere", filepath.Join(d, "commitlog")))
		}, ErrForeignFile, "commitlog"},
		"link to a queue": {func(d string) error {
			return errors.Join(os.Rename(filepath.Join(d, queue), filepath.Join(d, "elsewhere")),
				os.Symlink(filepath.Join(d, "elsewhere"), filepath.Join(d, queue)))
		}, ErrForeignFile, "symbolic link"},
		"file of the log too short":  {func(d string) error { return os.Truncate(filepath.Join(d, "commitlog", log1), testSegment-1) }, ErrFileSize, log1},
		"file of the log too long":   {func(d string) error { return os.Truncate(filepath.Join(d, "commitlog", log1), testSegment+1) }, ErrFileSize, log1},
		"last file half":             {func(d string) error { return os.Truncate(filepath.Join(d, "commitlog", log2), testSegment/2) }, ErrFileSize, log2},
		"file missing in the middle": {func(d string) error { return os.Remove(filepath.Join(d, "commitlog", log1)) }, ErrGap, log2},
		"first file empty, last good": {func(d string) error { return os.Truncate(filepath.Join(d, "commitlog", log0), 0) },
			ErrFileSize, log0},
		"file that starts between": {func(d string) error {
			return os.Rename(filepath.Join(d, "commitlog", log2), filepath.Join(d, "commitlog", segment.FileName(2*testSegment+20)))
		}, ErrGap, segment.FileName(2*testSegment + 20)},
		"lock is a directory": {func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, lockFile)), os.Mkdir(filepath.Join(d, lockFile), 0o700))
		}, nil, lockFile},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			require.NoError(t, c.spoil(dir))
			before := mmap.Live()
			was := contents(t, dir)
			s, err := Open(t.Context(), dir, smallConfig(FlushSync))
			require.Error(t, err)
			require.Nil(t, s)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			require.ErrorContains(t, err, c.names)
			requireSameFiles(t, was, contents(t, dir))
			require.Equal(t, before, mmap.Live())
			_, again := Open(t.Context(), dir, smallConfig(FlushSync))
			require.Error(t, again)
			require.NotErrorIs(t, again, message.ErrLocked)
			require.Equal(t, err.Error(), again.Error())
		})
	}
}

// TestSpoiledQueueFilesAreMadeAgain: files of a consume queue that are missing,
// empty, or end in nonsense are made again from the log.
func TestSpoiledQueueFilesAreMadeAgain(t *testing.T) {
	at := func(d string, n int64) string {
		return filepath.Join(d, "consumequeue", "t", "0", segment.FileName(n*testQueueFile))
	}
	for name, spoil := range map[string]func(dir string) error{
		"middle empty":   func(d string) error { return os.Truncate(at(d, 9), 0) },
		"last empty":     func(d string) error { return os.Truncate(at(d, 19), 0) },
		"middle missing": func(d string) error { return os.Remove(at(d, 9)) },
		"first missing":  func(d string) error { return os.Remove(at(d, 0)) },
		"last missing":   func(d string) error { return os.Remove(at(d, 19)) },
		"all empty":      func(d string) error { return emptyAll(filepath.Dir(at(d, 0))) },
		"last all zero":  func(d string) error { return os.WriteFile(at(d, 19), make([]byte, testQueueFile), 0o600) },
		"last all random": func(d string) error {
			return os.WriteFile(at(d, 19), []byte(strings.Repeat("0123456789", testQueueFile/10)), 0o600)
		},
	} {
		for _, state := range []string{"clean", "clean without point", "crash", "crash without point"} {
			t.Run(name+" "+state, func(t *testing.T) {
				dir := filled(t)
				require.FileExists(t, at(dir, 19))
				require.NoError(t, spoil(dir))
				if strings.HasPrefix(state, "crash") {
					require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))
				}
				if strings.HasSuffix(state, "without point") {
					require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
				}
				s := openStore(t, dir, smallConfig(FlushSync))
				require.Empty(t, firstDifference(sequence(400), bodies(t, s, "t", 0)))
				putN(t, s, "t", 400, 5)
				closeStore(t, s)
				s = openStore(t, dir, smallConfig(FlushSync))
				require.Empty(t, firstDifference(sequence(405), bodies(t, s, "t", 0)))
				require.True(t, s.Recovery().FromPoint)
			})
		}
	}
}

// firstDifference is short where require.Equal is long.
func firstDifference(want, got []string) string {
	for i := range max(len(want), len(got)) {
		if i >= len(got) || i >= len(want) || want[i] != got[i] {
			return fmt.Sprintf("%d messages instead of %d, the first that differs is number %d", len(got), len(want), i)
		}
	}
	return ""
}

// TestQueueFileOfAnotherSizeIsMadeAgain, with its queue, and both what is
// configured and the other files say which size that is.
func TestQueueFileOfAnotherSizeIsMadeAgain(t *testing.T) {
	for _, configured := range []int64{testQueueFile, 0} {
		for _, file := range []int64{0, 1, 19} {
			for _, n := range []int64{testQueueFile / 2, testQueueFile - 1, 2 * testQueueFile} {
				dir := filled(t)
				queue := filepath.Join(dir, "consumequeue", "t", "0")
				require.NoError(t, os.Truncate(filepath.Join(queue, segment.FileName(file*testQueueFile)), n))
				cfg := smallConfig(FlushSync)
				cfg.ConsumeQueueFileSize = configured
				s := openStore(t, dir, cfg)
				require.Equal(t, []string{queue}, s.Recovery().QueuesReset)
				require.Empty(t, firstDifference(sequence(400), bodies(t, s, "t", 0)))
				require.EqualValues(t, 400, put(t, s, "t", 0, "next").QueueOffset)
				closeStore(t, s)
				s = openStore(t, dir, smallConfig(FlushSync))
				require.Empty(t, s.Recovery().QueuesReset)
				require.True(t, s.Recovery().FromPoint)
				closeStore(t, s)
			}
		}
	}
}

// TestQueueFileSizeOfNoFileIsRefused: it is the configuration that is wrong.
func TestQueueFileSizeOfNoFileIsRefused(t *testing.T) {
	dir := filled(t)
	before := contents(t, dir)
	cfg := smallConfig(FlushSync)
	cfg.ConsumeQueueFileSize = 2 * testQueueFile
	_, err := Open(t.Context(), dir, cfg)
	require.ErrorIs(t, err, ErrFileSize)
	require.ErrorContains(t, err, fmt.Sprintf("no file has the configured size: %s", filepath.Join(dir, "consumequeue")))
	require.ErrorContains(t, err, fmt.Sprintf("%d bytes, expected %d", testQueueFile, 2*testQueueFile))
	requireSameFiles(t, before, contents(t, dir))
}

func emptyAll(dir string) error {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		err = errors.Join(err, os.Truncate(filepath.Join(dir, f.Name()), 0))
	}
	return err
}

// TestOpenOnSomethingElse: a file, below a file, a dangling link; a link to a
// directory is a directory.
func TestOpenOnSomethingElse(t *testing.T) {
	dir := scratch(t)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	_, err := Open(t.Context(), file, Config{})
	require.ErrorIs(t, err, ErrNotDirectory)
	require.ErrorContains(t, err, file)
	_, err = Open(t.Context(), filepath.Join(file, "below"), Config{})
	require.Error(t, err)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "x", string(b))

	there := filled(t)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(there, link))
	s := openStore(t, link, smallConfig(FlushSync))
	require.Equal(t, sequence(400), bodies(t, s, "t", 0))
	_, err = Open(t.Context(), there, smallConfig(FlushSync))
	require.ErrorIs(t, err, message.ErrLocked, "the same directory by another name")
	closeStore(t, s)
}

// TestOpenTwice: by this process, with an error that names the holder; and again
// after a failed and after a closed one.
func TestOpenTwice(t *testing.T) {
	dir := filled(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	for range 2 {
		_, err := Open(t.Context(), dir, smallConfig(FlushSync))
		require.ErrorIs(t, err, message.ErrLocked)
		var locked *LockedError
		require.ErrorAs(t, err, &locked)
		require.Equal(t, dir, locked.Dir)
		require.Contains(t, locked.Owner, fmt.Sprint("process ", os.Getpid()))
	}
	putN(t, s, "t", 400, 1)
	closeStore(t, s)
	_, err := Open(t.Context(), dir, Config{SegmentSize: 1})
	require.ErrorIs(t, err, message.ErrLimit)
	_, err = Open(t.Context(), dir, Config{SegmentSize: 2 * testSegment})
	require.ErrorIs(t, err, ErrFileSize)
	s = openStore(t, dir, smallConfig(FlushSync))
	require.True(t, s.Recovery().Clean, "failed opens leave a clean store clean")
	require.Equal(t, sequence(401), bodies(t, s, "t", 0))
}

// TestOpenInAnotherProcess: it is refused there.
func TestOpenInAnotherProcess(t *testing.T) {
	dir := filled(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	out, err := child(t, "open", dir, 0).Output()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(out), "true "), "%s", out)
	require.Contains(t, string(out), fmt.Sprint("process ", os.Getpid()))
	putN(t, s, "t", 400, 1)
	closeStore(t, s)
	out, err = child(t, "open", dir, 0).Output()
	require.NoError(t, err)
	require.Equal(t, "false <nil>\n", string(out))
}

// TestReadOnlyDirectory is refused, whether it is the file system or a right
// that is missing.
func TestReadOnlyDirectory(t *testing.T) {
	for _, cause := range []error{syscall.EROFS, fs.ErrPermission} {
		for _, existing := range []bool{false, true} {
			fs, dir := newCrashFS(t)
			cfg := withFS(smallConfig(FlushSync), fs)
			if existing {
				s := openStore(t, dir, cfg)
				closeStore(t, s)
			} else {
				require.NoError(t, fs.MkdirAll(dir, 0o700))
			}
			faults := []*crashfs.Fault{
				fs.FailFrom(crashfs.OpCreate, "", 1, &os.PathError{Op: "open", Path: dir, Err: cause}),
				fs.FailFrom(crashfs.OpOpen, "store/lock", 2, &os.PathError{Op: "open", Path: dir, Err: cause}),
			}
			if existing {
				fs.FailOn(crashfs.OpOpen, "store/lock", 1, &os.PathError{Op: "open", Path: dir, Err: cause})
			}
			_, err := Open(t.Context(), dir, cfg)
			require.ErrorIs(t, err, ErrReadOnly)
			require.ErrorIs(t, err, cause)
			for _, f := range faults {
				f.Stop()
			}
			closeStore(t, openStore(t, dir, cfg))
		}
	}
}

// TestReadOnlyMount is the same with a real one.
func TestReadOnlyMount(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a read-only bind mount needs Linux")
	}
	dir := filled(t)
	at := scratch(t)
	for _, args := range [][]string{{"--bind", dir, at}, {"-o", "remount,bind,ro", at}} {
		if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
			_ = exec.Command("umount", at).Run()
			t.Skipf("not allowed to mount: %v: %s", err, out)
		}
	}
	defer func() { require.NoError(t, exec.Command("umount", at).Run()) }()
	before := contents(t, dir)
	_, err := Open(t.Context(), at, smallConfig(FlushSync))
	require.ErrorIs(t, err, ErrReadOnly)
	require.ErrorIs(t, err, syscall.EROFS)
	_, err = Open(t.Context(), filepath.Join(at, "new"), smallConfig(FlushSync))
	require.ErrorIs(t, err, ErrReadOnly)
	requireSameFiles(t, before, contents(t, dir))
}

// TestNetworkFilesystem is refused unless allowed, before anything is made.
func TestNetworkFilesystem(t *testing.T) {
	dir := filepath.Join(scratch(t), "a", "b")
	cfg := smallConfig(FlushSync)
	asked := ""
	cfg.filesystem = func(path string) (mmap.FSInfo, error) {
		asked = path
		return mmap.FSInfo{Name: "nfs", Network: true}, nil
	}
	_, err := Open(t.Context(), dir, cfg)
	require.ErrorIs(t, err, ErrNetworkFilesystem)
	require.ErrorContains(t, err, "nfs")
	require.NoDirExists(t, filepath.Dir(dir))
	require.Equal(t, filepath.Dir(filepath.Dir(dir)), asked, "the nearest directory that exists")
	cfg.AllowNetworkFilesystem = true
	closeStore(t, openStore(t, dir, cfg))
	cfg.AllowNetworkFilesystem = false
	_, err = Open(t.Context(), dir, cfg)
	require.ErrorIs(t, err, ErrNetworkFilesystem)
	require.Equal(t, dir, asked)
	cfg.filesystem = func(string) (mmap.FSInfo, error) { return mmap.FSInfo{}, errInjected }
	closeStore(t, openStore(t, dir, cfg)) // what can not be told is not refused
}

// TestBadConfig: every field that is out of range is reported, all of them
// together, before anything is made.
func TestBadConfig(t *testing.T) {
	dir := filepath.Join(scratch(t), "store")
	bad := map[string]Config{
		"Flush":                {Flush: 7},
		"FlushInterval":        {FlushInterval: -time.Second},
		"FlushTimeout":         {FlushTimeout: -1},
		"SegmentSize":          {SegmentSize: -1},
		"ConsumeQueueFileSize": {ConsumeQueueFileSize: -20},
		"MaxBodySize":          {MaxBodySize: -1},
		"MaxDispatchLag":       {MaxDispatchLag: -1},
		"MaxTransferCount":     {MaxTransferCount: -1},
		"MaxTransferBytes":     {MaxTransferBytes: -1},
		"MaxMappedFiles":       {MaxMappedFiles: -1},
		"DelayLevels":          {DelayLevels: "1s 2x"},
	}
	check := func(cfg Config, fields ...string) {
		t.Helper()
		_, err := Open(context.Background(), dir, cfg)
		require.True(t, errors.Is(err, message.ErrLimit) || errors.Is(err, message.ErrIllegal), "%v", err)
		for _, f := range fields {
			require.ErrorContains(t, err, "Config."+f)
		}
		require.NoDirExists(t, dir)
	}
	var fields []string
	for field, cfg := range bad {
		check(cfg, field)
		fields = append(fields, field)
	}
	check(Config{
		Flush: 7, FlushInterval: -1, FlushTimeout: -1, SegmentSize: -1, ConsumeQueueFileSize: -1, MaxBodySize: -1,
		MaxDispatchLag: -1, MaxTransferCount: -1, MaxTransferBytes: -1, MaxMappedFiles: -1, DelayLevels: "x",
	}, fields...)
	check(Config{SegmentSize: 1 << 40}, "SegmentSize")
	check(Config{ConsumeQueueFileSize: 1 << 40}, "ConsumeQueueFileSize")
	check(Config{MaxBodySize: math.MaxInt32}, "MaxBodySize")
	check(Config{SegmentSize: 1000, MaxBodySize: 1000}, "SegmentSize")
	check(Config{SegmentSize: 99}, "SegmentSize")
	if strconv.IntSize == 32 { // a mapping of 1 GiB is too much to ask for
		check(RocketMQConfig(), "SegmentSize")
	} else {
		cfg := RocketMQConfig().withDefaults()
		require.NoError(t, cfg.validate())
	}
	for _, cfg := range []Config{{}, EdgeConfig(), {SegmentSize: 100}, {SegmentSize: 1000, MaxBodySize: 901}} {
		cfg := cfg.withDefaults()
		require.NoError(t, cfg.validate())
	}
	require.Equal(t, "SYNC_FLUSH", Config{}.Flush.String(), "the safe one is the default")
}
