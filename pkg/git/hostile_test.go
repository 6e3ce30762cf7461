package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// hostile is one way to make git run a program that the agent wrote. naive is a
// git command that does run it, so that the corpus cannot go stale unseen.
type hostile struct {
	plant func(f *fixture, ws Workspace, cmd string)
	naive []string
	// refused marks content that must not become a commit at all.
	refused bool
}

func corpus() map[string]hostile {
	return map[string]hostile{
		"fsmonitor of a nested repository": {
			plant: func(f *fixture, ws Workspace, cmd string) {
				nested := filepath.Join(ws.Tree, "nested")
				must(f.t, os.Mkdir(nested, 0o755))
				gitIn(f.t, nested, nil, "init", "-q", ".")
				gitIn(f.t, nested, nil, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "x")
				gitIn(f.t, nested, nil, "config", "core.fsmonitor", cmd)
				gitIn(f.t, ws.Tree, ws.Env(), "add", "nested")
			},
			naive: []string{"status"},
		},
		"filter named by attributes": {
			plant: func(f *fixture, ws Workspace, cmd string) {
				f.git("config", "filter.pwn.clean", cmd) // a driver the person has, pointed at by the agent
				f.git("config", "filter.pwn.smudge", cmd)
				write(f.t, ws.Tree, ".gitattributes", "* filter=pwn\n")
				write(f.t, ws.Tree, "filtered.txt", "x\n")
			},
			naive: []string{"add", "filtered.txt"},
		},
		"textconv and external diff named by attributes": {
			plant: func(f *fixture, ws Workspace, cmd string) {
				f.git("config", "diff.pwn.textconv", cmd)
				f.git("config", "diff.pwn.command", cmd)
				write(f.t, ws.Tree, ".gitattributes", "* diff=pwn\n")
				write(f.t, ws.Tree, "a.txt", "diffed\n")
			},
			naive: []string{"diff"},
		},
		"merge driver named by attributes": {
			plant: func(f *fixture, ws Workspace, cmd string) {
				f.git("config", "merge.pwn.driver", cmd)
				write(f.t, ws.Tree, ".gitattributes", "* merge=pwn\n")
				write(f.t, ws.Tree, "a.txt", "ours\n")
			},
		},
		"hooks and fsmonitor of the worktree's own configuration": {
			plant: func(f *fixture, ws Workspace, cmd string) {
				f.git("config", "extensions.worktreeConfig", "true")
				write(f.t, ws.GitDir, "config.worktree", "[core]\n\tfsmonitor = \""+cmd+"\"\n\thooksPath = "+filepath.Join(ws.Tree, "hooks")+"\n")
				for _, hook := range []string{"pre-commit", "post-checkout", "reference-transaction", "post-index-change", "post-merge"} {
					write(f.t, ws.Tree, "hooks/"+hook, "#!/bin/sh\n"+cmd+"\n")
					must(f.t, os.Chmod(filepath.Join(ws.Tree, "hooks", hook), 0o755))
				}
			},
			naive: []string{"status"},
		},
		"hooks of the shared repository": {
			plant: func(f *fixture, ws Workspace, cmd string) {
				for _, hook := range []string{"reference-transaction", "post-index-change", "post-checkout", "pre-auto-gc"} {
					write(f.t, f.dir, ".git/hooks/"+hook, "#!/bin/sh\n"+cmd+"\n")
					must(f.t, os.Chmod(filepath.Join(f.dir, ".git/hooks", hook), 0o755))
				}
			},
			naive: []string{"update-ref", "refs/worktree/x", "HEAD"},
		},
		"submodule with an update command": {
			plant: func(f *fixture, ws Workspace, cmd string) {
				write(f.t, ws.Tree, ".gitmodules", "[submodule \"m\"]\n\tpath = m\n\turl = ext::sh -c '"+cmd+"'\n\tupdate = !"+cmd+"\n")
			},
			refused: true,
		},
	}
}

