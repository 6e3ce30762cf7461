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
	proof, err := readTests(stream)
	if err != nil {
		return err
	}
	doc, summary, err := render(rows, proof)
	if err != nil {
		return err
	}
	fmt.Fprintln(log, summary)
	if !check {
		return os.WriteFile(out, doc, 0o644)
	}
	was, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	if !bytes.Equal(was, doc) {
		return fmt.Errorf("%s is stale%s\n  `go run ./integration/requirements` writes it", out, difference(was, doc))
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

// difference shows the first line that differs.
func difference(was, is []byte) string {
	a, b := bytes.Split(was, []byte("\n")), bytes.Split(is, []byte("\n"))
	for i := range max(len(a), len(b)) {
		var old, cur []byte
		if i < len(a) {
			old = a[i]
		}
		if i < len(b) {
			cur = b[i]
		}
		if !bytes.Equal(old, cur) {
			return fmt.Sprintf(" from line %d on:\n  - %s\n  + %s", i+1, old, cur)
		}
	}
	return ""
}
