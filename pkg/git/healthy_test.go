package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// Whatever an agent stages and commits in its workspace, the person's own git goes
// on: what only the task's objects hold is reachable from nothing in the repository.
func TestWhatAnAgentStagesOrDetachesLeavesThePersonsGitAlone(t *testing.T) {
	req.Covers(t, "GT-004", "GT-025", "P9")
	for name, work := range map[string][][]string{
		"staged":   {{"add", "x"}},
		"detached": {{"add", "x"}, {"checkout", "-q", "--detach"}, {"commit", "-q", "-m", "inside"}},
		"worktree ref": {
			{"add", "x"}, {"symbolic-ref", "HEAD", "refs/worktree/mine"}, {"commit", "-q", "-m", "inside"},
		},
		"bisect": {{"add", "x"}, {"checkout", "-q", "--detach"}, {"commit", "-q", "-m", "inside"}, {"update-ref", "refs/bisect/bad", "HEAD"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			ws, u := f.workspace()
			other := filepath.Join(filepath.Dir(f.dir), "upstream")
			gitIn(t, f.dir, nil, "clone", "-q", f.dir, other)
			gitIn(t, other, nil, "-c", "user.name=B", "-c", "user.email=b@example.com", "commit", "-q", "--allow-empty", "-m", "upstream")
			write(t, ws.Tree, "x", name+"\n")
			for _, args := range work {
				gitIn(t, ws.Tree, ws.Env(), append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
			}
			f.git("log", "--all", "--oneline")
			f.git("gc", "-q", "--prune=now")
			f.git("fetch", "-q", other, "main")
			f.git("pull", "-q", "--ff-only", other, "main")
			if out := f.git("fsck", "--connectivity-only"); strings.Contains(out, "missing") {
				t.Errorf("fsck: %s", out)
			}
			if out := f.git("worktree", "list", "--porcelain"); !strings.Contains(out, "worktree "+ws.Tree) || !strings.Contains(out, "branch refs/heads/lazy/fix") {
				t.Errorf("the task's worktree is listed as %s", out)
			}
			at, ok, err := f.repo.CheckedOut(t.Context(), "lazy/fix")
			must(t, err)
			if !ok || at.Path != ws.Tree || !at.Workspace() {
				t.Errorf("the branch is checked out at %+v, %t", at, ok)
			}
			// The agent's own git still has it all, and finds its way back.
			gitIn(t, ws.Tree, ws.Env(), "rev-parse", ":x")
			gitIn(t, ws.Tree, ws.Env(), "log", "-1", "HEAD")
			st, err := u.Status(t.Context())
			must(t, err)
			if drifted := st.Drifted != ""; drifted != (name != "staged") {
				t.Errorf("HEAD is reported as %q", st.Drifted)
			}
			must(t, f.repo.RemoveWorkspace(t.Context(), ws))
			for _, left := range []string{ws.GitDir, filepath.Join(f.dir, ".git/worktrees/lazy-3f2a9c1e")} {
				if _, err := os.Lstat(left); err == nil {
					t.Errorf("%s was left", left)
				}
			}
		})
	}
}
