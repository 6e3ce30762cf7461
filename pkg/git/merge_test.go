package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// diverge commits "ours" in the workspace and "theirs" on main, both in a.txt
// when conflicting, and returns the upstream commit.
func (f *fixture) diverge(ws Workspace, u *Untrusted, conflicting bool) string {
	f.t.Helper()
	write(f.t, ws.Tree, "a.txt", "ours\n")
	f.save(u, "ours")
	if conflicting {
		f.write("a.txt", "theirs\n")
	}
	f.write("up/stream.txt", "theirs\n")
	must(f.t, os.Remove(filepath.Join(f.dir, "dir/b.txt")))
	return f.commit("theirs")
}

func TestACleanMergeTouchesTheWorkspaceOnlyWhenItAdvances(t *testing.T) {
	f := newFixture(t)
	ws, u := f.workspace()
	up := f.diverge(ws, u, false)
	write(t, ws.Tree, "mine.txt", "uncommitted\n")
	tip := u.tip
	m, err := u.MergeInto(t.Context(), up, "Merge main", author, when)
	must(t, err)
	equal(t, "kind", m.Kind, Merged)
	equal(t, "status before", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "?? mine.txt")
	must(t, f.repo.MoveRef(t.Context(), "refs/heads/lazy/fix", m.Commit, tip))
	must(t, u.Advance(t.Context(), m.Commit))
	equal(t, "status after", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "?? mine.txt")
	equal(t, "file", read(t, ws.Tree, "up/stream.txt"), "theirs\n")
	if _, err := os.Lstat(filepath.Join(ws.Tree, "dir")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("dir: %v", err)
	}
	m, err = u.MergeInto(t.Context(), up, "Merge main", author, when)
	must(t, err)
	equal(t, "again", m.Kind, UpToDate)
}

func TestABranchThatIsOnlyBehindFastForwards(t *testing.T) {
	f := newFixture(t)
	ws, u := f.workspace()
	f.write("a.txt", "theirs\n")
	up := f.commit("theirs")
	m, err := u.MergeInto(t.Context(), up, "Merge main", author, when)
	must(t, err)
	equal(t, "kind", m.Kind, FastForward)
	equal(t, "commit", m.Commit, up)
	must(t, f.repo.MoveRef(t.Context(), "refs/heads/lazy/fix", m.Commit, u.tip))
	must(t, u.Advance(t.Context(), up))
	equal(t, "file", read(t, ws.Tree, "a.txt"), "theirs\n")
}

func TestAConflictIsLeftForTheAgentAndConcludedByTheBroker(t *testing.T) {
	req.Covers(t, "GT-012", "GT-016")
	f := newFixture(t)
	ws, u := f.workspace()
	up := f.diverge(ws, u, true)
	m, err := u.MergeInto(t.Context(), up, "Merge main", author, when)
	must(t, err)
	equal(t, "kind", m.Kind, Conflicted)
	equal(t, "files", names(m.Files), "a.txt")
	if s := read(t, ws.Tree, "a.txt"); !strings.Contains(s, "<<<<<<<") || !strings.Contains(s, "theirs") {
		t.Fatalf("a.txt: %q", s)
	}
	equal(t, "inside", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "UU a.txt\nD  dir/b.txt\nA  up/stream.txt")
	st, err := u.Status(t.Context())
	must(t, err)
	equal(t, "mid merge", st.MidMerge, true)
	equal(t, "merging", st.Merging, up)
	equal(t, "unmerged", names(st.Unmerged), "a.txt")

	spec := CommitSpec{Message: "Merge main", Author: author, When: when, MergeParents: []string{up}}
	if _, err := u.Prepare(t.Context(), spec); !errors.Is(err, ErrUnmerged) {
		t.Fatalf("commit of an unresolved merge: %v", err)
	}
	write(t, ws.Tree, "a.txt", "both\n")
	gitIn(t, ws.Tree, ws.Env(), "add", "a.txt")
	if _, err := u.Prepare(t.Context(), CommitSpec{Message: "x", Author: author, When: when}); !errors.Is(err, ErrForeignMerge) {
		t.Fatalf("commit of a merge nobody asked for: %v", err)
	}
	c := f.save(u, "Merge main", up)
	equal(t, "parents", f.git("rev-list", "--parents", "-1", "lazy/fix"), c.Commit+" "+c.Parent+" "+up)
	equal(t, "inside after", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "")
	if _, err := u.Prepare(t.Context(), spec); !errors.Is(err, ErrNoMerge) {
		t.Fatalf("conclude without a merge: %v", err)
	}
}

