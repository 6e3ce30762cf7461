package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A workspace is made between the start of a task and its agent, so each program
// that is started for it is one that a person waits for.
func TestAWorkspaceTakesThreeCallsOfGit(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	script := "#!/bin/sh\nprintf '%s\\n' \"$*\" >>'" + calls + "'\nexec '" + real + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	f.repo.git.path = filepath.Join(dir, "git")
	f.workspace()
	b, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, want := range []string{"update-ref", "read-tree", "rev-parse"} {
		n := 0
		for _, call := range all {
			if strings.Contains(call, want) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d calls of %s", n, want)
		}
	}
	if len(all) != 3 {
		t.Errorf("%d calls:\n%s", len(all), b)
	}
}
