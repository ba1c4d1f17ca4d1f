package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// runVariable makes this program the one that does a single measurement.
const runVariable = "PEERS_RUN"

// runChild does the measurement, and writes its result as JSON.
func runChild(text string, out io.Writer) error {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("%s: %w", runVariable, err)
	}
	r, err := measure(s)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// inChild does one measurement in a process of its own and a new directory
// below parent, so that no peer meets memory, goroutines or files of another.
func inChild(ctx context.Context, s spec, parent string) (r result, err error) {
	if s.Dir, err = os.MkdirTemp(parent, "peers-"); err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.Dir)) }()
	program := selfProgram
	if p, _ := peerNamed(s.Peer); p.java != "" {
		program = javaProgram
	}
	cmd, err := program(ctx, s)
	if err != nil {
		return result{}, err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("%w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return result{}, fmt.Errorf("result %q: %w", out, err)
	}
	return r, nil
}

// selfProgram is this program, told to do one measurement.
func selfProgram(ctx context.Context, s spec) (*exec.Cmd, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), runVariable+"="+string(text))
	return cmd, nil
}
