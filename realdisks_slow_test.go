//go:build slow && linux

package pocketmq_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/store"
)

// These tests have two disks in a node, one of which is a file system of its own
// on a loop device that is full, fails or hangs for real.

// run runs a program of the system and returns what it printed.
func run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func mustRun(t *testing.T, name string, args ...string) {
	t.Helper()
	_, err := run(name, args...)
	require.NoError(t, err)
}

// needDisks skips the test where no disk can be made, and says what is missing.
func needDisks(t *testing.T) {
	t.Helper()
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		missing = append(missing, err.Error())
	}
	for _, program := range []string{"mkfs.ext4", "e2fsck", "losetup", "fsfreeze", "timeout", "mount", "umount"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, err.Error())
		}
	}
	if dir := t.TempDir(); len(missing) == 0 { // root of a container has no say over disks
		if _, err := run("mount", "-t", "tmpfs", "none", dir); err != nil {
			missing = append(missing, "the right to mount: "+err.Error())
		} else {
			mustRun(t, "umount", dir)
		}
		if _, err := run("losetup", "--find"); err != nil {
			missing = append(missing, "a free loop device: "+err.Error())
		}
		if err := unix.Access("/sys/block", unix.W_OK); err != nil {
			missing = append(missing, "the right to set up block devices: /sys/block: "+err.Error())
		}
	}
	if len(missing) > 0 {
		t.Skip("NOT TESTED: disks that are really full, fail or hang; missing: " + strings.Join(missing, "; "))
	}
}

// loopDisk is an ext4 file system on a loop device whose blocks are in a file.
type loopDisk struct{ device, dir string }

// newLoopDisk makes and mounts one of so many MiB, with its file under where.
func newLoopDisk(t *testing.T, where string, mib int64) *loopDisk {
	t.Helper()
	d := &loopDisk{dir: filepath.Join(t.TempDir(), "disk")}
	image := filepath.Join(where, "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, mib<<20))
	require.NoError(t, os.Mkdir(d.dir, 0o700))
	mustRun(t, "mkfs.ext4", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", image)
	var err error
	d.device, err = run("losetup", "--find", "--show", image)
	require.NoError(t, err)
	t.Cleanup(func() { mustRun(t, "losetup", "--detach", d.device) })
	requestsOfOneBlock(t, d.device)
	mustRun(t, "mount", "-o", "errors=remount-ro", d.device, d.dir)
	t.Cleanup(func() { mustRun(t, "umount", d.dir) })
	return d
}

// requestsOfOneBlock has a loop device write each block of 4 KiB by itself. It
// confirms a longer request of which the file behind it took the first blocks and
// had no space for the others, so a sync would confirm what is lost: a disk that
// lies, against which no store can do anything, and not one that fails.
func requestsOfOneBlock(t *testing.T, device string) {
	t.Helper()
	limit := filepath.Join("/sys/block", filepath.Base(device), "queue/max_sectors_kb")
	require.NoError(t, os.WriteFile(limit, []byte("4"), 0))
}

// remount is what somebody does with a disk that failed, when it is well again.
func (d *loopDisk) remount(t *testing.T) {
	t.Helper()
	mustRun(t, "umount", d.dir)
	if _, err := run("e2fsck", "-f", "-y", d.device); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.LessOrEqual(t, exit.ExitCode(), 1, "errors that could not be corrected: %v", err)
	}
	mustRun(t, "mount", "-o", "errors=remount-ro", d.device, d.dir)
}

// freeze stops all writing to the file system, until thaw. Should this process
// hang with it, or end, another one thaws it.
func (d *loopDisk) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	guard := exec.Command("sh", "-c", `timeout 30 cat; fsfreeze --unfreeze "$0"`, d.dir)
	over, err := guard.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, guard.Start())
	mustRun(t, "fsfreeze", "--freeze", d.dir)
	frozen := true
	thaw = func() {
		if frozen {
			frozen = false
			require.NoError(t, over.Close())
			require.NoError(t, guard.Wait())
		}
	}
	t.Cleanup(thaw)
	return thaw
}

// memoryDisk mounts a file system of that size in memory.
func memoryDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	mustRun(t, "mount", "-t", "tmpfs", "-o", "size="+size, "none", dir)
	t.Cleanup(func() { mustRun(t, "umount", dir) })
	return dir
}

