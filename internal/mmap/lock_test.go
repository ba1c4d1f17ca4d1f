package mmap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// child is what another process does in the tests below; the exit code is its answer.
func child(action, path string) int {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		fmt.Println(err)
		return childFailed
	}
	defer f.Close()
	var lock func(*os.File) error
	switch action {
	case "lock":
		lock = LockFile
	case "java":
		lock = javaLock
	}
	switch err := lock(f); {
	case err == nil:
		fmt.Println("locked")
		if os.Getenv(childEnv+"_HOLD") != "" {
			_, _ = fmt.Scanln() // until the parent closes our input
		}
		return childLocked
	case errors.Is(err, ErrLocked):
		return childRefused
	default:
		fmt.Println(err)
		return childFailed
	}
}

const (
	childLocked  = 0
	childRefused = 10
	childFailed  = 11
)

// inChild runs the action in another process and returns its answer.
func inChild(t *testing.T, action, path string) int {
	t.Helper()
	cmd := childCommand(action, path)
	out, err := cmd.CombinedOutput()
	needExec(t, err)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() == childFailed {
		t.Fatalf("child: %s", out)
	}
	return cmd.ProcessState.ExitCode()
}

func childCommand(action, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+action, childEnv+"_PATH="+path)
	return cmd
}

// needExec skips the test where an emulator runs the tests and the system can not start another copy of them.
func needExec(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("no second process under this emulator:", err)
	}
}

// holdInChild lets another process take the lock and keep it until release is called.
func holdInChild(t *testing.T, action, path string) (release func()) {
	t.Helper()
	cmd := childCommand(action, path)
	cmd.Env = append(cmd.Env, childEnv+"_HOLD=1")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	err = cmd.Start()
	needExec(t, err)
	require.NoError(t, err)
	var word string
	_, err = fmt.Fscanln(stdout, &word)
	require.NoError(t, err)
	require.Equal(t, "locked", word)
	return func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, cmd.Wait())
	}
}

func reopen(t *testing.T, f *os.File) *os.File {
	t.Helper()
	g, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { g.Close() })
	return g
}

func TestSecondLockInThisProcessIsRefused(t *testing.T) {
	f := newFile(t, 4)
	require.NoError(t, LockFile(f))
	g := reopen(t, f)
	require.ErrorIs(t, LockFile(g), ErrLocked)
	require.NoError(t, g.Close())
	require.ErrorIs(t, LockFile(reopen(t, f)), ErrLocked, "closing the refused one changes nothing")
	require.NoError(t, f.Close())
	require.NoError(t, LockFile(reopen(t, f)), "free after the holder closed")
}

func TestAnotherProcessIsRefused(t *testing.T) {
	f := newFile(t, 4)
	require.NoError(t, LockFile(f))
	require.Equal(t, childRefused, inChild(t, "lock", f.Name()))
	require.NoError(t, f.Close())
	require.Equal(t, childLocked, inChild(t, "lock", f.Name()))
}

func TestLockOfAnotherProcessRefusesUs(t *testing.T) {
	f := newFile(t, 4)
	release := holdInChild(t, "lock", f.Name())
	require.ErrorIs(t, LockFile(f), ErrLocked)
	release()
	require.NoError(t, LockFile(f))
}
