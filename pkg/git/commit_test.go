package git

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestACommitHoldsTheWholeWorkspaceAndLeavesGitInsideClean(t *testing.T) {
	f := newFixture(t)
	ws, u := f.workspace()
	equal(t, "status of a fresh workspace", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "")
	write(t, ws.Tree, "a.txt", "changed\n")
	write(t, ws.Tree, "new/deep/file", "new\n")
	write(t, ws.Tree, "noise.log", "ignored\n")
	write(t, ws.Tree, "build/out", "ignored\n")
	must(t, os.Remove(filepath.Join(ws.Tree, "dir/b.txt")))
	must(t, os.Symlink("a.txt", filepath.Join(ws.Tree, "link")))
	must(t, os.WriteFile(filepath.Join(ws.Tree, "run.sh"), []byte("#!/bin/sh\n"), 0o755))

	st, err := u.Status(t.Context())
	must(t, err)
	equal(t, "dirty", names(st.Dirty), "a.txt dir/b.txt link new/deep/file run.sh")

	c := f.save(u, "work")
	equal(t, "files", names(c.Files), "a.txt dir/b.txt link new/deep/file run.sh")
	equal(t, "branch", f.git("rev-parse", "lazy/fix"), c.Commit)
	equal(t, "tree", f.git("ls-tree", "-r", "--name-only", "lazy/fix"), ".gitignore\na.txt\nlink\nnew/deep/file\nrun.sh")
	equal(t, "mode", f.git("ls-tree", "lazy/fix", "run.sh", "link")[:6], "120000")
	equal(t, "status inside", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "")
	equal(t, "fsck", f.git("fsck", "--strict", "--no-dangling"), "")
	if _, err := u.Prepare(t.Context(), CommitSpec{Message: "again", Author: author, When: when}); !errors.Is(err, ErrNothing) {
		t.Fatalf("second commit: %v", err)
	}
	st, err = u.Status(t.Context())
	must(t, err)
	equal(t, "dirty after commit", names(st.Dirty), "")
}

func TestNamedFilesAreCommittedAndOthersStay(t *testing.T) {
	f := newFixture(t)
	ws, u := f.workspace()
	write(t, ws.Tree, "a.txt", "changed\n")
	write(t, ws.Tree, "sub/one", "1\n")
	write(t, ws.Tree, "sub/two", "2\n")
	write(t, ws.Tree, "staged.txt", "staged\n")
	gitIn(t, ws.Tree, ws.Env(), "add", "staged.txt")
	must(t, os.Remove(filepath.Join(ws.Tree, "dir/b.txt")))
	spec := CommitSpec{Message: "part", Author: author, When: when, Files: []string{"sub", "dir/b.txt"}}
	c, err := u.Prepare(t.Context(), spec)
	must(t, err)
	equal(t, "files", names(c.Files), "dir/b.txt sub/one sub/two")
	must(t, f.repo.MoveRef(t.Context(), "refs/heads/lazy/fix", c.Commit, c.Parent))
	must(t, u.Refresh(t.Context(), c.Commit))
	equal(t, "inside", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), " M a.txt\nA  staged.txt")
	st, err := u.Status(t.Context())
	must(t, err)
	equal(t, "dirty", names(st.Dirty), "a.txt staged.txt")
	for _, bad := range []string{"none.txt", "../x", "/etc/passwd", ".git/config", "-x", "a.txt\x00"} {
		spec.Files = []string{bad}
		if _, err := u.Prepare(t.Context(), spec); err == nil || errors.Is(err, ErrNothing) {
			t.Errorf("file %q: %v", bad, err)
		}
	}
}

