package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// withSubmodules gives the fixture two submodules.
func withSubmodules(t *testing.T, f *fixture) {
	t.Helper()
	sub := t.TempDir()
	gitIn(t, sub, nil, "init", "-q", "-b", "main", ".")
	write(t, sub, "skills/tool.sh", "echo tool\n")
	gitIn(t, sub, nil, "add", "-A")
	gitIn(t, sub, nil, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "sub")
	for _, at := range []string{"vendor/sub", "lost"} {
		f.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, at)
	}
	f.commit("submodules")
}

// B19: an agent finds the files of submodules in its workspace; what is not on this
// machine is named, and the workspace is there all the same.
func TestAWorkspaceHasTheFilesOfItsSubmodules(t *testing.T) {
	req.Covers(t, "B19", "GT-003")
	f := newFixture(t)
	withSubmodules(t, f)
	must(t, os.RemoveAll(filepath.Join(f.dir, ".git", "modules", "lost")))
	f.open()
	ws, u := f.workspace()
	if got := read(t, ws.Tree, "vendor/sub/skills/tool.sh"); got != "echo tool\n" {
		t.Errorf("the submodule has %q", got)
	}
	if len(ws.Unfilled) != 1 || !strings.HasPrefix(ws.Unfilled[0], "lost: ") || !strings.Contains(ws.Unfilled[0], "submodule update") {
		t.Errorf("unfilled are %q", ws.Unfilled)
	}
	if st, err := u.Status(t.Context()); err != nil || len(st.Dirty) != 0 {
		t.Errorf("a fresh workspace is %+v, %v", st, err)
	}
	// The agent's work goes beside it; what it does to a submodule's files moves no pin.
	before := f.git("ls-tree", "HEAD", "vendor/sub")
	write(t, ws.Tree, "mine.txt", "mine\n")
	write(t, ws.Tree, "vendor/sub/skills/tool.sh", "echo other\n")
	c := f.save(u, "mine")
	if got := f.git("ls-tree", c.Commit, "vendor/sub"); got != before {
		t.Errorf("the pin went from %s to %s", before, got)
	}
	if got := f.git("diff-tree", "-r", "--name-only", "--no-commit-id", c.Commit); got != "mine.txt" {
		t.Errorf("the commit has %q", got)
	}
}

// What a branch says of its submodules decides nothing: only the base, which people
// own, names a store, and never one outside the repository.
func TestABranchCannotNameTheStoreOfASubmodule(t *testing.T) {
	req.Covers(t, "B19", "GT-024")
	f := newFixture(t)
	withSubmodules(t, f)
	for name, text := range map[string]string{
		"outside":   "[submodule \"../../x\"]\n\tpath = vendor/sub\n",
		"an option": "[submodule \"--upload-pack=x\"]\n\tpath = vendor/sub\n",
		"not ours":  "[core]\n\tfsmonitor = touch pwned\n",
	} {
		f.write(".gitmodules", text)
		f.commit(name)
		f.open()
		base := f.git("rev-parse", "HEAD")
		ws, err := f.repo.CreateWorkspace(t.Context(), WorkspaceSpec{
			StateDir: filepath.Join(t.TempDir(), "s"), TaskShort: "0000000" + string(name[0]), Branch: "lazy/" + string(name[0]), Base: base,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(ws.Unfilled) != 2 {
			t.Errorf("%s: unfilled are %q", name, ws.Unfilled)
		}
		if left, err := os.ReadDir(filepath.Join(ws.Tree, "vendor", "sub")); err != nil || len(left) != 0 {
			t.Errorf("%s: %v %v", name, left, err)
		}
	}
}
