//go:build linux

package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
	"github.com/lazyplane/lazyplane/pkg/sandbox/bwrap"
)

var (
	when   = time.Unix(1_700_000_000, 0)
	author = git.Person{Name: "Ada", Email: "ada@example.com"}
)

const secret = "canary-of-the-person"

// desk is a task's workspace in a person's repository, without a control plane:
// what the trusted side does there is done by hand.
type desk struct {
	t     *testing.T
	base  string
	dir   string // the repository
	ran   string // what a command of the attacker would touch
	repo  *git.Repo
	ws    git.Workspace
	u     *git.Untrusted
	tip   string
	place place
	// elsewhere is an entry's wish that the person's checkout is of another branch.
	elsewhere bool
}

func newDesk(t *testing.T, e entry) *desk {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	d := &desk{t: t, base: base, dir: filepath.Join(base, "repo"), ran: filepath.Join(base, "ran"), elsewhere: e.elsewhere}
	for _, sub := range []string{"repo", "home", "outside"} {
		must(t, os.Mkdir(filepath.Join(base, sub), 0o755))
	}
	write(t, filepath.Join(base, "outside/secret"), secret+"\n")
	d.place = place{dir: d.dir, env: []string{
		"PATH=" + programs(t, base) + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(base, "home"), "LC_ALL=C",
		"TMPDIR=" + os.TempDir(), "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"BASE=" + base, "REPO=" + d.dir, "OUTSIDE=" + filepath.Join(base, "outside"), "SECRET=" + filepath.Join(base, "outside/secret"),
		"RAN=" + d.ran, "CMD=touch " + d.ran + "; false",
	}}
	d.git("init", "-q", "-b", "main", ".")
	for _, kv := range [][2]string{{"user.name", "Ada"}, {"user.email", "ada@example.com"}, {"gc.auto", "0"}} {
		d.git("config", kv[0], kv[1])
	}
	for name, text := range map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n", ".gitignore": "*.log\n"} {
		write(t, filepath.Join(d.dir, name), text)
	}
	for name, text := range e.repo {
		write(t, filepath.Join(d.dir, name), text)
	}
	d.git("add", "-A")
	d.git("commit", "-q", "-m", "first")
	d.git("branch", "other")
	d.git("tag", "v1")
	if s := e.files["setup.sh"]; s != "" {
		if out, err := d.place.sh(t.Context(), "set -e\n"+s); err != nil {
			t.Fatalf("setup: %v: %s", err, out)
		}
	}
	d.repo, err = git.Open(t.Context(), d.dir)
	must(t, err)
	d.tip = d.git("rev-parse", "main")
	d.ws, err = d.repo.CreateWorkspace(t.Context(), git.WorkspaceSpec{
		StateDir: filepath.Join(base, "state"), TaskShort: "3f2a9c1e", Branch: "lazy/fix", Base: d.tip,
	})
	must(t, err)
	d.u, err = d.repo.Untrusted(d.ws, d.tip)
	must(t, err)
	d.place = d.place.with("TREE="+d.ws.Tree, "GITDIR="+d.ws.GitDir, "OBJECTS="+d.ws.Objects, "SHARED="+d.ws.Shared,
		"OUT="+filepath.Join(base, "out"), "RECOVERY="+filepath.Join(base, "recovery"))
	return d
}