func TestHostileRepositoriesExecuteNothing(t *testing.T) {
	req.Covers(t, "GT-024")
	for name, h := range corpus() {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			ws, u := f.workspace()
			canary := filepath.Join(t.TempDir(), "ran")
			h.plant(f, ws, "touch "+canary+"; cat 2>/dev/null; false")
			if h.naive != nil {
				_, _ = tryGit(t, ws.Tree, ws.Env(), h.naive...)
				if err := os.Remove(canary); err != nil {
					t.Fatalf("the naive git %v did not run the command, so this proves nothing: %v", h.naive, err)
				}
			}
			if h.refused {
				tip := f.git("rev-parse", "lazy/fix")
				_, err := u.Prepare(t.Context(), CommitSpec{Message: "x", Author: author, When: when})
				if !errors.Is(err, ErrBadObject) || fault.KindOf(err) != fault.Invalid {
					t.Fatalf("commit: %v", err)
				}
				equal(t, "branch", f.git("rev-parse", "lazy/fix"), tip)
			} else {
				f.everything(ws, u)
			}
			if _, err := os.Lstat(canary); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("a command of the agent ran on the trusted side: %v", err)
			}
		})
	}
}

// everything runs each operation on the workspace. Refusals are fine; the branch
// must still be usable after them.
func (f *fixture) everything(ws Workspace, u *Untrusted) {
	f.t.Helper()
	ctx := f.t.Context()
	_, err := u.Status(ctx)
	must(f.t, err)
	write(f.t, ws.Tree, "work.txt", "work\n")
	f.save(u, "work")
	f.git("-c", "core.hooksPath=/dev/null", "checkout", "-q", "-b", "up", "main")
	f.write("a.txt", "up\n")
	f.git("-c", "core.hooksPath=/dev/null", "commit", "-qam", "up")
	up := f.git("rev-parse", "up")
	f.git("-c", "core.hooksPath=/dev/null", "checkout", "-q", "main")
	m, err := u.MergeInto(ctx, up, "Merge up", author, when)
	must(f.t, err)
	to := Recovery{Dir: filepath.Join(filepath.Dir(f.dir), "recovery"), When: when}
	if m.Kind == Conflicted {
		_, err = u.Settle(ctx, to)
		must(f.t, err)
	} else {
		must(f.t, f.repo.MoveRef(ctx, "refs/heads/lazy/fix", m.Commit, u.tip))
		must(f.t, u.Advance(ctx, m.Commit))
	}
	write(f.t, ws.Tree, "left.txt", "left\n")
	_, err = u.SaveRecovery(ctx, to, "close")
	must(f.t, err)
	sq, err := f.repo.PlanSquash(ctx, "main", u.tip)
	must(f.t, err)
	_, err = f.repo.Diff(ctx, f.git("rev-parse", "main"), u.tip, DiffOptions{})
	must(f.t, err)
	sha, err := f.repo.CommitSquash(ctx, sq, "land", author, when)
	must(f.t, err)
	f.git("-c", "core.hooksPath=/dev/null", "checkout", "-q", "--detach")
	must(f.t, f.repo.Land(ctx, sq, sha))
	must(f.t, f.repo.RemoveWorkspace(ctx, ws))
}

func TestFilesThatWouldHangOrLeakAreNeverRead(t *testing.T) {
	req.Covers(t, "GT-027")
	for name, c := range map[string]struct {
		plant func(ws Workspace) error
		kind  fault.Kind // of the refusal; "" is none, the file is passed over
	}{
		"pipe in place of a tracked file": {func(ws Workspace) error { return replacePipe(ws.Tree, "a.txt") }, ""},
		"pipe among the files":            {func(ws Workspace) error { return syscall.Mkfifo(filepath.Join(ws.Tree, "p"), 0o644) }, ""},
		"pipe as .gitignore":              {func(ws Workspace) error { return replacePipe(ws.Tree, ".gitignore") }, ""},
		"pipe as .gitattributes":          {func(ws Workspace) error { return syscall.Mkfifo(filepath.Join(ws.Tree, ".gitattributes"), 0o644) }, ""},
		"pipe as index":                   {func(ws Workspace) error { return replacePipe(ws.GitDir, "index") }, ""},
		"pipe as HEAD":                    {func(ws Workspace) error { return replacePipe(ws.GitDir, "HEAD") }, ""},
		"link as index":                   {func(ws Workspace) error { return replaceLink(ws.GitDir, "index", "/proc/self/environ") }, ""},
		"link as HEAD":                    {func(ws Workspace) error { return replaceLink(ws.GitDir, "HEAD", "/proc/self/environ") }, ""},
		"pipe in a nested repository": {func(ws Workspace) error {
			return errors.Join(os.MkdirAll(filepath.Join(ws.Tree, "n/.git"), 0o755), syscall.Mkfifo(filepath.Join(ws.Tree, "n/.git/HEAD"), 0o644))
		}, ""},
		"huge file": {func(ws Workspace) error {
			f, err := os.Create(filepath.Join(ws.Tree, "huge"))
			return errors.Join(err, f.Truncate(maxFile+1), f.Close())
		}, fault.TooLarge},
		"huge .gitignore": {func(ws Workspace) error { return os.Truncate(filepath.Join(ws.Tree, ".gitignore"), maxRules+1) }, fault.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			ws, u := f.workspace()
			must(t, c.plant(ws))
			_, err := u.Status(t.Context())
			if c.kind != "" {
				equal(t, "kind", fault.KindOf(err), c.kind)
				return
			}
			must(t, err)
			write(t, ws.Tree, "work.txt", "work\n")
			commit := f.save(u, "work")
			if out := f.git("log", "-p", commit.Commit); strings.Contains(out, "PATH=") {
				t.Fatalf("the environment is in the commit: %s", out)
			}
		})
	}
}

