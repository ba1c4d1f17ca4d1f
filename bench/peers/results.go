package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// session is one run of this program. Its identity is what figures depend on, as
// pairs of name and value: sessions of one file have the same.
type session struct {
	Started  time.Time
	Command  string
	Runs     int
	Bytes    int64
	Identity [][2]string
}

// measurement is what became of one peer in one round of a group.
type measurement struct {
	Peer     string
	Workload string
	Promise  promise
	Round    int
	At       time.Time
	Wall     time.Duration // of everything, from opening the peer to removing its files
	Result   result
	Error    string `json:",omitempty"`
}

// resultsLine is a line of the file: one of the two.
type resultsLine struct {
	Session     *session     `json:",omitempty"`
	Measurement *measurement `json:",omitempty"`
}

// results is a file of measurements, a JSON object in each line. It is only ever
// appended to, so that a run can end at any time and be taken up again.
type results struct {
	path     string
	sessions []session
	measured map[roundKey]measurement // the last one of each
	end      int64                    // of the last whole line
}

// roundKey names a measurement.
type roundKey struct {
	peer, workload string
	promise        promise
	round          int
}

// mixedError refuses measurements that say nothing about each other.
type mixedError struct {
	path, field string
	have, want  string
}

func (e *mixedError) Error() string {
	return fmt.Sprintf("%s: %s is %q there and %q now: such measurements are not mixed; -results takes another file", e.path, e.field, e.have, e.want)
}

// readResults reads a file, which need not exist. A last line that a kill cut off is not there.
func readResults(path string) (*results, error) {
	r := &results{path: path, measured: make(map[roundKey]measurement)}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	for number := 1; ; number++ {
		text, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return r, nil
		}
		if err := r.take(text); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, number, err)
		}
		r.end += int64(len(text)) + 1
		data = rest
	}
}

func (r *results) take(text []byte) error {
	var l resultsLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	switch {
	case l.Session != nil:
		if err := r.admits(l.Session.Identity); err != nil {
			return err
		}
		r.sessions = append(r.sessions, *l.Session)
	case l.Measurement == nil:
		return errors.New("neither a session nor a measurement")
	case len(r.sessions) == 0:
		return errors.New("a measurement before any session")
	default:
		m := *l.Measurement
		r.measured[roundKey{m.Peer, m.Workload, m.Promise, m.Round}] = m
	}
	return nil
}

// admits returns a *mixedError if measurements of that identity do not belong into the file.
func (r *results) admits(identity [][2]string) error {
	if len(r.sessions) == 0 {
		return nil
	}
	have := r.sessions[0].Identity
	for i := range max(len(have), len(identity)) {
		var there, now [2]string
		if i < len(have) {
			there = have[i]
		}
		if i < len(identity) {
			now = identity[i]
		}
		if there != now {
			return &mixedError{path: r.path, field: max(now[0], there[0]), have: there[1], want: now[1]}
		}
	}
	return nil
}

// begin adds a session.
func (r *results) begin(s session) error {
	if err := r.admits(s.Identity); err != nil {
		return err
	}
	r.sessions = append(r.sessions, s)
	return r.write(resultsLine{Session: &s})
}

// add adds a measurement.
func (r *results) add(m measurement) error {
	r.measured[roundKey{m.Peer, m.Workload, m.Promise, m.Round}] = m
	return r.write(resultsLine{Measurement: &m})
}

// write appends a line, over what there may be of one that was cut off.
func (r *results) write(l resultsLine) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := os.MkdirAll(filepath.Dir(r.path), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	err = f.Truncate(r.end)
	if err == nil {
		_, err = f.WriteAt(text, r.end)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		r.end += int64(len(text))
	}
	return err
}

// value returns what the identity of the file says about a name; "" if nothing.
func (r *results) value(name string) string {
	if len(r.sessions) > 0 {
		for _, pair := range r.sessions[0].Identity {
			if pair[0] == name {
				return pair[1]
			}
		}
	}
	return ""
}

// of returns what there is of a row in a round.
func (r *results) of(x *row, round int) (measurement, bool) {
	m, ok := r.measured[roundKey{x.peer.name, x.workload.name, x.promise, round}]
	return m, ok
}

// failed returns the failure of a row in a round or before it, nil if there is
// none. What has failed is not measured again.
func (r *results) failed(x *row, round int) error {
	for n := range round + 1 {
		if m, ok := r.of(x, n); ok && m.Error != "" {
			return fmt.Errorf("%s: %s", x.name(), m.Error)
		}
	}
	return nil
}

// complete reports whether a round has every row of the group. The last row of an
// interrupted one is missing, and as a round that is begun again is measured
// whole, all of it comes from one session.
func (r *results) complete(g group, round int) bool {
	for _, x := range g.rows {
		if _, ok := r.of(x, round); !ok && r.failed(x, round) == nil {
			return false
		}
	}
	return true
}

// missing returns the rounds of a group that are not complete.
func (r *results) missing(g group, runs int) []int {
	var rounds []int
	for n := range runs {
		if !r.complete(g, n) {
			rounds = append(rounds, n)
		}
	}
	return rounds
}

// fill gives rows their measurements of complete rounds, and groups their times.
func (r *results) fill(groups []group) []group {
	var filled []group
	for _, g := range groups {
		for n := range r.runs() {
			if !r.complete(g, n) {
				continue
			}
			g.rounds++
			for _, x := range g.rows {
				m, ok := r.of(x, n)
				if !ok {
					continue
				}
				if g.from.IsZero() || m.At.Before(g.from) {
					g.from = m.At
				}
				if m.At.After(g.until) {
					g.until = m.At
				}
				x.err = r.failed(x, n)
				if x.err == nil {
					x.results = append(x.results, m.Result)
				}
			}
		}
		if g.rounds > 0 {
			filled = append(filled, g)
		}
	}
	return filled
}

// runs is how many rounds the file was meant to have.
func (r *results) runs() int {
	most := 0
	for _, s := range r.sessions {
		most = max(most, s.Runs)
	}
	return most
}
