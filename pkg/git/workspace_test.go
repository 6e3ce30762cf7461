package git

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestOpenSaysWhatIsWrongAndHowToMendIt(t *testing.T) {
	req.Covers(t, "P12")
	empty := t.TempDir()
	gitIn(t, empty, nil, "init", "-q", ".")
	bare := t.TempDir()
	gitIn(t, bare, nil, "init", "-q", "--bare", ".")
	partial := t.TempDir()
	gitIn(t, partial, nil, "init", "-q", ".")
	gitIn(t, partial, nil, "config", "extensions.partialclone", "origin")
	gitIn(t, partial, nil, "config", "core.repositoryformatversion", "1")
	for name, c := range map[string]struct {
		dir  string
		want error
	}{
		"no repository":   {t.TempDir(), ErrNotRepository},
		"no directory":    {filepath.Join(empty, "none"), ErrNotRepository},
		"no commit":       {empty, ErrNoCommit},
		"bare repository": {bare, ErrUnsupported},
		"partial clone":   {partial, ErrUnsupported},
	} {
		_, err := Open(t.Context(), c.dir)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f := fault.Of(err)
		if f.Kind != fault.Invalid || f.Public == "" || (name != "no directory" && len(f.Next) == 0) {
			t.Errorf("%s: no remedy: %+v", name, f)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(t.Context(), empty); !errors.Is(err, ErrNoGit) || len(fault.Of(err).Next) == 0 {
		t.Errorf("no git: %v", err)
	}
}

func TestAnInheritedEnvironmentDecidesNothing(t *testing.T) {
	f := newFixture(t)
	other := t.TempDir()
	gitIn(t, other, nil, "init", "-q", ".")
	for name, value := range map[string]string{
		"GIT_DIR": filepath.Join(other, ".git"), "GIT_WORK_TREE": other, "GIT_INDEX_FILE": filepath.Join(other, "index"),
		"GIT_OBJECT_DIRECTORY": other, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": other,
	} {
		t.Setenv(name, value)
	}
	f.open()
	equal(t, "root", f.repo.Root, f.dir)
	ws, u := f.workspace()
	write(t, ws.Tree, "a.txt", "changed\n")
	c := f.save(u, "work")
	equal(t, "tip", f.git("rev-parse", "lazy/fix"), c.Commit)
}

func TestAWorkspaceIsALinkedWorktreeWithItsOwnObjects(t *testing.T) {
	req.Covers(t, "GT-001", "GT-002", "GT-003")
	f := newFixture(t)
	ws, _ := f.workspace()
	if !strings.Contains(f.git("worktree", "list"), ws.Tree) {
		t.Fatal("git does not list the worktree")
	}
	f.git("worktree", "prune", "--expire", "now")
	must(t, ws.Check())
	write(t, ws.Tree, "x", "x\n")
	gitIn(t, ws.Tree, ws.Env(), "add", "x")
	id := gitIn(t, ws.Tree, ws.Env(), "rev-parse", ":x")
	if _, err := os.Stat(filepath.Join(ws.Objects, id[:2], id[2:])); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(ws.Shared, "objects", id[:2], id[2:])); err == nil {
		t.Fatal("an object of the agent is in the shared store")
	}
	var paths []string
	for _, m := range ws.Mounts() {
		real, err := filepath.EvalSymlinks(m.Path)
		must(t, err)
		equal(t, "real path", real, m.Path)
		mode := "ro"
		if m.RW {
			mode = "rw"
		}
		paths = append(paths, mode+" "+strings.TrimPrefix(m.Path, filepath.Dir(f.dir)))
	}
	equal(t, "plan", strings.Join(paths, "\n"), strings.Join([]string{
		"ro /repo/.git", "ro /repo/.git/config", "ro /repo/.git/worktrees", "rw /state/tree", "rw /state/worktrees/lazy-3f2a9c1e",
		"rw /state/objects", "ro /state/tree/.git", "ro /state/worktrees/lazy-3f2a9c1e/commondir",
		"ro /state/worktrees/lazy-3f2a9c1e/gitdir", "ro /state/worktrees/lazy-3f2a9c1e/config.worktree", "ro /state/objects/info",
	}, "\n"))
	b, err := json.Marshal(ws)
	must(t, err)
	var again Workspace
	must(t, json.Unmarshal(b, &again))
	must(t, again.Check())
}

func TestMakingAWorkspaceTwiceGivesTheSameOne(t *testing.T) {
	f := newFixture(t)
	ws, u := f.workspace()
	write(t, ws.Tree, "work.txt", "kept\n")
	again, err := f.repo.CreateWorkspace(t.Context(), WorkspaceSpec{StateDir: f.state(), TaskShort: "3f2a9c1e", Branch: "lazy/fix", Base: u.tip})
	must(t, err)
	equal(t, "tree", again.Tree, ws.Tree)
	equal(t, "work", read(t, ws.Tree, "work.txt"), "kept\n")
}

func TestATamperedWorkspaceIsRefused(t *testing.T) {
	req.Covers(t, "GT-003")
	for name, spoil := range map[string]func(ws Workspace) error{
		"commondir": func(ws Workspace) error {
			return os.WriteFile(filepath.Join(ws.GitDir, "commondir"), []byte("/tmp\n"), 0o644)
		},
		"gitdir": func(ws Workspace) error {
			return os.WriteFile(filepath.Join(ws.GitDir, "gitdir"), []byte("/tmp/.git\n"), 0o644)
		},
		".git": func(ws Workspace) error {
			return os.WriteFile(filepath.Join(ws.Tree, ".git"), []byte("gitdir: /tmp\n"), 0o644)
		},
		".git as a repository": func(ws Workspace) error {
			return errors.Join(os.Remove(filepath.Join(ws.Tree, ".git")), os.Mkdir(filepath.Join(ws.Tree, ".git"), 0o755))
		},
		".git as a link": func(ws Workspace) error { return replaceLink(ws.Tree, ".git", filepath.Join(ws.GitDir, "gitdir")) },
		"commondir pipe": func(ws Workspace) error { return replacePipe(ws.GitDir, "commondir") },
		"alternates": func(ws Workspace) error {
			return os.WriteFile(filepath.Join(ws.Objects, "info/alternates"), []byte("/tmp\n"), 0o644)
		},
		"tree as a link": func(ws Workspace) error {
			return errors.Join(os.Rename(ws.Tree, ws.Tree+"2"), os.Symlink(ws.Tree+"2", ws.Tree))
		},
		"objects are gone": func(ws Workspace) error { return os.RemoveAll(ws.Objects) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			ws, u := f.workspace()
			must(t, spoil(ws))
			if _, err := f.repo.Untrusted(ws, u.tip); !errors.Is(err, ErrPlan) {
				t.Fatalf("untrusted: %v", err)
			}
			_, err := f.repo.CreateWorkspace(t.Context(), WorkspaceSpec{StateDir: f.state(), TaskShort: "3f2a9c1e", Branch: "lazy/fix", Base: u.tip})
			if !errors.Is(err, ErrPlan) {
				t.Fatalf("again: %v", err)
			}
		})
	}
}

