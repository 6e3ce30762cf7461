// Command requirements writes docs/requirements.md: which numbered requirement
// is proven by which test. It counts only tests that ran, passed and were not
// skipped, from the attributes that req.Covers leaves in `go test -json`.
//
// Without -in it runs the tests itself. With -check it changes nothing and
// exits 1 when the file is stale.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	in := flag.String("in", "", "`file` with the output of go test -json; - is standard input")
	check := flag.Bool("check", false, "only say whether the table is current")
	index := flag.String("index", "docs/requirements-index.tsv", "`file` with every id, priority and chapter")
	out := flag.String("out", "docs/requirements.md", "`file` to write")
	flag.Parse()
	if err := run(context.Background(), *in, *index, *out, *check, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in, index, out string, check bool, log io.Writer) error {
	rows, err := readIndex(index)
	if err != nil {
		return err
	}
	stream, err := open(ctx, in)
	if err != nil {
		return err
	}
	proof, skipped, err := readTests(stream)
	if err != nil {
		return err
	}
	var was []byte
	if check {
		if was, err = os.ReadFile(out); err != nil {
			return err
		}
		if n := allow(proof, skipped, was); n > 0 {
			fmt.Fprintf(log, "%d claims rest on tests that were skipped here\n", n)
		}
	}
	doc, summary, err := render(rows, proof)
	if err != nil {
		return err
	}
	fmt.Fprintln(log, summary)
	if !check {
		return os.WriteFile(out, doc, 0o644)
	}
	if !bytes.Equal(was, doc) {
		return fmt.Errorf("%s is stale:%s\n  `go run ./integration/requirements` writes it", out, difference(was, doc))
	}
	return nil
}

func open(ctx context.Context, in string) (io.Reader, error) {
	switch in {
	case "":
		cmd := exec.CommandContext(ctx, "go", "test", "-json", "./...")
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		if err != nil {
			// A failed test only means that its requirements do not count.
			fmt.Fprintln(os.Stderr, "requirements: go test:", err)
		}
		return bytes.NewReader(text), nil
	case "-":
		return os.Stdin, nil
	}
	text, err := os.ReadFile(in)
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(text), nil
}

// difference shows the lines that only one of two texts has, up to twenty of each.
func difference(was, is []byte) string {
	var b strings.Builder
	for _, side := range []struct {
		sign     string
		of, than []byte
	}{{"-", was, is}, {"+", is, was}} {
		other := map[string]bool{}
		for line := range bytes.Lines(side.than) {
			other[string(line)] = true
		}
		n := 0
		for line := range bytes.Lines(side.of) {
			if other[string(line)] {
				continue
			}
			if n++; n > 20 {
				continue
			}
			fmt.Fprintf(&b, "\n  %s %s", side.sign, bytes.TrimRight(line, "\n"))
		}
		if n > 20 {
			fmt.Fprintf(&b, "\n  %s … and %d more", side.sign, n-20)
		}
	}
	return b.String()
}
