package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRowsThatCannotBeMeasuredSayWhyAndTheRestAreFilled(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, text := range map[string]string{
		"go.mod": "module x\n\ngo 1.26\n",
		"p/p.go": "package p\n",
		"p/p_test.go": `package p

import "testing"

func BenchmarkGood(b *testing.B) {
	for b.Loop() {
	}
	b.ReportMetric(7, "ms/up")
	b.ReportMetric(55, "flows/s")
}

func BenchmarkBad(b *testing.B) { b.Fatal("no") }

func BenchmarkSkipped(b *testing.B) { b.Skip("no") }
`,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	m := &meter{count: 1, told: &strings.Builder{}, metrics: map[string]map[string]float64{}}
	var out strings.Builder
	err := m.table(t.Context(), []row{
		{what: "low", bar: 8, unit: "ms", atMost: true, pkg: "./p", bench: "BenchmarkGood", metric: "ms/up"},
		{what: "high", bar: 60, unit: "flows/s", pkg: "./p", bench: "BenchmarkGood", metric: "flows/s"},
		{what: "exact", bar: 56, unit: "winners", exact: true, pkg: "./p", bench: "BenchmarkGood", metric: "flows/s"},
		{what: "unit", bar: 8, unit: "ms", pkg: "./p", bench: "BenchmarkGood", metric: "MB"},
		{what: "none", bar: 8, unit: "ms", pkg: "./p", bench: "BenchmarkNone", metric: "ms/up"},
		{what: "bad", bar: 8, unit: "ms", pkg: "./p", bench: "BenchmarkBad", metric: "ms/up"},
		{what: "skipped", bar: 8, unit: "ms", pkg: "./p", bench: "BenchmarkSkipped", metric: "ms/up"},
		{what: "process", bar: 8, unit: "ms", atMost: true, argv: []string{"version"}},
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")[2:]
	for i, want := range [][]string{
		{"low", "≤ 8 ms", "7 ms", "reached"},
		{"high", "≥ 60 flows/s", "55 flows/s", "missed"},
		{"exact", "= 56 winners", "missed"},
		{"unit", "not measured", "reports no MB"},
		{"none", "not measured", "has no BenchmarkNone"},
		{"bad", "not measured", "BenchmarkBad failed"},
		{"skipped", "not measured", "was skipped"},
		{"process", "not measured", "does not build"},
	} {
		for _, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("%q is not in %q", w, lines[i])
			}
		}
	}
}

func TestNumbersReadLikeNumbers(t *testing.T) {
	for f, want := range map[float64]string{0.0123: "0.0123", 1.5: "1.5", 83.04: "83", 830: "830", 12345.6: "12346"} {
		if got := number(f); got != want {
			t.Errorf("%v: got %q, want %q", f, got, want)
		}
	}
}

func TestEveryRowNamesItsSource(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows() {
		if seen[r.what] || r.unit == "" || (len(r.argv) == 0) == (r.pkg == "") {
			t.Errorf("%+v", r)
		}
		if r.pkg != "" && (r.metric == "" || !strings.HasPrefix(r.bench, "Benchmark")) {
			t.Errorf("%+v", r)
		}
		seen[r.what] = true
	}
}