func TestABranchOfSomebodyElseIsNotTakenOver(t *testing.T) {
	f := newFixture(t)
	base := f.git("rev-parse", "main")
	f.git("branch", "lazy/fix")
	f.git("checkout", "-q", "lazy/fix")
	f.write("mine.txt", "mine\n")
	theirs := f.commit("mine")
	spec := WorkspaceSpec{StateDir: f.state(), TaskShort: "3f2a9c1e", Branch: "lazy/fix", Base: base}
	if _, err := f.repo.CreateWorkspace(t.Context(), spec); !errors.Is(err, ErrBranchExists) {
		t.Fatalf("create: %v", err)
	}
	equal(t, "branch", f.git("rev-parse", "lazy/fix"), theirs)
	f.git("checkout", "-q", "main")
	spec.Tip = theirs // the recorded tip of this very task
	ws, err := f.repo.CreateWorkspace(t.Context(), spec)
	must(t, err)
	equal(t, "file", read(t, ws.Tree, "mine.txt"), "mine\n")
}

func TestHostileNamesAreRefusedBeforeGitSeesThem(t *testing.T) {
	f := newFixture(t)
	base := f.git("rev-parse", "main")
	for _, name := range []string{
		"", "-f", "--upload-pack=x", "lazy/-x", "lazy/../x", "a b", "a\nb", "a\x00b", "a..b", "x.lock", "lazy/x.lock/y", "/a", "a/", "a//b",
		".a", "a/.b", "a.", "HEAD", "@{u}", "a~1", "a^", "a:b", "a?", "a*", "a[", `a\b`, "\u202ea", base, strings.Repeat("a", 201),
	} {
		if err := CheckBranch(name); !errors.Is(err, ErrBadName) {
			t.Errorf("%q was accepted: %v", name, err)
		}
		spec := WorkspaceSpec{StateDir: f.state(), TaskShort: "3f2a9c1e", Branch: name, Base: base}
		if _, err := f.repo.CreateWorkspace(t.Context(), spec); err == nil {
			t.Errorf("%q made a workspace", name)
		}
	}
	for _, rev := range []string{"", "-x", "--all", "a\nb", "HEAD\x00"} {
		if _, err := f.repo.Resolve(t.Context(), rev); !errors.Is(err, ErrUnknownRev) {
			t.Errorf("revision %q: %v", rev, err)
		}
	}
	equal(t, "branches", f.git("branch", "--format=%(refname:short)"), "main")
}

