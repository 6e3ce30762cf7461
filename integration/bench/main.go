// Command bench measures what the product promises about speed and size on one
// machine and prints one table. It runs the Go benchmarks that its rows name and
// times whole processes. It judges nothing: figures depend on the machine.
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	count := flag.Int("count", 20, "how often a whole process is started")
	flag.Parse()
	m := &meter{count: *count, told: os.Stderr, metrics: map[string]map[string]float64{}}
	if err := m.table(context.Background(), rows(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// meter remembers what each benchmark said, since rows share benchmarks.
type meter struct {
	count   int
	told    io.Writer
	metrics map[string]map[string]float64 // by package and benchmark
	lazy    string
}

// table prints a line for every row, measured or not.
func (m *meter) table(ctx context.Context, all []row, out io.Writer) error {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(out, "| %-44s | %-14s | %-14s | |\n|%s|%s|%s|---|\n", "What", "Bar", "Measured",
		strings.Repeat("-", 46), strings.Repeat("-", 16), strings.Repeat("-", 16))
	for _, r := range all {
		figure, err := m.measure(ctx, r, dir)
		measured, verdict := "not measured", ""
		switch {
		case err != nil:
			verdict = err.Error()
		default:
			measured = number(figure) + " " + r.unit
			verdict = r.verdict(figure)
		}
		fmt.Fprintf(out, "| %-44s | %-14s | %-14s | %s |\n", r.what, r.limit(), measured, verdict)
	}
	return nil
}

func (r row) limit() string {
	if r.bar == 0 {
		return "none"
	}
	sign := "≥"
	switch {
	case r.exact:
		sign = "="
	case r.atMost:
		sign = "≤"
	}
	return sign + " " + number(r.bar) + " " + r.unit
}

func (r row) verdict(figure float64) string {
	if r.bar == 0 {
		return ""
	}
	if figure == r.bar || !r.exact && (figure < r.bar) == r.atMost {
		return "reached"
	}
	return "missed"
}

// number prints three significant digits at most, but never an exponent.
func number(f float64) string {
	if f >= 100 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

func (m *meter) measure(ctx context.Context, r row, dir string) (float64, error) {
	if len(r.argv) > 0 {
		return m.process(ctx, r, dir)
	}
	key := r.pkg + " " + r.bench
	got, ok := m.metrics[key]
	if !ok {
		if !declares(r.pkg, r.bench) {
			return 0, fmt.Errorf("%s has no %s", r.pkg, r.bench)
		}
		fmt.Fprintf(m.told, "bench: %s in %s…\n", r.bench, r.pkg)
		var err error
		if got, err = benchmark(ctx, r.pkg, r.bench); err != nil {
			return 0, err
		}
		m.metrics[key] = got
	}
	f, ok := got[r.metric]
	if !ok {
		return 0, fmt.Errorf("%s reports no %s", r.bench, r.metric)
	}
	return f, nil
}

// declares looks for the benchmark in the package's files, which is quicker than
// compiling a package that has none.
func declares(pkg, bench string) bool {
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(files, func(f string) bool {
		text, err := os.ReadFile(f)
		return err == nil && bytes.Contains(text, []byte("\nfunc "+bench+"("))
	})
}

func benchmark(ctx context.Context, pkg, bench string) (map[string]float64, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^"+bench+"$", "-timeout", "10m", pkg)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s failed: %s", bench, last(out))
	}
	got := parse(bytes.NewReader(out), bench)
	if len(got) == 0 {
		return nil, fmt.Errorf("%s was skipped", bench)
	}
	return got, nil
}

// parse reads the lines of go test -bench: a name, a count, and pairs of a
// figure and its unit. Of several lines the last one counts.
func parse(out io.Reader, bench string) map[string]float64 {
	got := map[string]float64{}
	s := bufio.NewScanner(out)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 4 {
			continue
		}
		if name, _, _ := strings.Cut(f[0], "-"); name != bench {
			continue
		}
		for i := 2; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				got[f[i+1]] = v
			}
		}
	}
	return got
}

func last(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// process returns the median of the wall time in milliseconds, after one run
// that is not counted.
func (m *meter) process(ctx context.Context, r row, dir string) (float64, error) {
	if m.lazy == "" {
		fmt.Fprintln(m.told, "bench: building lazy…")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./cmd/lazy", "./cmd/lazy-agent")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("lazy does not build: %s", last(out))
		}
		m.lazy = filepath.Join(dir, "lazy")
	}
	var times []time.Duration
	for i := range m.count + 1 {
		start := time.Now()
		cmd := exec.CommandContext(ctx, m.lazy, r.argv...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("lazy %s: %s", strings.Join(r.argv, " "), last(out))
		}
		if i > 0 {
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	return float64(times[len(times)/2].Microseconds()) / 1000, nil
}
