// Command testlog stands between `go test -json` and a person: it keeps the
// stream in a file for later steps, and prints what plain `go test` would, with
// the reason of every skipped test at the end. It exits 1 when a test failed or
// when the stream ends early.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	keep := flag.String("o", "", "file to keep the stream in")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *keep)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// event is one line of test2json; build failures use ImportPath.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

type printer struct {
	out     io.Writer
	output  map[[2]string][]string // of running tests, by package and test
	failed  int
	passed  int
	started map[string]bool
	blamed  map[string]bool // packages with a test that failed
	skipped []string
}

func run(in io.Reader, out io.Writer, keep string) (ok bool, err error) {
	kept := io.Discard
	if keep != "" {
		f, err := os.Create(keep)
		if err != nil {
			return false, err
		}
		defer func() {
			if e := f.Close(); err == nil {
				err = e
			}
		}()
		kept = f
	}
	p := &printer{out: out, output: map[[2]string][]string{}, started: map[string]bool{}, blamed: map[string]bool{}}
	r := bufio.NewReader(io.TeeReader(in, kept))
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			p.line(line)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, fmt.Errorf("read the test stream: %w", err)
		}
	}
	return p.close(), nil
}

func (p *printer) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(p.out, line) // what the go command itself had to say
		return
	}
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "start":
		p.started[e.Package] = true
	case "build-output":
		fmt.Fprint(p.out, e.Output)
	case "build-fail":
		p.failed++
	case "output":
		p.record(key, e)
	case "pass", "skip", "fail":
		p.end(key, e)
	}
}

// record prints the closing line of a package at once and keeps what a test
// says until its end is known.
func (p *printer) record(key [2]string, e event) {
	if e.Test != "" {
		p.output[key] = append(p.output[key], e.Output)
		return
	}
	if e.Output == "PASS\n" || strings.HasPrefix(e.Output, "=== ") {
		return
	}
	fmt.Fprint(p.out, e.Output)
}

func (p *printer) end(key [2]string, e event) {
	if e.Test == "" {
		delete(p.started, e.Package)
		if e.Action == "fail" && !p.blamed[e.Package] {
			p.failed++
		}
		return
	}
	said := p.output[key]
	delete(p.output, key)
	switch e.Action {
	case "pass":
		p.passed++
	case "fail":
		p.failed++
		p.blamed[e.Package] = true
		for _, line := range said {
			if !strings.HasPrefix(line, "=== ") {
				fmt.Fprint(p.out, line)
			}
		}
	case "skip":
		p.skipped = append(p.skipped, e.Package+"."+e.Test+": "+reason(said))
	}
}

// reason joins what a skipped test logged.
func reason(said []string) string {
	var words []string
	for _, line := range said {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		words = append(words, line)
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

// close prints the totals, and what was running when the stream ended.
func (p *printer) close() bool {
	for pkg := range p.started {
		fmt.Fprintf(p.out, "FAIL\t%s\tthe stream ended before the package did\n", pkg)
		p.failed++
	}
	slices.Sort(p.skipped)
	for _, s := range p.skipped {
		fmt.Fprintln(p.out, "skipped", s)
	}
	fmt.Fprintf(p.out, "%d tests passed, %d skipped, %d failures\n", p.passed, len(p.skipped), p.failed)
	return p.failed == 0
}
