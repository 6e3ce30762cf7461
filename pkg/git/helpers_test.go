package git

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var when = time.Unix(1_700_000_000, 0)

var author = Person{Name: "Ada", Email: "ada@example.com"}

// fixture is a person's repository with one commit on main.
type fixture struct {
	t    testing.TB
	dir  string
	repo *Repo
}

func newFixture(t testing.TB, opts ...Option) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: filepath.Join(dir, "repo")}
	must(t, os.Mkdir(f.dir, 0o755))
	f.git("init", "-q", "-b", "main", ".")
	f.git("config", "gc.auto", "0") // a background gc would outlive the test
	f.git("config", "user.name", "Ada")
	f.git("config", "user.email", "ada@example.com")
	f.write("a.txt", "a\n")
	f.write("dir/b.txt", "b\n")
	f.write(".gitignore", "*.log\nbuild/\n")
	f.commit("first")
	f.open(opts...)
	return f
}

func (f *fixture) open(opts ...Option) {
	f.t.Helper()
	r, err := Open(f.t.Context(), f.dir, opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.repo = r
}

func (f *fixture) state() string { return filepath.Join(filepath.Dir(f.dir), "state") }

func (f *fixture) git(args ...string) string { f.t.Helper(); return gitIn(f.t, f.dir, nil, args...) }

func (f *fixture) write(name, text string) { f.t.Helper(); write(f.t, f.dir, name, text) }

func (f *fixture) read(name string) string { f.t.Helper(); return read(f.t, f.dir, name) }

func (f *fixture) commit(msg string) string {
	f.t.Helper()
	f.git("add", "-A")
	f.git("commit", "-q", "--allow-empty", "-m", msg)
	return f.git("rev-parse", "HEAD")
}

// workspace makes the workspace of task "3f2a9c1e" at the tip of main.
func (f *fixture) workspace() (Workspace, *Untrusted) {
	f.t.Helper()
	base := f.git("rev-parse", "main")
	ws, err := f.repo.CreateWorkspace(f.t.Context(), WorkspaceSpec{
		StateDir: f.state(), TaskShort: "3f2a9c1e", Branch: "lazy/fix", Base: base,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	u, err := f.repo.Untrusted(ws, base)
	if err != nil {
		f.t.Fatal(err)
	}
	return ws, u
}

// save commits the whole workspace and moves its branch, as the broker does.
func (f *fixture) save(u *Untrusted, msg string, mergeParents ...string) Commit {
	f.t.Helper()
	c, err := u.Prepare(f.t.Context(), CommitSpec{Message: msg, Author: author, When: when, MergeParents: mergeParents})
	if err != nil {
		f.t.Fatal(err)
	}
	must(f.t, f.repo.MoveRef(f.t.Context(), "refs/heads/"+u.ws.Branch, c.Commit, c.Parent))
	must(f.t, u.Refresh(f.t.Context(), c.Commit))
	return c
}

func gitIn(t testing.TB, dir string, env []string, args ...string) string {
	t.Helper()
	out, err := tryGit(t, dir, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryGit(t testing.TB, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", args...)
	c.Dir = dir
	c.Env = append(append(ownerEnv(os.Environ()), "GIT_AUTHOR_DATE=@1690000000 +0000", "GIT_COMMITTER_DATE=@1690000000 +0000",
		"GIT_CONFIG_GLOBAL="+os.DevNull), env...)
	out, err := c.Output()
	if x, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New("git " + strings.Join(args, " ") + ": " + string(x.Stderr))
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(text), 0o644))
}

func read(t testing.TB, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func names(s []string) string { return strings.Join(s, " ") }

func rename(dir, from, to string) error {
	return os.Rename(filepath.Join(dir, from), filepath.Join(dir, to))
}
