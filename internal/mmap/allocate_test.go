package mmap

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllocateKeepsDataAndLength(t *testing.T) {
	for name, alloc := range map[string]func(*os.File, int64, int64) error{
		"system": Allocate,
		"zeros":  fillZeros,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t, 1<<20)
			data := bytes.Repeat([]byte{0xAB}, 5000)
			for _, off := range []int64{0, 77_777, 1<<20 - 5000} {
				_, err := f.WriteAt(data, off)
				require.NoError(t, err)
			}
			before, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			require.NoError(t, alloc(f, 3, 1<<20-3))
			after, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			require.True(t, bytes.Equal(before, after))
		})
	}
}

func TestAllocateGrowsAShorterFile(t *testing.T) {
	for name, alloc := range map[string]func(*os.File, int64, int64) error{
		"system": Allocate,
		"zeros":  fillZeros,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t, 10)
			require.NoError(t, alloc(f, 5, 200_000))
			info, err := f.Stat()
			require.NoError(t, err)
			require.Equal(t, int64(200_005), info.Size())
		})
	}
}

func TestAllocateRefusesBadRanges(t *testing.T) {
	f := newFile(t, 10)
	require.Error(t, Allocate(f, -1, 10))
	require.Error(t, Allocate(f, 0, 0))
	require.Error(t, Allocate(f, 0, -5))
}

// tinyDisk mounts a tmpfs of size, as mount(8) writes it, where the test may do that.
func tinyDisk(t *testing.T, size string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("mounting a small tmpfs needs Linux")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", dir).CombinedOutput(); err != nil {
		t.Skipf("not allowed to mount a small tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		out, err := exec.Command("umount", dir).CombinedOutput()
		require.NoError(t, err, string(out))
	})
	return dir
}

func TestAllocateOnAFullDisk(t *testing.T) {
	dir := tinyDisk(t, "1m")
	f, err := os.Create(dir + "/file")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(100))
	for range 2 {
		err = Allocate(f, 0, 4<<20)
		require.ErrorIs(t, err, ErrNoSpace)
		info, err := f.Stat()
		require.NoError(t, err)
		require.Equal(t, int64(100), info.Size(), "what had grown is given back")
	}
	require.NoError(t, Allocate(f, 0, 512<<10), "what fits, fits")

	require.ErrorIs(t, NoSpace(fillZeros(f, 0, 4<<20)), ErrNoSpace)
}

func TestNoSpaceLeavesOtherErrorsAlone(t *testing.T) {
	require.NoError(t, NoSpace(nil))
	require.Equal(t, os.ErrClosed, NoSpace(os.ErrClosed))
}
