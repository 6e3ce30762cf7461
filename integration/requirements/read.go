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

// stable leaves out of a test's name the parts that are numbers: they are samples
// or counts, which may be others in the next run.
func stable(name string) string {
	var kept []string
	for part := range strings.SplitSeq(name, "/") {
		if part != "" && part[0] >= '0' && part[0] <= '9' {
			break
		}
		kept = append(kept, part)
	}
	return strings.Join(kept, "/")
}

// readTests returns the tests that prove each id.
func readTests(in io.Reader) (map[string][]string, error) {
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
			return nil, fmt.Errorf("read the test stream: %w", err)
		}
	}
	if events == 0 {
		return nil, errors.New("that is no output of go test -json")
	}
	proof := map[string][]string{}
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
	return proof, nil
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
