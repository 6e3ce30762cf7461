package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// row is one requirement of the index.
type row struct {
	id       string
	priority string // P1, P2, P3, or - for a row with nothing to build
	chapter  string
}

func readIndex(path string) ([]row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	seen := map[string]bool{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		f := strings.Split(strings.TrimRight(string(line), "\r\n"), "\t")
		if n == 1 {
			continue // the heading
		}
		if len(f) != 3 {
			return nil, fmt.Errorf("%s:%d: want three columns, got %d", path, n, len(f))
		}
		if seen[f[0]] {
			return nil, fmt.Errorf("%s:%d: %s comes twice", path, n, f[0])
		}
		seen[f[0]] = true
		rows = append(rows, row{f[0], f[1], f[2]})
	}
	return rows, nil
}

// event is what one line of test2json may hold.
type event struct {
	Action  string
	Package string
	Test    string
	Key     string
	Value   string
}

type test struct{ pkg, name string }

func (t test) String() string {
	short := t.pkg
	if _, below, ok := strings.Cut(t.pkg, "/lazyplane/lazyplane/"); ok {
		short = below
	}
	return short + "." + stable(t.name)
}

// stable leaves out of a test's name what may be another in the next run: parts
// that are numbers, which are samples or counts, and the #01 by which the testing
// package tells tests of one name apart, which says only which of them came first.
func stable(name string) string {
	var kept []string
	for part := range strings.SplitSeq(name, "/") {
		if i := strings.LastIndexByte(part, '#'); i > 0 && strings.Trim(part[i+1:], "0123456789") == "" {
			part = part[:i]
		}
		if part != "" && part[0] >= '0' && part[0] <= '9' {
			break
		}
		kept = append(kept, part)
	}
	return strings.Join(kept, "/")
}

// readTests returns the tests that prove each id, and the names of those that
// were skipped.
func readTests(in io.Reader) (proof map[string][]string, skipped map[string]bool, err error) {
	covers := map[test][]string{}
	ended := map[test]string{} // the action a test, or with no name a package, ended with
	r := bufio.NewReader(in)
	events := 0
	for {
		line, err := r.ReadBytes('\n')
		var e event
		if len(line) > 0 && json.Unmarshal(line, &e) == nil && e.Action != "" {
			events++
			key := test{e.Package, e.Test}
			switch e.Action {
			case "attr":
				if e.Key == "covers" {
					covers[key] = append(covers[key], strings.Fields(e.Value)...)
				}
			case "pass", "skip", "fail":
				if ended[key] == "" || ended[key] == "pass" {
					ended[key] = e.Action // one failure of several runs is a failure
				}
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the test stream: %w", err)
		}
	}
	if events == 0 {
		return nil, nil, errors.New("that is no output of go test -json")
	}
	proof = map[string][]string{}
	for t, ids := range covers {
		if !counts(t, ended) {
			continue
		}
		for _, id := range ids {
			if !slices.Contains(proof[id], t.String()) {
				proof[id] = append(proof[id], t.String())
			}
		}
	}
	for _, tests := range proof {
		slices.Sort(tests)
	}
	skipped = map[string]bool{}
	for t, action := range ended {
		if action == "skip" && t.name != "" {
			skipped[t.String()] = true
		}
	}
	return proof, skipped, nil
}

// allow adds to proof what doc says of tests that were skipped in this run. What a
// machine cannot run makes the table no older than it was.
func allow(proof map[string][]string, skipped map[string]bool, doc []byte) (allowed int) {
	for line := range bytes.Lines(doc) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(string(line)), "|"), " | ")
		if len(cells) != 3 {
			continue
		}
		id := strings.TrimSpace(cells[0])
		for test := range strings.SplitSeq(strings.TrimSpace(cells[2]), "<br>") {
			if skipped[test] && !slices.Contains(proof[id], test) {
				proof[id] = append(proof[id], test)
				slices.Sort(proof[id])
				allowed++
			}
		}
	}
	return allowed
}

// counts reports whether a test, each of its parents and its package passed.
func counts(t test, ended map[test]string) bool {
	if ended[test{pkg: t.pkg}] != "pass" {
		return false
	}
	for name := t.name; ; {
		if ended[test{t.pkg, name}] != "pass" {
			return false
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return true
		}
		name = name[:i]
	}
}