func TestRemovingAWorkspaceLeavesNothingBehindAndIsDoneTwice(t *testing.T) {
	f := newFixture(t)
	ws, u := f.workspace()
	locked := filepath.Join(ws.Tree, "locked/deep")
	must(t, os.MkdirAll(locked, 0o755))
	write(t, ws.Tree, "locked/deep/file", "x")
	must(t, os.Chmod(locked, 0))
	must(t, os.Chmod(filepath.Dir(locked), 0))
	must(t, f.repo.RemoveWorkspace(t.Context(), ws))
	must(t, f.repo.RemoveWorkspace(t.Context(), ws))
	if _, err := os.Lstat(ws.State); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("state: %v", err)
	}
	equal(t, "worktrees", strings.Count(f.git("worktree", "list", "--porcelain"), "worktree "), 1)
	must(t, f.repo.DeleteBranch(t.Context(), "lazy/fix", u.tip))
	must(t, f.repo.DeleteBranch(t.Context(), "lazy/fix", u.tip))
	other := ws
	other.GitDir = filepath.Join(f.dir, ".git")
	if err := f.repo.RemoveWorkspace(t.Context(), other); err == nil {
		t.Fatal("a plan that names the repository itself was removed")
	}
	if _, err := os.Stat(filepath.Join(f.dir, ".git/HEAD")); err != nil {
		t.Fatal(err)
	}
}

func TestABranchThatMovedIsNotDeleted(t *testing.T) {
	req.Covers(t, "P4")
	f := newFixture(t)
	ws, u := f.workspace()
	base := u.tip
	write(t, ws.Tree, "a.txt", "late\n")
	f.save(u, "late")
	if err := f.repo.DeleteBranch(t.Context(), "lazy/fix", base); !errors.Is(err, ErrLostRace) {
		t.Fatalf("delete: %v", err)
	}
	equal(t, "branch", f.git("rev-parse", "lazy/fix"), u.tip)
}

func TestOneOfManyRefMoversWins(t *testing.T) {
	f := newFixture(t)
	base := f.git("rev-parse", "main")
	const n = 8
	tips := make([]string, n)
	for i := range tips {
		f.write("n.txt", fmt.Sprint(i))
		tips[i] = f.commit(fmt.Sprint(i))
	}
	f.git("branch", "race", base)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f.repo.MoveRef(t.Context(), "refs/heads/race", tips[i], base) })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			won++
			equal(t, "race", f.git("rev-parse", "race"), tips[i])
		case !errors.Is(err, ErrLostRace):
			t.Errorf("mover %d: %v", i, err)
		}
	}
	equal(t, "winners", won, 1)
}

func TestWorkspacesMadeAtOnceDoNotMeet(t *testing.T) {
	f := newFixture(t)
	base := f.git("rev-parse", "main")
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() {
			name := fmt.Sprintf("task%d", i)
			ws, err := f.repo.CreateWorkspace(t.Context(), WorkspaceSpec{StateDir: filepath.Join(f.state(), name), TaskShort: name, Branch: "lazy/" + name, Base: base})
			if err == nil {
				err = ws.Check()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	equal(t, "branches", len(strings.Fields(f.git("branch", "--list", "--format=%(refname:short)", "lazy/*"))), len(errs))
}

func TestATargetDeletedOrMovedAwayIsNotALanding(t *testing.T) {
	req.Covers(t, "AP-023")
	f := newFixture(t)
	sq, sha := f.planned()
	ok, err := f.repo.Landed(t.Context(), "main", sha)
	must(t, err)
	equal(t, "before", ok, false)
	must(t, f.repo.Land(t.Context(), sq, sha))
	f.write("later.txt", "x")
	f.commit("later")
	ok, err = f.repo.Landed(t.Context(), "main", sha)
	must(t, err)
	equal(t, "with work on top", ok, true)
	f.git("checkout", "-q", "--detach")
	f.git("branch", "-f", "main", sq.TargetHead)
	ok, err = f.repo.Landed(t.Context(), "main", sha)
	must(t, err)
	equal(t, "force-moved", ok, false)
	f.git("branch", "-D", "main")
	ok, err = f.repo.Landed(t.Context(), "main", sha)
	must(t, err)
	equal(t, "deleted", ok, false)
	ok, err = f.repo.Landed(t.Context(), "lazy/fix", strings.Repeat("a", 40))
	must(t, err)
	equal(t, "forged", ok, false)
}
