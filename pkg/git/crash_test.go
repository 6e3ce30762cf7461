package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestALandingKilledAnywhereIsFinishedAndLosesNoEdit(t *testing.T) {
	req.Covers(t, "AP-013", "AP-018", "P4", "P9")
	prepare := func(t *testing.T) (*fixture, job) {
		f := newFixture(t)
		f.write("staged.txt", "1\n")
		f.write("unstaged.txt", "1\n")
		f.commit("more")
		sq, sha := f.planned()
		f.write("staged.txt", "staged edit\n")
		f.git("add", "staged.txt")
		f.write("unstaged.txt", "unstaged \r\n edit")
		f.write("untracked.txt", "untracked\n")
		return f, job{Dir: f.dir, Do: "land", Squash: sq, Commit: sha}
	}
	points := everyCrash(t, prepare, func(t *testing.T, f *fixture, j job, died, _ string) {
		must(t, f.repo.Land(t.Context(), j.Squash, j.Commit))
		equal(t, "main", f.git("rev-parse", "main"), j.Commit)
		equal(t, "status", f.git("status", "--porcelain"), "M  staged.txt\n M unstaged.txt\n?? untracked.txt")
		equal(t, "staged", f.git("show", ":staged.txt"), "staged edit")
		equal(t, "unstaged", f.read("unstaged.txt"), "unstaged \r\n edit")
		equal(t, "landed", f.read("a.txt")+f.read("new/file.txt"), "task\nnew\n")
		if _, err := os.Lstat(filepath.Join(f.dir, ".git/index.lock")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("index.lock after %s: %v", died, err)
		}
		must(t, f.repo.Land(t.Context(), j.Squash, j.Commit))
		equal(t, "landings", f.git("rev-list", "--count", j.Squash.TargetHead+"..main"), "1")
	})
	t.Logf("%d crash points: %s", len(points), strings.Join(points, " "))
	equal(t, "crash points", len(points) >= 8, true)
}

// interrupted leaves a landing as a kill in the middle of its files would.
func interrupted(t *testing.T) (*fixture, Squash, string) {
	t.Helper()
	f := newFixture(t)
	f.write("big.txt", strings.Repeat("old\n", 100))
	f.commit("big")
	ws, u := f.workspace()
	write(t, ws.Tree, "a.txt", "task\n")
	write(t, ws.Tree, "big.txt", strings.Repeat("new\n", 100))
	write(t, ws.Tree, "new/file.txt", "new\n")
	must(t, os.Remove(filepath.Join(ws.Tree, "dir/b.txt")))
	c := f.save(u, "work")
	sq, err := f.repo.PlanSquash(t.Context(), "main", c.Commit)
	must(t, err)
	sha, err := f.repo.CommitSquash(t.Context(), sq, "land", author, when)
	must(t, err)
	died, _ := job{Dir: f.dir, Do: "land", Squash: sq, Commit: sha, Die: 2}.run(t)
	equal(t, "died", died, "git.landing.lock")
	return f, sq, sha
}

