package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// An agent works while the branch it will merge into moves on: it brings its own
// branch up to date twice, resolves the conflict of the second time, commits, and
// the task is accepted.
func TestAnAgentSyncsItsOwnBranchInItsTurnAndIsAccepted(t *testing.T) {
	req.Covers(t, "CM-037", "CM-038", "SN-005")
	w := begin(t, `
sync() { lazy-agent call lazy_sync "{\"task_id\":\"$LAZY_TASK\"}" >>sync.log || exit 7; }
touch begun.log
until [ -e go.log ]; do sleep 0.02; done
sync; [ "$(cat up.txt)" = one ] || exit 3
echo mine >up.txt; lazy-agent call lazy_commit '{"message":"mine"}' >/dev/null || exit 4
touch mine.log; until [ -e again.log ]; do sleep 0.02; done
sync; grep -q '<<<<<<<' up.txt || exit 5
echo both >up.txt; git add up.txt; lazy-agent call lazy_commit '{"message":"resolved"}' >/dev/null || exit 6
sync; lazy-agent call lazy_final '{"note":"done"}' >/dev/null
`, "")
	write(t, w.root, ".git/info/exclude", "*.log\n")
	w.call("createTask", map[string]any{"goal": "Follow", "prompt": "x", "code": "follow"})
	w.call("startTask", map[string]any{"task_id": "follow"})
	trees, err := filepath.Glob(filepath.Join(w.paths.Dir, "tasks", "*", "tree"))
	if err != nil || len(trees) != 1 {
		t.Fatalf("workspaces: %v, %v", trees, err)
	}
	move := func(content, message string) {
		write(t, w.root, "up.txt", content)
		git(t, w.root, "add", "up.txt")
		git(t, w.root, "commit", "-q", "-m", message)
	}
	move("one\n", "first upstream")
	write(t, trees[0], "go.log", "")
	for _, err := os.Stat(filepath.Join(trees[0], "mine.log")); err != nil; _, err = os.Stat(filepath.Join(trees[0], "mine.log")) {
		select {
		case <-t.Context().Done():
			t.Fatal("the agent never committed")
		case <-time.After(10 * time.Millisecond):
		}
	}
	move("two\n", "second upstream")
	write(t, trees[0], "again.log", "")
	if got := w.rest("follow")["status"]; got != "blocked" {
		t.Fatalf("the turn left the task %v: %v", got, turns(w, "follow"))
	}
	if got := git(t, w.root, "show", "lazy/follow:up.txt"); got != "both" {
		t.Errorf("the branch has %q", got)
	}
	if got := git(t, w.root, "rev-parse", "lazy/follow^2"); got != git(t, w.root, "rev-parse", "main") {
		t.Errorf("the resolved merge has the second parent %s", got)
	}
	w.call("acceptTask", map[string]any{"task_id": "follow"})
	w.rest("follow")
	if got := git(t, w.root, "show", "main:up.txt"); got != "both" {
		t.Errorf("main has %q", got)
	}
}