// ballast fills the disk of dir to the last byte.
func ballast(t *testing.T, dir string) (remove func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	require.NoError(t, err)
	for chunk := make([]byte, 64<<10); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	require.NoError(t, f.Close())
	return func() { require.NoError(t, os.Remove(f.Name())) }
}

// pair is a node with a disk that will be ill and one that stays well, and a
// sender that avoids what fails, not what is slow: on a busy machine both are.
type pair struct {
	node      *pocketmq.Node
	producer  *pocketmq.Producer
	dir       string            // of the ill one
	ill, well string            // names of the brokers
	n         int               // messages sent
	sent      map[string]string // to be there: the broker of each body
	retried   int
}

func openPair(t *testing.T, d *loopDisk, flush store.FlushMode, cfg mq.ProducerConfig) *pair {
	t.Helper()
	config := severalDisks(t, 2, flush)
	config.Store.Reserve = 512 << 10
	config.Disks[0].Dir = filepath.Join(d.dir, "store")
	w := &pair{node: open(t, config), dir: config.Disks[0].Dir, sent: map[string]string{}}
	disks := w.node.Disks()
	w.ill, w.well = disks[0].Broker.Name(), disks[1].Broker.Name()
	require.NoError(t, w.node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "t", ReadQueueNums: 2, WriteQueueNums: 2}))
	cfg.Group = "senders"
	cfg.Faults = mq.FaultPolicy{
		LatencyMax: []time.Duration{time.Hour}, NotAvailable: []time.Duration{10 * time.Second}, Isolation: time.Hour,
		ProbeInterval: 50 * time.Millisecond,
	}
	var err error
	w.producer, err = w.node.NewProducer(cfg)
	require.NoError(t, err)
	return w
}

// send wants a message to be taken, after one retry at most, and returns by
// which broker.
func (w *pair) send(t *testing.T) string {
	t.Helper()
	w.n++
	body := fmt.Sprintf("%d%5000d", w.n, 0)
	r, err := w.producer.Send(t.Context(), &pocketmq.Message{Topic: "t", Body: []byte(body)})
	require.NoError(t, err)
	require.Equal(t, mq.SendOK, r.Status)
	if r.Attempts > 1 {
		require.Equal(t, []string{w.ill, w.well}, r.Tried)
		w.retried++
	}
	w.sent[body] = r.Queue.BrokerName
	return r.Queue.BrokerName
}

// sendBoth sends in turn to both brokers.
func (w *pair) sendBoth(t *testing.T) {
	t.Helper()
	by := map[string]int{}
	for range 40 {
		by[w.send(t)]++
	}
	require.Equal(t, map[string]int{w.ill: 20, w.well: 20}, by)
}

// sendUntil sends until something is so.
func (w *pair) sendUntil(t *testing.T, what string, is func(by string) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(w.send(t)); {
		require.True(t, time.Now().Before(deadline), "not within a minute: %s", what)
	}
}

// sendAvoiding sends for so long, all to the broker that is well but for the few
// by which the other one is tried.
func (w *pair) sendAvoiding(t *testing.T, d time.Duration, tries int) {
	t.Helper()
	n, retried := 0, w.retried
	for end := time.Now().Add(d); n < 100 || time.Now().Before(end); n++ {
		require.Equal(t, w.well, w.send(t), "message %d", n)
	}
	require.LessOrEqual(t, w.retried-retried, tries, "of %d messages", n)
}

// verify reads everything back: what was acknowledged is there, once for each
// broker at most, and with the one that said so. A message that was sent again
// may be twice there.
func (w *pair) verify(t *testing.T, twice bool) {
	t.Helper()
	for _, d := range w.node.Disks() {
		require.NoError(t, d.Err)
		require.NoError(t, d.Store.WaitDispatched(t.Context(), d.Store.MaxOffset()))
	}
	reader, err := w.node.NewReader(t.Context(), mq.ReaderConfig{Topic: "t"})
	require.NoError(t, err)
	defer reader.Close()
	found := map[string]map[string]bool{}
	for m, err := range reader.Messages(t.Context()) {
		require.NoError(t, err)
		by := found[string(m.Body)]
		if by == nil {
			by = map[string]bool{}
			found[string(m.Body)] = by
		}
		require.False(t, by[m.BrokerName], "twice on one disk")
		by[m.BrokerName] = true
		require.True(t, twice || len(by) == 1, "on both disks")
	}
	require.LessOrEqual(t, len(found), w.n)
	for body, by := range w.sent {
		require.True(t, found[body][by], "acknowledged by %s and gone: %.10s", by, body)
	}
}

