// Command mutation says how well the tests of the centre bite: it changes the
// code in small ways with gremlins and counts how many of the changes that a
// test reaches make a test fail. It prints one figure for all the packages
// named, and exits 1 when the figure is below -min.
//
// A mutant that ran out of time counts as alive: on a busy machine time says
// nothing, so such mutants may only lower the figure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const gremlins = "github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0"

// centre are the packages that hold the rules.
func centre() []string {
	return []string{
		"pkg/fault", "pkg/id", "pkg/text", "pkg/identity", "pkg/refusal",
		"pkg/task", "pkg/turn", "pkg/raise", "pkg/event", "pkg/goal", "pkg/plan", "pkg/chain", "pkg/review",
		"pkg/forge", "pkg/store", "pkg/engine", "pkg/engine/asl", "pkg/sandbox",
	}
}

func main() {
	least := flag.Float64("min", 0, "exit 1 when fewer than this many in 100 covered mutants are killed")
	verbose := flag.Bool("v", false, "list the mutants that lived")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = centre()
	}
	err := run(context.Background(), packages, *least, *verbose, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// result counts the mutants of one or more packages.
type result struct {
	killed, lived, timedOut, notCovered int
	alive                               []string
}

func (r result) covered() int { return r.killed + r.lived + r.timedOut }

func (r result) percent() float64 {
	if r.covered() == 0 {
		return 0
	}
	return 100 * float64(r.killed) / float64(r.covered())
}

func (r *result) add(o result) {
	r.killed += o.killed
	r.lived += o.lived
	r.timedOut += o.timedOut
	r.notCovered += o.notCovered
	r.alive = append(r.alive, o.alive...)
}

func run(ctx context.Context, packages []string, least float64, verbose bool, out io.Writer) error {
	var all result
	for _, pkg := range packages {
		pkg = strings.TrimPrefix(filepath.ToSlash(filepath.Clean(pkg)), "./")
		if reason := unfit(pkg); reason != "" {
			fmt.Fprintf(out, "%-18s skipped: %s\n", pkg, reason)
			continue
		}
		text, err := unleash(ctx, pkg)
		if err != nil {
			return fmt.Errorf("mutate %s: %w", pkg, err)
		}
		r, err := read(pkg, text)
		if err != nil {
			return fmt.Errorf("read the mutants of %s: %w", pkg, err)
		}
		all.add(r)
		fmt.Fprintf(out, "%-18s %3d of %3d covered mutants killed, %5.1f in 100 (%d timed out, %d not covered)\n",
			pkg, r.killed, r.covered(), r.percent(), r.timedOut, r.notCovered)
		if verbose {
			for _, a := range r.alive {
				fmt.Fprintln(out, "  ", a)
			}
		}
	}
	if all.covered() == 0 {
		return errors.New("no mutant was covered by a test")
	}
	fmt.Fprintf(out, "mutation: %d of %d covered mutants killed, %.1f in 100 (at least %.0f asked)\n",
		all.killed, all.covered(), all.percent(), least)
	if all.percent() < least {
		return fmt.Errorf("%.1f in 100 is below %.0f; -v lists the mutants that lived", all.percent(), least)
	}
	return nil
}

// unfit says why a package cannot be measured, or "". Gremlins finds a package
// by its name in the path; where the two differ it tests another one, and every
// mutant would count as killed.
func unfit(pkg string) string {
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(pkg), "*.go"))
	if err != nil || len(files) == 0 {
		return "there is no such package"
	}
	tests := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			tests++
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.PackageClauseOnly)
		if err != nil {
			return err.Error()
		}
		if name := file.Name.Name; name != filepath.Base(pkg) {
			return fmt.Sprintf("its name, %s, is not its folder's", name)
		}
	}
	if tests == 0 {
		return "it has no tests of its own"
	}
	return ""
}

// unleash runs gremlins on one package without those below it.
func unleash(ctx context.Context, pkg string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(ctx, "go", "run", gremlins, "unleash", "--silent",
		"--output", report, "--exclude-files", "/", "--timeout-coefficient", "10",
		"--invert-logical", "--invert-loopctrl", "./"+pkg)
	// Gremlins derives its time limit from one run of the tests. An answer from
	// the cache would take no time, and every mutant would run out of it. And what
	// vet refuses no test has killed.
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -count=1 -vet=off"))
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	return os.ReadFile(report)
}

func read(pkg string, text []byte) (result, error) {
	var report struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Type, Status string
				Line, Column int
			}
		}
	}
	var r result
	if err := json.Unmarshal(text, &report); err != nil {
		return r, err
	}
	for _, f := range report.Files {
		for _, m := range f.Mutations {
			switch m.Status {
			case "KILLED":
				r.killed++
			case "LIVED":
				r.lived++
			case "TIMED OUT":
				r.timedOut++
			case "NOT COVERED":
				r.notCovered++
				continue
			case "NOT VIABLE", "SKIPPED":
				continue // it does not compile, so no test can see it
			default:
				return r, fmt.Errorf("unknown status %q", m.Status)
			}
			if m.Status != "KILLED" {
				r.alive = append(r.alive, fmt.Sprintf("%s/%s:%d:%d %s %s", pkg, f.Name, m.Line, m.Column, strings.ToLower(m.Status), m.Type))
			}
		}
	}
	slices.Sort(r.alive)
	return r, nil
}
