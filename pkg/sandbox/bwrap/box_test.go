package bwrap_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
	"github.com/lazyplane/lazyplane/pkg/sandbox/bwrap"
)

var (
	when   = time.Unix(1_700_000_000, 0)
	author = git.Person{Name: "Ada", Email: "ada@example.com"}
)

// box is a task's workspace in a person's repository, seen from inside a sandbox.
type box struct {
	t    testing.TB
	home string // holds the repository and secrets beside it
	dir  string // the repository
	repo *git.Repo
	ws   git.Workspace
	u    *git.Untrusted
	r    *bwrap.Renderer
	plan sandbox.Plan
}

func renderer(t testing.TB) *bwrap.Renderer {
	t.Helper()
	r, err := bwrap.Find(t.Context())
	if err == nil {
		err = r.Probe(t.Context())
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("bubblewrap must work in CI: %v", err)
		}
		t.Skipf("bubblewrap does not work here: %v", err)
	}
	return r
}

func newBox(t testing.TB) *box {
	t.Helper()
	b := &box{t: t, r: renderer(t)}
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	b.home, b.dir = home, filepath.Join(home, "repo")
	must(t, os.Mkdir(b.dir, 0o755))
	b.git("init", "-q", "-b", "main", ".")
	b.git("config", "user.name", "Ada")
	b.git("config", "user.email", "ada@example.com")
	b.git("remote", "add", "origin", "https://ada:canary-token@forge.example/o/r.git")
	b.git("config", "http.extraheader", "Authorization: canary-header")
	b.write(filepath.Join(b.dir, "a.txt"), "a\n")
	b.write(filepath.Join(b.dir, "dir/b.txt"), "b\n")
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "first")
	b.git("branch", "other")
	b.write(filepath.Join(home, "secret"), "canary-secret\n")
	b.repo, err = git.Open(t.Context(), b.dir)
	must(t, err)
	base := b.git("rev-parse", "main")
	b.ws, err = b.repo.CreateWorkspace(t.Context(), git.WorkspaceSpec{
		StateDir: filepath.Join(home, "state"), TaskShort: "3f2a9c1e", Branch: "lazy/fix", Base: base,
	})
	must(t, err)
	b.u, err = b.repo.Untrusted(b.ws, base)
	must(t, err)
	b.plan = sandbox.Plan{Dir: b.ws.Tree, Env: b.ws.Env(), TmpBytes: 64 << 20}
	for _, m := range b.ws.Mounts() {
		src := m.Source
		if src == "" {
			src = m.Path
		}
		b.plan.Mounts = append(b.plan.Mounts, sandbox.Mount{Source: src, Target: m.Path, RW: m.RW})
	}
	return b
}

// sh runs a script inside and returns what it printed.
func (b *box) sh(script string) (string, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	p := b.plan
	p.Argv = []string{"sh", "-c", script}
	c, err := b.r.Command(ctx, p)
	must(b.t, err)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err = sandbox.Start(c); err == nil {
		err = c.Wait()
	}
	if x, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(strings.TrimSpace(errs.String()) + " (" + x.String() + ")")
	}
	return strings.TrimSpace(out.String()), err
}

// works demands that a script succeeds inside.
func (b *box) works(script string) string {
	b.t.Helper()
	out, err := b.sh(script)
	if err != nil {
		b.t.Fatalf("inside, %q: %v", script, err)
	}
	return out
}

// fails demands that a script does not succeed inside and says why in words.
func (b *box) fails(script string, words ...string) {
	b.t.Helper()
	out, err := b.sh(script)
	if err == nil {
		b.t.Fatalf("inside, %q succeeded: %s", script, out)
	}
	for _, w := range words {
		if strings.Contains(err.Error(), w) {
			return
		}
	}
	if len(words) > 0 {
		b.t.Fatalf("inside, %q failed with %v, want one of %q", script, err, words)
	}
}

// git runs git as the person does, outside.
func (b *box) git(args ...string) string {
	b.t.Helper()
	c := exec.CommandContext(b.t.Context(), "git", args...)
	c.Dir = b.dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := c.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// refs is everything that must not move.
func (b *box) refs() string { b.t.Helper(); return b.git("for-each-ref") }

func (b *box) write(name, text string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(b.t, os.WriteFile(name, []byte(text), 0o644))
}

// commit saves the workspace as the broker does.
func (b *box) commit(message string) git.Commit {
	b.t.Helper()
	c, err := b.u.Prepare(b.t.Context(), git.CommitSpec{Message: message, Author: author, When: when})
	must(b.t, err)
	must(b.t, b.repo.MoveRef(b.t.Context(), "refs/heads/lazy/fix", c.Commit, c.Parent))
	must(b.t, b.u.Refresh(b.t.Context(), c.Commit))
	return c
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
