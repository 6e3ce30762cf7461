package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAMutantThatTimedOutCountsAsAlive(t *testing.T) {
	r, err := read("pkg/x", []byte(`{"files":[{"file_name":"b.go","mutations":[
		{"type":"A","status":"KILLED","line":1,"column":2},{"type":"B","status":"LIVED","line":3,"column":4},
		{"type":"C","status":"TIMED OUT","line":5,"column":6},{"type":"D","status":"NOT COVERED"},
		{"type":"E","status":"NOT VIABLE"},{"type":"F","status":"SKIPPED"},{"type":"G","status":"KILLED"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.covered() != 4 || r.percent() != 50 || r.notCovered != 1 {
		t.Errorf("got %+v, %d covered, %v in 100", r, r.covered(), r.percent())
	}
	if want := []string{"pkg/x/b.go:3:4 lived B", "pkg/x/b.go:5:6 timed out C"}; !slices.Equal(r.alive, want) {
		t.Errorf("got %q, want %q", r.alive, want)
	}
}

func TestAStatusNobodyKnowsIsAnError(t *testing.T) {
	if _, err := read("x", []byte(`{"files":[{"mutations":[{"status":"EATEN"}]}]}`)); err == nil {
		t.Error("it was counted")
	}
}

func TestPackagesThatWouldBeMismeasuredAreSkipped(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, text := range map[string]string{
		"good/x.go": "package good", "good/x_test.go": "package good_test",
		"command/x.go": "package main", "command/x_test.go": "package main",
		"untested/x.go": "package untested",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pkg, want := range map[string]string{
		"good": "", "command": "its name, main, is not", "untested": "no tests", "absent": "no such package",
	} {
		if got := unfit(pkg); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: got %q, want %q", pkg, got, want)
		}
	}
}
