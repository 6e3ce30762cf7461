package git

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// landing is a task with one commit, planned against main.
func (f *fixture) planned() (Squash, string) {
	f.t.Helper()
	ws, u := f.workspace()
	write(f.t, ws.Tree, "a.txt", "task\n")
	write(f.t, ws.Tree, "new/file.txt", "new\n")
	must(f.t, os.Remove(filepath.Join(ws.Tree, "dir/b.txt")))
	c := f.save(u, "work")
	sq, err := f.repo.PlanSquash(f.t.Context(), "main", c.Commit)
	must(f.t, err)
	sha, err := f.repo.CommitSquash(f.t.Context(), sq, WithMarker("land", "task-1"), author, when)
	must(f.t, err)
	return sq, sha
}

func TestALandingMovesTheCheckedOutBranchAndItsFilesTogether(t *testing.T) {
	req.Covers(t, "AP-005", "UW-001")
	f := newFixture(t)
	f.write("c.txt", "c\n")
	f.commit("more")
	sq, sha := f.planned()
	write(t, filepath.Join(f.state(), "tree"), "never-committed.txt", "left over\n")
	equal(t, "files", names(sq.Files), "a.txt dir/b.txt new/file.txt")
	must(t, f.repo.Land(t.Context(), sq, sha))
	equal(t, "main", f.git("rev-parse", "main"), sha)
	equal(t, "parents", f.git("rev-list", "--parents", "-1", "main"), sha+" "+sq.TargetHead)
	equal(t, "status", f.git("status", "--porcelain"), "")
	equal(t, "a.txt", f.read("a.txt"), "task\n")
	equal(t, "tree", f.git("ls-tree", "-r", "--name-only", "main"), ".gitignore\na.txt\nc.txt\nnew/file.txt")
	must(t, f.repo.Land(t.Context(), sq, sha)) // again is done already
	equal(t, "main", f.git("rev-parse", "main"), sha)
	ok, err := f.repo.Landed(t.Context(), "main", sha)
	must(t, err)
	equal(t, "landed", ok, true)
}

func TestEditsThatDoNotOverlapSurviveALandingByteForByte(t *testing.T) {
	req.Covers(t, "AP-013")
	f := newFixture(t)
	f.write("staged.txt", "1\n")
	f.write("unstaged.txt", "1\n")
	f.write("both.txt", "1\n")
	f.commit("more")
	sq, sha := f.planned()
	f.write("staged.txt", "staged edit\n")
	f.write("both.txt", "staged edit\n")
	f.git("add", "staged.txt", "both.txt")
	f.write("both.txt", "and one more\r\n")
	f.write("unstaged.txt", "unstaged \x00 edit")
	f.write("untracked.txt", "untracked\n")
	before := f.git("status", "--porcelain")
	staged := f.git("diff", "--cached", "staged.txt", "both.txt")
	must(t, f.repo.Land(t.Context(), sq, sha))
	equal(t, "status", f.git("status", "--porcelain"), before)
	equal(t, "staged", f.git("diff", "--cached", "staged.txt", "both.txt"), staged)
	equal(t, "both.txt", f.read("both.txt"), "and one more\r\n")
	equal(t, "unstaged.txt", f.read("unstaged.txt"), "unstaged \x00 edit")
	equal(t, "a.txt", f.read("a.txt"), "task\n")
}

func TestALandingOverEditsIsRefusedByNameAndWritesNothing(t *testing.T) {
	req.Covers(t, "AP-013")
	cases := map[string]struct {
		edit func(f *fixture)
		want string
	}{
		"unstaged": {func(f *fixture) { f.write("a.txt", "mine\n") }, "a.txt"},
		"staged":   {func(f *fixture) { f.write("a.txt", "mine\n"); f.git("add", "a.txt") }, "a.txt"},
		"staged, put back": {func(f *fixture) {
			f.write("a.txt", "mine\n")
			f.git("add", "a.txt")
			f.write("a.txt", "a\n")
		}, "a.txt"},
		"edited where it is deleted":  {func(f *fixture) { f.write("dir/b.txt", "mine\n") }, "dir/b.txt"},
		"untracked in the way":        {func(f *fixture) { f.write("new/file.txt", "mine\n") }, "new/file.txt"},
		"ignored in the way":          {func(f *fixture) { f.write(".git/info/exclude", "new\n"); f.write("new/file.txt", "mine\n") }, "new/file.txt"},
		"file where a directory goes": {func(f *fixture) { f.write("new", "mine\n") }, "new"},
		"directory where a file goes": {func(f *fixture) { f.write("new/file.txt/deep", "mine\n") }, "new/file.txt/deep"},
		"link where a directory goes": {func(f *fixture) { must(f.t, os.Symlink("dir", filepath.Join(f.dir, "new"))) }, "new"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			sq, sha := f.planned()
			c.edit(f)
			before, head := f.git("status", "--porcelain", "--ignored"), f.git("rev-parse", "main")
			err := f.repo.Land(t.Context(), sq, sha)
			o, ok := errors.AsType[*Overlap](err)
			if !ok {
				t.Fatalf("land: %v", err)
			}
			equal(t, "files", names(o.Files), c.want)
			equal(t, "path", o.Path, f.dir)
			equal(t, "status", f.git("status", "--porcelain", "--ignored"), before)
			equal(t, "main", f.git("rev-parse", "main"), head)
			at, _, err := f.repo.CheckedOut(t.Context(), "main")
			must(t, err)
			files, err := f.repo.Overlap(t.Context(), at, sq.TargetHead, sq.Tree)
			must(t, err)
			equal(t, "preflight", names(files), c.want)
		})
	}
}