func TestALandingKilledBetweenTwoFilesIsFinished(t *testing.T) {
	req.Covers(t, "AP-013", "P9")
	for name, leave := range map[string]func(f *fixture){
		"one file written":  func(f *fixture) { f.write("a.txt", "task\n") },
		"one file deleted":  func(f *fixture) { must(f.t, os.RemoveAll(filepath.Join(f.dir, "dir"))) },
		"one file torn":     func(f *fixture) { f.write("big.txt", strings.Repeat("new\n", 50)+"ne") },
		"one file empty":    func(f *fixture) { f.write("big.txt", "") },
		"one file unlinked": func(f *fixture) { must(f.t, os.Remove(filepath.Join(f.dir, "big.txt"))) },
		"all written": func(f *fixture) {
			f.write("a.txt", "task\n")
			f.write("big.txt", strings.Repeat("new\n", 100))
			f.write("new/file.txt", "new\n")
			must(f.t, os.RemoveAll(filepath.Join(f.dir, "dir")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, sq, sha := interrupted(t)
			leave(f)
			must(t, f.repo.Land(t.Context(), sq, sha))
			equal(t, "main", f.git("rev-parse", "main"), sha)
			equal(t, "status", f.git("status", "--porcelain"), "")
			equal(t, "big.txt", f.read("big.txt"), strings.Repeat("new\n", 100))
		})
	}
}

func TestAnEditMadeAfterTheCrashIsNotLostAndTheIndexIsGivenBack(t *testing.T) {
	req.Covers(t, "AP-013")
	f, sq, sha := interrupted(t)
	f.write("new/file.txt", "new\n")
	f.write("big.txt", "mine\n")
	err := f.repo.Land(t.Context(), sq, sha)
	o, ok := errors.AsType[*Overlap](err)
	if !ok || names(o.Files) != "big.txt" {
		t.Fatalf("land: %v", err)
	}
	equal(t, "big.txt", f.read("big.txt"), "mine\n")
	f.git("checkout", "--", "big.txt") // set aside; works because the lock is gone
	must(t, f.repo.Land(t.Context(), sq, sha))
	equal(t, "status", f.git("status", "--porcelain"), "")
}

func TestABrokerCommitKilledAnywhereIsFinishedOrNeverHappened(t *testing.T) {
	req.Covers(t, "UW-013", "P9")
	prepare := func(t *testing.T) (*fixture, job) {
		f := newFixture(t)
		ws, u := f.workspace()
		write(t, ws.Tree, "work.txt", "work\n")
		return f, job{Dir: f.dir, Do: "commit", WS: ws, Tip: u.tip}
	}
	points := everyCrash(t, prepare, func(t *testing.T, f *fixture, j job, died, row string) {
		tip := j.Tip
		if row == "" {
			equal(t, "branch without a row", f.git("rev-parse", "lazy/fix"), tip)
		} else {
			parent, commit, _ := strings.Cut(row, " ")
			must(t, f.repo.FinishCommit(t.Context(), "refs/heads/lazy/fix", parent, commit))
			must(t, f.repo.FinishCommit(t.Context(), "refs/heads/lazy/fix", parent, commit))
			equal(t, "branch with a row", f.git("rev-parse", "lazy/fix"), commit)
			tip = commit
		}
		u, err := f.repo.Untrusted(j.WS, j.Tip)
		must(t, err)
		if row != "" {
			must(t, u.Refresh(t.Context(), tip))
			equal(t, "inside", gitIn(t, j.WS.Tree, j.WS.Env(), "status", "--porcelain"), "")
			return
		}
		f.save(u, "work again")
		equal(t, "work", f.git("show", "lazy/fix:work.txt"), "work")
	})
	t.Logf("%d crash points: %s", len(points), strings.Join(points, " "))
	equal(t, "points", strings.Join(points, " "), "git.objects.before git.objects.after git.ref.before git.ref.after")
}

func TestAWorkspaceKilledWhileItIsMadeIsMadeAgain(t *testing.T) {
	req.Covers(t, "P9")
	prepare := func(t *testing.T) (*fixture, job) {
		f := newFixture(t)
		return f, job{Dir: f.dir, Do: "workspace", Spec: WorkspaceSpec{
			StateDir: f.state(), TaskShort: "3f2a9c1e", Branch: "lazy/fix", Base: f.git("rev-parse", "main"),
		}}
	}
	points := everyCrash(t, prepare, func(t *testing.T, f *fixture, j job, died, _ string) {
		ws, err := f.repo.CreateWorkspace(t.Context(), j.Spec)
		must(t, err)
		equal(t, "inside", gitIn(t, ws.Tree, ws.Env(), "status", "--porcelain", "--branch"), "## lazy/fix")
		equal(t, "worktrees", strings.Count(f.git("worktree", "list", "--porcelain"), "worktree "), 2)
	})
	t.Logf("%d crash points: %s", len(points), strings.Join(points, " "))
	equal(t, "points", len(points), 5)
}

func TestAnAdvanceKilledAnywhereIsFinished(t *testing.T) {
	req.Covers(t, "P9")
	prepare := func(t *testing.T) (*fixture, job) {
		f := newFixture(t)
		ws, u := f.workspace()
		f.write("a.txt", "up\n")
		f.write("gen/ignored.log", "up\n")
		f.git("add", "-f", "gen/ignored.log")
		must(t, os.Remove(filepath.Join(f.dir, "dir/b.txt")))
		up := f.commit("up")
		write(t, ws.Tree, "mine.txt", "mine\n")
		return f, job{Dir: f.dir, Do: "advance", WS: ws, Tip: u.tip, Next: up}
	}
	points := everyCrash(t, prepare, func(t *testing.T, f *fixture, j job, died, _ string) {
		must(t, f.repo.MoveRef(t.Context(), "refs/heads/lazy/fix", j.Next, j.Tip))
		u, err := f.repo.Untrusted(j.WS, j.Tip)
		must(t, err)
		must(t, u.Advance(t.Context(), j.Next))
		equal(t, "inside", gitIn(t, j.WS.Tree, j.WS.Env(), "status", "--porcelain"), "?? mine.txt")
	})
	equal(t, "points", len(points), 2)
}
