package git

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestAMergeConflictIsTypedAndMovesNothing(t *testing.T) {
	req.Covers(t, "AP-022")
	f := newFixture(t)
	ws, u := f.workspace()
	f.diverge(ws, u, true)
	before := f.git("for-each-ref")
	_, err := f.repo.PlanSquash(t.Context(), "main", u.tip)
	c, ok := errors.AsType[*Conflict](err)
	if !ok || names(c.Files) != "a.txt" {
		t.Fatalf("plan: %v", err)
	}
	equal(t, "refs", f.git("for-each-ref"), before)
	equal(t, "status", f.git("status", "--porcelain"), "")
}

func TestTheSameLandingMakesTheSameCommitAndIsFoundByItsMarker(t *testing.T) {
	req.Covers(t, "AP-018")
	f := newFixture(t)
	sq, sha := f.planned()
	again, err := f.repo.CommitSquash(t.Context(), sq, WithMarker("land", "task-1"), author, when)
	must(t, err)
	equal(t, "commit", again, sha)
	found, err := f.repo.FindMarked(t.Context(), "main", sq.TargetHead, "task-1")
	must(t, err)
	equal(t, "before", found, "")
	must(t, f.repo.Land(t.Context(), sq, sha))
	found, err = f.repo.FindMarked(t.Context(), "main", sq.TargetHead, "task-1")
	must(t, err)
	equal(t, "after", found, sha)
	found, err = f.repo.FindMarked(t.Context(), "main", sq.TargetHead, "task")
	must(t, err)
	equal(t, "another task", found, "")
}

func TestATargetThatMovedSinceThePlanIsALostRace(t *testing.T) {
	for name, out := range map[string]bool{"checked out": true, "not checked out": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			sq, sha := f.planned()
			f.write("later.txt", "x")
			later := f.commit("later")
			if !out {
				f.git("checkout", "-q", "--detach")
			}
			if err := f.repo.Land(t.Context(), sq, sha); !errors.Is(err, ErrLostRace) {
				t.Fatalf("land: %v", err)
			}
			equal(t, "main", f.git("rev-parse", "main"), later)
			equal(t, "status", f.git("status", "--porcelain"), "")
			equal(t, "lock is free", f.git("add", "-A"), "")
		})
	}
}

func TestABranchWithoutCommitsIsNotTakenForMerged(t *testing.T) {
	req.Covers(t, "B11", "B12")
	f := newFixture(t)
	ws, u := f.workspace()
	base := u.tip
	ok, err := f.repo.Absorbed(t.Context(), "main", base, base)
	must(t, err)
	equal(t, "no commits", ok, false)
	write(t, ws.Tree, "a.txt", "one\n")
	f.save(u, "one")
	write(t, ws.Tree, "b.txt", "two\n")
	f.save(u, "two")
	ok, err = f.repo.Absorbed(t.Context(), "main", base, u.tip)
	must(t, err)
	equal(t, "not merged", ok, false)
	f.git("merge", "-q", "--squash", "lazy/fix")
	f.commit("squashed by hand")
	f.write("later.txt", "x")
	f.commit("and work went on")
	ok, err = f.repo.Absorbed(t.Context(), "main", base, u.tip)
	must(t, err)
	equal(t, "squashed elsewhere", ok, true)
	n, err := f.repo.CountCommits(t.Context(), base, u.tip)
	must(t, err)
	equal(t, "commits", n, 2)
}

func TestALandingInALinkedWorktreeOfThePersonTouchesThatOne(t *testing.T) {
	f := newFixture(t)
	sq, _ := f.planned()
	wt := filepath.Join(filepath.Dir(f.dir), "person's worktree")
	f.git("checkout", "-q", "-b", "elsewhere")
	f.git("worktree", "add", "-q", wt, "main")
	must(t, os.WriteFile(filepath.Join(wt, "mine.txt"), []byte("mine\n"), 0o644))
	sha, err := f.repo.CommitSquash(t.Context(), sq, "land", author, when)
	must(t, err)
	at, ok, err := f.repo.CheckedOut(t.Context(), "main")
	must(t, err)
	equal(t, "found", ok, true)
	equal(t, "path", at.Path, wt)
	must(t, f.repo.Land(t.Context(), sq, sha))
	equal(t, "status there", gitIn(t, wt, nil, "status", "--porcelain"), "?? mine.txt")
	equal(t, "status here", f.git("status", "--porcelain"), "")
	equal(t, "file there", read(t, wt, "a.txt"), "task\n")
}

func TestALandingOnAParentTasksBranchGoesThroughItsWorkspace(t *testing.T) {
	f := newFixture(t)
	parent, pu := f.workspace()
	child, err := f.repo.CreateWorkspace(t.Context(), WorkspaceSpec{
		StateDir: filepath.Join(filepath.Dir(f.dir), "child"), TaskShort: "aaaaaaaa", Branch: "lazy/child", Base: pu.tip,
	})
	must(t, err)
	cu, err := f.repo.Untrusted(child, pu.tip)
	must(t, err)
	write(t, child.Tree, "child.txt", "child\n")
	c := f.save(cu, "child work")
	sq, err := f.repo.PlanSquash(t.Context(), "lazy/fix", c.Commit)
	must(t, err)
	sha, err := f.repo.CommitSquash(t.Context(), sq, "land", author, when)
	must(t, err)
	if err := f.repo.Land(t.Context(), sq, sha); !errors.Is(err, ErrUnsupported) {
		t.Fatalf("land in a workspace: %v", err)
	}
	must(t, f.repo.MoveRef(t.Context(), "refs/heads/lazy/fix", sha, sq.TargetHead))
	must(t, pu.Advance(t.Context(), sha))
	equal(t, "parent", gitIn(t, parent.Tree, parent.Env(), "status", "--porcelain"), "")
	equal(t, "file", read(t, parent.Tree, "child.txt"), "child\n")
}

func TestALandingUnderAnUnresolvedMergeOfThePersonIsRefused(t *testing.T) {
	f := newFixture(t)
	sq, _ := f.planned()
	f.git("checkout", "-q", "-b", "side")
	f.write("c.txt", "side\n")
	f.commit("side")
	f.git("checkout", "-q", "main")
	f.write("c.txt", "main\n")
	head := f.commit("main")
	sq, err := f.repo.PlanSquash(t.Context(), "main", sq.Tip)
	must(t, err)
	sha, err := f.repo.CommitSquash(t.Context(), sq, "land", author, when)
	must(t, err)
	if _, err := tryGit(t, f.dir, nil, "merge", "side"); err == nil {
		t.Fatal("no conflict")
	}
	if err := f.repo.Land(t.Context(), sq, sha); !errors.Is(err, ErrUnmerged) {
		t.Fatalf("land: %v", err)
	}
	equal(t, "main", f.git("rev-parse", "main"), head)
	f.git("merge", "--abort") // works: the lock was given back
}