func TestStatusSeesWhatGitStatusSees(t *testing.T) {
	f := newFixture(t)
	f.write("keep/.gitignore", "*\n!.gitignore\n!yes*\n")
	f.write("tracked.log", "tracked though ignored\n")
	f.git("add", "-f", "tracked.log")
	f.commit("ignores")
	ws, u := f.workspace()
	for _, name := range []string{
		"un tracked", "-dash", ":colon", "tab\tname", "line\nname", "\xff\xfe", "x.log", "build/deep/x", "deep/x.log", "deep/y",
		"keep/no", "keep/yes1", "tracked.log", "\"quoted\"", "*star", "ünï",
	} {
		write(t, ws.Tree, name, "x\n")
	}
	must(t, os.Chmod(filepath.Join(ws.Tree, "a.txt"), 0o755))
	must(t, os.Mkdir(filepath.Join(ws.Tree, "empty"), 0o755))
	st, err := u.Status(t.Context())
	must(t, err)
	want := map[string]bool{}
	for _, rec := range splitZ([]byte(gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain", "-z", "-uall"))) {
		want[rec[3:]] = true
	}
	equal(t, "dirty", names(st.Dirty), names(sortedKeys(want)))
}

func TestIgnoredFilesAreCommittedOnlyWhenTheAgentAddsThem(t *testing.T) {
	f := newFixture(t)
	f.write("secret.txt", "tracked by mistake\n")
	f.commit("mistake")
	ws, u := f.workspace()
	write(t, ws.Tree, "added.log", "x\n")
	write(t, ws.Tree, "other.log", "x\n")
	gitIn(t, ws.Tree, ws.Env(), "add", "-f", "added.log")
	gitIn(t, ws.Tree, ws.Env(), "rm", "-q", "--cached", "secret.txt")
	write(t, ws.Tree, ".gitignore", "*.log\nsecret.txt\n")
	c := f.save(u, "ignores")
	equal(t, "files", names(c.Files), ".gitignore added.log secret.txt")
	equal(t, "tree", f.git("ls-tree", "-r", "--name-only", c.Commit), ".gitignore\na.txt\nadded.log\ndir/b.txt")
	equal(t, "inside", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "")
	equal(t, "still there", read(t, ws.Tree, "secret.txt"), "tracked by mistake\n")
}

func TestLineEndingsBecomeWhatAttributesSayAndFilesStayAsTheyAre(t *testing.T) {
	f := newFixture(t)
	f.write(".gitattributes", "* text=auto eol=lf\n*.bat text eol=crlf\n*.bin -text\n")
	f.commit("attributes")
	f.write("run.bat", "one\r\n")
	f.commit("bat")
	ws, u := f.workspace()
	equal(t, "checked out", read(t, ws.Tree, "run.bat"), "one\r\n")
	write(t, ws.Tree, "text.txt", "crlf\r\n")
	write(t, ws.Tree, "raw.bin", "crlf\r\n")
	write(t, ws.Tree, "run.bat", "one\r\ntwo\r\n")
	c := f.save(u, "endings")
	equal(t, "text", f.git("cat-file", "-p", c.Commit+":text.txt"), "crlf")
	equal(t, "raw", f.git("cat-file", "-p", c.Commit+":raw.bin"), "crlf\r")
	equal(t, "bat", f.git("cat-file", "-p", c.Commit+":run.bat"), "one\ntwo")
	equal(t, "file", read(t, ws.Tree, "text.txt"), "crlf\r\n")
	equal(t, "inside", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "")
}

func TestAnEmbeddedRepositoryIsReportedAndNotEntered(t *testing.T) {
	req.Covers(t, "GT-024")
	f := newFixture(t)
	ws, u := f.workspace()
	nested := filepath.Join(ws.Tree, "nested")
	must(t, os.Mkdir(nested, 0o755))
	gitIn(t, nested, nil, "init", "-q", ".")
	write(t, nested, "inner.txt", "x\n")
	write(t, ws.Tree, "outer.txt", "x\n")
	st, err := u.Status(t.Context())
	must(t, err)
	equal(t, "dirty", names(st.Dirty), "nested/ outer.txt")
	c := f.save(u, "outer")
	equal(t, "skipped", names(c.Skipped), "nested/")
	equal(t, "files", names(c.Files), "outer.txt")
}

func TestAMergeThatNobodyStartedHereIsNotConcluded(t *testing.T) {
	req.Covers(t, "GT-010")
	f := newFixture(t)
	f.git("checkout", "-q", "-b", "sibling")
	f.write("secret-sibling.txt", "x\n")
	sibling := f.commit("sibling")
	f.git("checkout", "-q", "main")
	ws, u := f.workspace()
	gitIn(t, ws.Tree, ws.Env(), "merge", "-q", "--no-commit", "--no-ff", "sibling")
	write(t, ws.Tree, "a.txt", "work\n")
	spec := CommitSpec{Message: "x", Author: author, When: when}
	for _, parents := range [][]string{nil, {u.tip}} {
		spec.MergeParents = parents
		if _, err := u.Prepare(t.Context(), spec); !errors.Is(err, ErrForeignMerge) {
			t.Fatalf("commit: %v", err)
		}
	}
	st, err := u.Status(t.Context())
	must(t, err)
	equal(t, "merging", st.Merging, sibling)
}

func TestAnIndexThatCannotBeReadCostsTimeOnly(t *testing.T) {
	for name, spoil := range map[string]func(ws Workspace){
		"garbage":   func(ws Workspace) { write(t, ws.GitDir, "index", "DIRC\x00\x00\x00\x02\xff\xff\xff\xff") },
		"missing":   func(ws Workspace) { must(t, os.Remove(filepath.Join(ws.GitDir, "index"))) },
		"split":     func(ws Workspace) { gitIn(t, ws.Tree, ws.Env(), "update-index", "--split-index") },
		"version 4": func(ws Workspace) { gitIn(t, ws.Tree, ws.Env(), "update-index", "--index-version", "4") },
		"link":      func(ws Workspace) { must(t, replaceLink(ws.GitDir, "index", "HEAD")) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			ws, u := f.workspace()
			spoil(ws)
			write(t, ws.Tree, "a.txt", "work\n")
			write(t, ws.Tree, "x.log", "ignored\n")
			c := f.save(u, "work")
			equal(t, "files", names(c.Files), "a.txt")
			equal(t, "inside", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain"), "")
		})
	}
}

func TestABranchThatMovedMeanwhileIsALostRace(t *testing.T) {
	f := newFixture(t)
	ws, u := f.workspace()
	write(t, ws.Tree, "a.txt", "work\n")
	c, err := u.Prepare(t.Context(), CommitSpec{Message: "x", Author: author, When: when})
	must(t, err)
	f.write("other.txt", "x")
	other := f.commit("other")
	f.git("update-ref", "refs/heads/lazy/fix", other)
	if err := f.repo.MoveRef(t.Context(), "refs/heads/lazy/fix", c.Commit, c.Parent); !errors.Is(err, ErrLostRace) {
		t.Fatalf("move: %v", err)
	}
	if err := f.repo.FinishCommit(t.Context(), "refs/heads/lazy/fix", c.Parent, c.Commit); !errors.Is(err, ErrLostRace) {
		t.Fatalf("finish: %v", err)
	}
	equal(t, "branch", f.git("rev-parse", "lazy/fix"), other)
}