// git runs git as the person does.
func (d *desk) git(args ...string) string {
	d.t.Helper()
	c := exec.CommandContext(d.t.Context(), "git", args...)
	c.Dir, c.Env = d.dir, d.place.env
	out, err := c.CombinedOutput()
	if err != nil {
		d.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// inside is the attacker with both hands on the mounts, sandbox or not.
func (d *desk) inside() place {
	p := d.place.with(d.ws.Env()...)
	p.dir = d.ws.Tree
	return p
}

// boxed runs a script in the sandbox, with exactly the mounts of a task.
func (d *desk) boxed(script string) (string, error) {
	d.t.Helper()
	r := renderer(d.t)
	self, err := os.Executable()
	must(d.t, err)
	p := sandbox.Plan{
		Argv: []string{"sh", "-c", script}, Dir: d.ws.Tree, TmpBytes: 64 << 20, Helper: self,
		Env: append(d.ws.Env(), "TREE="+d.ws.Tree, "GITDIR="+d.ws.GitDir, "OBJECTS="+d.ws.Objects, "SHARED="+d.ws.Shared, "REPO="+d.dir,
			"RAN="+d.ran, "CMD=touch "+d.ran+"; false", "SECRET="+filepath.Join(d.base, "outside/secret"), "BASE="+d.base),
	}
	for _, m := range d.ws.Mounts() {
		src := m.Source
		if src == "" {
			src = m.Path
		}
		p.Mounts = append(p.Mounts, sandbox.Mount{Source: src, Target: m.Path, RW: m.RW})
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	c, err := r.Command(ctx, p)
	must(d.t, err)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err = sandbox.Start(c); err == nil {
		err = c.Wait()
	}
	return strings.TrimSpace(out.String()), err
}

func renderer(t *testing.T) *bwrap.Renderer {
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

// trusted does everything the trusted side ever does in a workspace, and returns
// what was refused.
func (d *desk) trusted() (refusals []error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 90*time.Second)
	defer cancel()
	try := func(what string, err error) bool {
		if _, ran := os.Lstat(d.ran); ran == nil {
			d.t.Errorf("a command of the attacker ran at %q", what)
			must(d.t, os.Remove(d.ran))
		}
		if err == nil {
			return true
		}
		refusals = append(refusals, fmt.Errorf("%s: %w", what, err))
		return false
	}
	_, err := d.u.Status(ctx)
	try("status", err)
	// The agent's own process would have written it; a file in its way is refused.
	try("work", os.WriteFile(filepath.Join(d.ws.Tree, "work.txt"), []byte("work\n"), 0o644))
	c, err := d.u.Prepare(ctx, git.CommitSpec{Message: "work", Author: author, When: when})
	if try("commit", err) && try("move", d.repo.MoveRef(ctx, "refs/heads/lazy/fix", c.Commit, c.Parent)) {
		d.tip = c.Commit
		try("refresh", d.u.Refresh(ctx, c.Commit))
	}
	up := d.upstream()
	d.u, err = d.repo.Untrusted(d.ws, d.tip)
	if !try("open again", err) {
		return refusals
	}
	m, err := d.u.MergeInto(ctx, up, "Merge main", author, when)
	if try("merge", err) && (m.Kind == git.Merged || m.Kind == git.FastForward) {
		if try("move merge", d.repo.MoveRef(ctx, "refs/heads/lazy/fix", m.Commit, d.tip)) {
			d.tip = m.Commit
			try("advance", d.u.Advance(ctx, m.Commit))
		}
	}
	to := git.Recovery{Dir: filepath.Join(d.base, "recovery"), When: when}
	_, err = d.u.SaveRecovery(ctx, to, "close")
	try("recovery", err)
	_, err = d.u.Settle(ctx, to)
	try("settle", err)
	_, err = d.repo.Diff(ctx, up, d.tip, git.DiffOptions{})
	try("diff", err)
	sq, err := d.repo.PlanSquash(ctx, "main", d.tip)
	if try("plan", err) {
		if d.elsewhere {
			d.git("checkout", "-q", "--detach")
		}
		sha, err := d.repo.CommitSquash(ctx, sq, "land", author, when)
		if try("squash", err) {
			try("land", d.repo.Land(ctx, sq, sha))
		}
	}
	try("remove", d.repo.RemoveWorkspace(ctx, d.ws))
	return refusals
}

// upstream is the person going on meanwhile.
func (d *desk) upstream() string {
	d.t.Helper()
	write(d.t, filepath.Join(d.dir, "up.txt"), "up\n")
	d.git("-c", "core.hooksPath=/dev/null", "add", "up.txt")
	d.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "up")
	return d.git("rev-parse", "main")
}

// unharmed checks what no attack may change.
func (d *desk) unharmed(refs string) {
	d.t.Helper()
	if _, err := os.Lstat(d.ran); err == nil {
		d.t.Error("a command of the attacker ran on the trusted side")
	}
	if now := d.others(); now != refs {
		d.t.Errorf("a ref that is none of the task's moved:\n%s\nwas\n%s", now, refs)
	}
	if out, err := d.place.sh(d.t.Context(), "git fsck --no-dangling --no-progress 2>&1 && git rev-list --all --reflog --indexed-objects --objects 2>&1 >/dev/null"); err != nil {
		d.t.Errorf("the shared store is damaged: %v: %s", err, out)
	}
	var b bytes.Buffer
	b.WriteString(d.git("log", "-p", "--all", "--text", "--no-ext-diff", "--no-textconv"))
	err := filepath.WalkDir(filepath.Join(d.base, "recovery"), func(p string, f os.DirEntry, err error) error {
		if err == nil && f.Type().IsRegular() {
			text, _ := os.ReadFile(p)
			b.Write(text)
		}
		return nil
	})
	must(d.t, err)
	if strings.Contains(b.String(), secret) {
		d.t.Error("a file of the person's that is outside the repository came into it")
	}
	text, err := os.ReadFile(filepath.Join(d.base, "outside/secret"))
	if err != nil || string(text) != secret+"\n" {
		d.t.Errorf("a file outside was changed: %q, %v", text, err)
	}
	names, err := os.ReadDir(filepath.Join(d.base, "outside"))
	if err != nil || len(names) != 1 {
		d.t.Errorf("outside there are %v (%v)", names, err)
	}
}

// others lists every ref but the two that the trusted side itself moves.
func (d *desk) others() string {
	var keep []string
	for line := range strings.Lines(d.git("for-each-ref", "--format=%(refname) %(objectname)")) {
		if !strings.HasPrefix(line, "refs/heads/main ") && !strings.HasPrefix(line, "refs/heads/lazy/fix ") {
			keep = append(keep, strings.TrimSpace(line))
		}
	}
	return strings.Join(keep, "\n")
}

func onGit(t *testing.T, e entry, n *tally) {
	t.Parallel()
	runDesk(t, e, n, func(d *desk, script string) (string, error) { return d.inside().sh(t.Context(), script) })
}

func onBox(t *testing.T, e entry, n *tally) {
	t.Parallel()
	renderer(t)
	runDesk(t, e, n, func(d *desk, script string) (string, error) { return d.boxed(script) })
}

func runDesk(t *testing.T, e entry, n *tally, attack func(*desk, string) (string, error)) {
	ran := claim{what: "a command of the attacker ran", shell: `test -e "$RAN"`}
	t.Run("control", func(t *testing.T) {
		naive := e.files["naive.sh"]
		if naive == "" && strings.HasPrefix(e.control, "none: ") {
			t.Skip(e.control)
		}
		d := newDesk(t, e)
		d.t = t
		out, err := d.inside().sh(t.Context(), e.files["attack.sh"])
		write(t, filepath.Join(d.base, "out"), out+"\n"+fmt.Sprint(err))
		said, _ := d.inside().sh(t.Context(), naive)
		d.u = nil
		claims := shown(e.mustNot)
		if len(claims) == 0 {
			claims = []claim{ran}
		}
		d.place.check(t, "without protection ("+clip(out)+" / "+clip(said)+")", claims, true)
		n.shown.Add(1)
	})
	t.Run("attack", func(t *testing.T) {
		d := newDesk(t, e)
		refs := d.others()
		out, err := attack(d, e.files["attack.sh"])
		write(t, filepath.Join(d.base, "out"), out+"\n"+fmt.Sprint(err))
		if e.on == "git" {
			// What the attacker's own git ran in its own process is nothing to us.
			if err := os.Remove(d.ran); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		d.place.check(t, "after the attack", e.mustNot, false)
		for _, err := range d.trusted() {
			if k := fault.KindOf(err); k == "" || k == fault.Internal || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the attack is met by an error that says nothing to anybody: %v", err)
			}
		}
		d.unharmed(refs)
		d.place.check(t, "after everything", e.mustNot, false)
		n.attacks.Add(1)
	})
	t.Run("twin", func(t *testing.T) {
		d := newDesk(t, e)
		out, err := attack(d, "set -e\n"+e.files["benign.sh"])
		if err != nil {
			t.Fatalf("the benign twin failed: %v: %s", err, out)
		}
		write(t, filepath.Join(d.base, "out"), out)
		for _, err := range d.trusted() {
			t.Errorf("honest work was refused: %v", err)
		}
		d.place.check(t, "after the twin", e.must, true)
		n.twins.Add(1)
	})
}

func write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}