func TestALinkOutOfTheTreeIsCommittedAsALinkAndNeverFollowed(t *testing.T) {
	req.Covers(t, "GT-027")
	f := newFixture(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.Mkdir(secret, 0o755))
	write(t, secret, "key", "canary\n")
	ws, u := f.workspace()
	must(t, os.Symlink(filepath.Join(secret, "key"), filepath.Join(ws.Tree, "file-link")))
	must(t, os.Symlink(secret, filepath.Join(ws.Tree, "dir-link")))
	must(t, os.RemoveAll(filepath.Join(ws.Tree, "dir")))
	must(t, os.Symlink(secret, filepath.Join(ws.Tree, "dir"))) // where b.txt is tracked
	c := f.save(u, "links")
	if out := f.git("log", "-p", c.Commit); strings.Contains(out, "canary") {
		t.Fatalf("the secret is in the commit: %s", out)
	}
	equal(t, "tree", f.git("ls-tree", "-r", "--name-only", c.Commit), ".gitignore\na.txt\ndir\ndir-link\nfile-link")

	// Writing through the link must fail too: main still has dir/b.txt.
	u, err := f.repo.Untrusted(ws, c.Commit)
	must(t, err)
	must(t, u.Advance(t.Context(), c.Parent))
	equal(t, "beside the secret", names(mustRead(t, secret)), "key")
	equal(t, "file", read(t, ws.Tree, "dir/b.txt"), "b\n")
	must(t, f.repo.RemoveWorkspace(t.Context(), ws))
	equal(t, "after removal", names(mustRead(t, secret)), "key")
}

func TestNothingIsWrittenThroughALinkThatReplacedADirectory(t *testing.T) {
	req.Covers(t, "GT-027")
	f := newFixture(t)
	outside := t.TempDir()
	ws, u := f.workspace()
	f.write("dir/new.txt", "new\n")
	up := f.commit("up")
	must(t, os.RemoveAll(filepath.Join(ws.Tree, "dir")))
	must(t, os.Symlink(outside, filepath.Join(ws.Tree, "dir")))
	if err := u.Advance(t.Context(), up); err == nil {
		t.Fatal("a link in the way was written through")
	}
	equal(t, "outside", names(mustRead(t, outside)), "")
}

func TestAnObjectOfTheAgentNeverEntersTheSharedStoreUnhashed(t *testing.T) {
	req.Covers(t, "GT-026")
	f := newFixture(t)
	ws, u := f.workspace()
	// The id of a blob that does not exist yet, with other content stored under it.
	id := gitIn(t, ws.Tree, ws.Env(), "hash-object", "-w", "--stdin", "--path", "x")
	evil := filepath.Join(ws.Objects, "aa")
	must(t, os.MkdirAll(evil, 0o755))
	b, err := os.ReadFile(filepath.Join(ws.Objects, id[:2], id[2:]))
	must(t, err)
	want := gitIn(t, f.dir, nil, "hash-object", "a.txt")
	must(t, os.MkdirAll(filepath.Join(ws.Objects, want[:2]), 0o755))
	must(t, os.WriteFile(filepath.Join(ws.Objects, want[:2], want[2:]), b, 0o644))
	write(t, ws.Tree, "copy.txt", "a\n") // the content whose id was forged
	c := f.save(u, "copy")
	equal(t, "content", f.git("show", c.Commit+":copy.txt"), "a")
	equal(t, "fsck", f.git("fsck", "--strict", "--no-dangling"), "")
}

func replacePipe(dir, name string) error {
	p := filepath.Join(dir, name)
	return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o644))
}

func replaceLink(dir, name, target string) error {
	p := filepath.Join(dir, name)
	return errors.Join(os.Remove(p), os.Symlink(target, p))
}

func mustRead(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
