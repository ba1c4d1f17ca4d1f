package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

var rocketMQ = peer{
	name:   "RocketMQ store (Java)",
	module: "org.apache.rocketmq:rocketmq-store:4.9.3",
	gives: map[promise]string{
		processCrash: "`ASYNC_FLUSH`, the default; synced within 500 ms",
		powerLoss:    "`SYNC_FLUSH`; writers share syncs",
	},
	batch: pocketmqStore.batch,
	notes: "`DefaultMessageStore` in a Java process, not through a broker. Defaults, and `useReentrantLockWhenPutMessage` with " +
		"`SYNC_FLUSH`, as its documentation advises; a heap of 2 GiB. Before the measurement the same workload runs half as long in " +
		"another directory, so that the virtual machine has compiled it. Reads are 32 at a time by `getMessage`.",
	program: rocketMQProgram,
	needs:   javaBuilt,
}

// javaBuilt is what Maven makes of the program in java/.
var javaBuilt = filepath.Join("java", "target", "lib")

// rocketMQProgram is the program that does a measurement with RocketMQ's store.
func rocketMQProgram(ctx context.Context, s spec) (*exec.Cmd, error) {
	w, ok := workloadNamed(s.Workload)
	if !ok {
		return nil, fmt.Errorf("no workload %q", s.Workload)
	}
	noiseFile := filepath.Join(s.Dir, "noise")
	if err := os.WriteFile(noiseFile, noise, 0o600); err != nil {
		return nil, err
	}
	kind, flush := "put", "async"
	if w.read {
		kind = "read"
	}
	if s.Promise == powerLoss {
		flush = "sync"
	}
	classes := filepath.Join("java", "target", "classes") + string(os.PathListSeparator) + filepath.Join(javaBuilt, "*")
	return exec.CommandContext(ctx, "java",
		"--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
		"--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED", "-Xms2g", "-Xmx2g",
		// Nothing is removed during a measurement because others fill the disk.
		"-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99", "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99",
		"-cp", classes, "pocketmq.peers.Measure",
		s.Dir, noiseFile, kind, flush, strconv.Itoa(w.size), strconv.Itoa(w.writers), strconv.Itoa(w.batch),
		strconv.FormatInt(w.messages(s.Bytes), 10), strconv.FormatInt(s.Limit.Milliseconds(), 10)), nil
}

// missing says why the peer can not be measured here; "" if it can.
func (p peer) missing() string {
	if p.needs == "" {
		return ""
	}
	if _, err := os.Stat(p.needs); errors.Is(err, fs.ErrNotExist) {
		return p.name + ": needs Java 17 and Maven, which make bench-peers builds it with; " + filepath.ToSlash(p.needs) + " is not there"
	}
	return ""
}