func TestAMergeOverUncommittedEditsIsRefusedByName(t *testing.T) {
	f := newFixture(t)
	ws, u := f.workspace()
	up := f.diverge(ws, u, false)
	write(t, ws.Tree, "up/stream.txt", "mine\n")
	_, err := u.MergeInto(t.Context(), up, "Merge main", author, when)
	o, ok := errors.AsType[*Overlap](err)
	if !ok || names(o.Files) != "up/stream.txt" {
		t.Fatalf("merge: %v", err)
	}
	equal(t, "file", read(t, ws.Tree, "up/stream.txt"), "mine\n")
}

func TestSettlingAbortsAndKeepsEditsElsewhere(t *testing.T) {
	req.Covers(t, "GT-013", "GT-014")
	f := newFixture(t)
	ws, u := f.workspace()
	up := f.diverge(ws, u, true)
	write(t, ws.Tree, ".gitignore", "*.log\nbuild/\nmine\n")
	_, err := u.MergeInto(t.Context(), up, "Merge main", author, when)
	must(t, err)
	to := Recovery{Dir: filepath.Join(t.TempDir(), "recovery"), When: when}
	res, err := u.Settle(t.Context(), to)
	must(t, err)
	equal(t, "how", res.How, "abort")
	equal(t, "found", names(res.Found), "a.txt")
	equal(t, "inside", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), " M .gitignore")
	equal(t, "a.txt", read(t, ws.Tree, "a.txt"), "ours\n")
	equal(t, "patch", res.Patch, "")
	res, err = u.Settle(t.Context(), to)
	must(t, err)
	equal(t, "again", res.How, "none")
}

func TestSettlingSavesAPatchBeforeItResetsAndElseDoesNothing(t *testing.T) {
	req.Covers(t, "GT-014", "GT-015")
	f := newFixture(t)
	ws, u := f.workspace()
	up := f.diverge(ws, u, true)
	_, err := u.MergeInto(t.Context(), up, "Merge main", author, when)
	must(t, err)
	write(t, ws.Tree, "up/stream.txt", "edited after the merge wrote it\n")
	write(t, ws.Tree, "untracked.bin", "\x00\xff")

	blocked := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(blocked, nil, 0o600))
	before := gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain")
	res, err := u.Settle(t.Context(), Recovery{Dir: blocked, When: when})
	if err == nil || res.Settled || len(res.Commands) == 0 || res.Tree != ws.Tree {
		t.Fatalf("settle without a place for the patch: %+v %v", res, err)
	}
	equal(t, "nothing was done", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), before)

	res, err = u.Settle(t.Context(), Recovery{Dir: filepath.Join(t.TempDir(), "recovery"), When: when})
	must(t, err)
	equal(t, "how", res.How, "reset")
	equal(t, "name", filepath.Base(res.Patch), "merge-settle-20231114T221320Z.patch")
	equal(t, "inside", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "?? untracked.bin")
	must(t, os.Remove(filepath.Join(ws.Tree, "untracked.bin")))
	gitIn(t, ws.Tree, ws.Env(), "apply", res.Patch)
	equal(t, "edit", read(t, ws.Tree, "up/stream.txt"), "edited after the merge wrote it\n")
	equal(t, "binary", read(t, ws.Tree, "untracked.bin"), "\x00\xff")
}
