package main

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOnlyTestsThatPassedAreCounted runs real tests: the stream's form is Go's
// to change.
func TestOnlyTestsThatPassedAreCounted(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module x\n\ngo 1.26\n")
	for pkg, body := range map[string]string{
		"good": `
func TestPasses(t *testing.T) {
	t.Attr("covers", "SM-001 SM-002")
	t.Run("sub", func(t *testing.T) { t.Attr("covers", "SM-003") })
	t.Run("skipped", func(t *testing.T) { t.Attr("covers", "SM-004"); t.Skip("no") })
}
func TestSkippedParent(t *testing.T) {
	t.Run("sub", func(t *testing.T) { t.Attr("covers", "SM-005") })
	t.Skip("no")
}
func TestOther(t *testing.T) { t.Attr("color", "SM-006"); t.Attr("covers", "SM-001") }
`,
		"bad": `
func TestFails(t *testing.T) {
	t.Attr("covers", "SM-007")
	t.Run("sub", func(t *testing.T) { t.Attr("covers", "SM-008") })
	t.Error("no")
}
func TestPassesBesideAFailure(t *testing.T) { t.Attr("covers", "SM-009") }
`,
	} {
		if err := os.Mkdir(filepath.Join(dir, pkg), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, pkg, "x_test.go"), "package "+pkg+"\n\nimport \"testing\"\n"+body)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, _ := cmd.Output() // it fails, since a test does

	got, skipped, err := readTests(strings.NewReader(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"SM-001": {"x/good.TestOther", "x/good.TestPasses"},
		"SM-002": {"x/good.TestPasses"},
		"SM-003": {"x/good.TestPasses/sub"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v\n%s", got, want, out)
	}
	if want := map[string]bool{"x/good.TestPasses/skipped": true, "x/good.TestSkippedParent": true}; !maps.Equal(skipped, want) {
		t.Errorf("skipped %v, want %v", skipped, want)
	}
}

const index = "id\tpriority\tchapter\n" +
	"SM-001\tP1\tSM statuses\nSM-002\tP1\tSM statuses\nSM-003\tP2\tSM statuses\nSM-004\t-\tSM statuses\nGO-01\tP1\tGO goals\n"

const stream = `{"Action":"attr","Package":"github.com/lazyplane/lazyplane/pkg/task","Test":"TestEdges","Key":"covers","Value":"SM-002 SM-003"}
{"Action":"pass","Package":"github.com/lazyplane/lazyplane/pkg/task","Test":"TestEdges"}
not json
{"Action":"pass","Package":"github.com/lazyplane/lazyplane/pkg/task"}
`

func TestTheDocumentNamesTestsAndWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	ix := write(t, filepath.Join(dir, "index.tsv"), index)
	in := write(t, filepath.Join(dir, "stream.json"), stream)
	out := filepath.Join(dir, "out.md")
	var log strings.Builder
	if err := run(t.Context(), in, ix, out, false, &log); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"P1 **1/2**, 50%\n", "P1 **1/3**, P2 1/1, P3 \n",
		"| SM statuses | 1/2 | 1/1 |  |\n", "| GO goals | 0/1 |  |  |\n",
		"| SM-002 | P1 | pkg/task.TestEdges |\n", "| SM-003 | P2 | pkg/task.TestEdges |\n",
		"P1 not proven: SM-001\n", "## GO goals\n\nP1 not proven: GO-01\n",
	} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("%q is not in\n%s", want, doc)
		}
	}
	if want := "1/3 of all, 1/2 (50%) of the main job's"; !strings.Contains(log.String(), want) {
		t.Errorf("%q is not in %q", want, log.String())
	}
	if err := run(t.Context(), in, ix, out, true, io.Discard); err != nil {
		t.Errorf("what was just written is stale: %v", err)
	}
}

func TestAStaleDocumentIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	ix := write(t, filepath.Join(dir, "index.tsv"), index)
	in := write(t, filepath.Join(dir, "stream.json"), stream)
	out := write(t, filepath.Join(dir, "out.md"), "old\n")
	err := run(t.Context(), in, ix, out, true, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "stale:\n  - old\n  + # Requirements") {
		t.Errorf("got %v", err)
	}
	if doc, _ := os.ReadFile(out); string(doc) != "old\n" {
		t.Errorf("the check wrote %q", doc)
	}
}

func TestWhatCannotBeTrustedIsAnError(t *testing.T) {
	dir := t.TempDir()
	ix := write(t, filepath.Join(dir, "index.tsv"), index)
	for name, test := range map[string]struct{ index, stream, want string }{
		"unknown id":   {index, strings.ReplaceAll(stream, "SM-003", "XX-001"), "claims XX-001"},
		"no stream":    {index, "FAIL\n", "no output of go test -json"},
		"twice":        {index + "GO-01\tP1\tGO goals\n", stream, "GO-01 comes twice"},
		"short column": {index + "GO-02\tP1\n", stream, "want three columns"},
	} {
		write(t, ix, test.index)
		in := write(t, filepath.Join(dir, "stream.json"), test.stream)
		err := run(t.Context(), in, ix, filepath.Join(dir, "out.md"), false, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSampledCasesAreListedUnderTheirTest(t *testing.T) {
	for name, want := range map[string]string{
		"TestA": "TestA", "TestA/plane/edge": "TestA/plane/edge", "TestA/10-false": "TestA", "TestA/reject/7/x": "TestA/reject",
		"TestA/plane#01/run": "TestA/plane/run", "TestA/C#": "TestA/C", "TestA/issue#x": "TestA/issue#x",
	} {
		if got := stable(name); got != want {
			t.Errorf("%s is listed as %s, want %s", name, got, want)
		}
	}
}

func TestWhatAMachineSkipsMakesNothingStale(t *testing.T) {
	dir := t.TempDir()
	ix := write(t, filepath.Join(dir, "index.tsv"), index)
	out := filepath.Join(dir, "out.md")
	if err := run(t.Context(), write(t, filepath.Join(dir, "all.json"), stream), ix, out, false, io.Discard); err != nil {
		t.Fatal(err)
	}
	skips := strings.Replace(stream, `"pass","Package":"github.com/lazyplane/lazyplane/pkg/task","Test"`, `"skip","Package":"github.com/lazyplane/lazyplane/pkg/task","Test"`, 1)
	var log strings.Builder
	if err := run(t.Context(), write(t, filepath.Join(dir, "skips.json"), skips), ix, out, true, &log); err != nil {
		t.Error(err)
	}
	if want := "2 claims rest on tests that were skipped here"; !strings.Contains(log.String(), want) {
		t.Errorf("%q is not in %q", want, log.String())
	}
	gone := strings.Replace(stream, `"Test":"TestEdges","Key"`, `"Test":"TestOther","Key"`, 1)
	if err := run(t.Context(), write(t, filepath.Join(dir, "gone.json"), gone), ix, out, true, io.Discard); err == nil {
		t.Error("a claim that no test makes any more is not stale")
	}
}
