package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// What Maven makes of the program in java/.
var (
	javaClasses   = filepath.Join("java", "target", "classes")
	javaLibraries = filepath.Join("java", "target", "lib", "*")
)

// javaProgram is the program that does a measurement with a store in Java.
func javaProgram(ctx context.Context, s spec) (*exec.Cmd, error) {
	p, ok := peerNamed(s.Peer)
	if !ok {
		return nil, fmt.Errorf("no peer %q", s.Peer)
	}
	w, ok := workloadNamed(s.Workload)
	if !ok {
		return nil, fmt.Errorf("no workload %q", s.Workload)
	}
	do := "put"
	if w.read {
		do = "read"
	}
	return javaCommand(ctx, p.java, do, s, w)
}

// javaCommand runs Measure.java, which says what it can do with a store.
func javaCommand(ctx context.Context, store, do string, s spec, w workload) (*exec.Cmd, error) {
	noiseFile := filepath.Join(s.Dir, "noise")
	if err := os.WriteFile(noiseFile, noise, 0o600); err != nil {
		return nil, err
	}
	flush := "async"
	if s.Promise == powerLoss {
		flush = "sync"
	}
	args := slices.Concat(javaFlags, []string{
		"-cp", javaClasses + string(os.PathListSeparator) + javaLibraries, "pocketmq.peers.Measure",
		store, s.Dir, noiseFile, do, flush, strconv.Itoa(w.size), strconv.Itoa(w.writers), strconv.Itoa(w.batch),
		strconv.FormatInt(w.messages(s.Bytes), 10), strconv.FormatInt(s.Limit.Milliseconds(), 10),
	})
	return exec.CommandContext(ctx, "java", args...), nil
}

// javaFlags let the stores map and unmap files, for which they reach into the Java library.
var javaFlags = []string{
	"--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
	"--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
	// As Chronicle's documentation lists them for Java 17.
	"--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
	"--add-opens=java.base/java.io=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
	"--add-opens=jdk.compiler/com.sun.tools.javac=ALL-UNNAMED", "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
	"--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
	"--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
	"-Xms2g", "-Xmx2g",
	// RocketMQ removes nothing during a measurement because others fill the disk.
	"-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99", "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99",
	// Chronicle tells nobody of its use.
	"-Dchronicle.analytics.disable=true", "-Dchronicle.announcer.disable=true",
}

// missing says why the peer can not be measured here; "" if it can.
func (p peer) missing() string {
	if p.java == "" {
		return ""
	}
	class := filepath.Join(javaClasses, "pocketmq", "peers", p.java+".class")
	if _, err := os.Stat(class); errors.Is(err, fs.ErrNotExist) {
		return p.name + ": needs Java 17 and Maven, which make bench-peers builds it with; " + filepath.ToSlash(class) + " is not there"
	}
	return ""
}