// TestRealDisksOneFull: another file fills a disk. No send fails; the messages go
// to the other disk, and to both when there is space again.
func TestRealDisksOneFull(t *testing.T) {
	needDisks(t)
	for _, flush := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		t.Run(flush.String(), func(t *testing.T) {
			d := newLoopDisk(t, t.TempDir(), 64)
			w := openPair(t, d, flush, mq.ProducerConfig{})
			w.sendBoth(t)
			remove := ballast(t, d.dir)
			w.sendUntil(t, "what was allocated is used up", func(string) bool { return w.retried > 0 })
			require.True(t, w.node.Store().Health().Has(store.HealthDiskFull))
			w.sendAvoiding(t, time.Second, 0)
			remove()
			w.sendUntil(t, "the disk is used again", func(by string) bool { return by == w.ill })
			w.sendBoth(t)
			require.Equal(t, 1, w.retried, "one message met the full disk")
			w.verify(t, false)
		})
	}
}

// TestRealDisksOneFailing: the device has errors, because the file behind it can
// not grow. The first failed sync is final for its store; no send fails. When the
// disk was repaired and opened again it has all that was on disk, which under
// FlushSync is all that it acknowledged, and gets its share.
func TestRealDisksOneFailing(t *testing.T) {
	needDisks(t)
	for _, flush := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		t.Run(flush.String(), func(t *testing.T) {
			behind := memoryDisk(t, "40m")
			d := newLoopDisk(t, behind, 128)
			w := openPair(t, d, flush, mq.ProducerConfig{})
			w.sendBoth(t)
			require.NoError(t, w.node.Store().Flush(t.Context()))
			onDisk := maps.Clone(w.sent)
			remove := ballast(t, behind)
			w.sendUntil(t, "a sync has failed", func(string) bool {
				return w.node.Disks()[0].Store.Health().Has(store.HealthSyncFailed)
			})
			w.sendAvoiding(t, time.Second, 1)
			require.ErrorIs(t, w.node.Disks()[0].Store.Health().Cause, pocketmq.ErrFlush)
			if flush == store.FlushSync {
				require.Equal(t, 1, w.retried, "one message met the failure")
			} else {
				maps.DeleteFunc(w.sent, func(body, by string) bool { return by == w.ill && onDisk[body] == "" })
			}

			err := w.node.Reopen(t.Context(), w.dir)
			require.ErrorContains(t, err, "open "+w.dir, "it is not repaired yet")
			require.Equal(t, err, w.node.Disks()[0].Err)
			w.sendAvoiding(t, 0, 0)
			remove()
			d.remount(t)
			require.NoError(t, w.node.Reopen(t.Context(), w.dir))
			w.sendUntil(t, "the disk is used again", func(by string) bool { return by == w.ill })
			w.sendBoth(t)
			w.verify(t, true)
		})
	}
}

// TestRealDisksOneFrozen: a disk hangs, without any error. Sends go elsewhere
// when their attempt's time is over, and then at once; when the disk goes on it
// gets its share.
func TestRealDisksOneFrozen(t *testing.T) {
	needDisks(t)
	d := newLoopDisk(t, t.TempDir(), 64)
	w := openPair(t, d, store.FlushSync, mq.ProducerConfig{AttemptTimeout: 3 * time.Second})
	w.sendBoth(t)
	for _, disk := range w.node.Disks() { // the dispatcher must not be at work when it freezes
		require.NoError(t, disk.Store.WaitDispatched(t.Context(), disk.Store.MaxOffset()))
	}
	thaw := d.freeze(t)
	w.sendUntil(t, "it is met", func(string) bool { return w.retried > 0 })
	w.sendAvoiding(t, 2*time.Second, 0)
	disk := w.node.Disks()[0]
	require.Positive(t, disk.Store.SyncAge())
	require.ErrorContains(t, disk.Broker.Writable(t.Context()), "the disk hangs")
	thaw()
	w.sendUntil(t, "the disk is used again", func(by string) bool { return by == w.ill })
	w.sendBoth(t)
	require.Equal(t, 1, w.retried, "one message met the frozen disk")
	w.verify(t, true)
}
