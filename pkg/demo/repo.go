package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// gitter runs git for the demo with a configuration of its own: whatever the
// person's says about hooks, filters or signing has no part in it.
type gitter struct {
	environ []string
	config  string
}

func (g gitter) run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	for _, kv := range g.environ {
		if !strings.HasPrefix(kv, "GIT_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL="+g.config, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0", "GIT_LFS_SKIP_SMUDGE=1", "LC_ALL=C")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fault.Wrap(fault.Failed, err, "git is not installed").WithNext("Install git, then run the demo again.")
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		return "", fmt.Errorf("git %s: %s", args[0], lines[len(lines)-1])
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

const identity = `[user]
	name = Demo
	email = demo@example.invalid
[init]
	defaultBranch = main
[core]
	hooksPath = /dev/null
[gc]
	auto = 0
[safe]
	directory = *
`

// files of the small repository. Its test fails until greet takes a name.
var files = map[string]string{
	"README.md": "# greet\n\nA very small program. `sh test.sh` tests it.\n",
	"greet.sh":  "#!/bin/sh\necho \"Hello\"\n",
	"test.sh":   "#!/bin/sh\nset -eu\ngot=$(sh ./greet.sh Ada)\n[ \"$got\" = \"Hello, Ada!\" ] || { echo \"got: $got\"; exit 1; }\necho ok\n",
}

// script is the agent: it reads its task, works, commits through the broker and
// declares that it is done. Nothing in it knows of a credential.
const script = `set -eu
call() { lazy-agent call "$@" >/dev/null; }
lazy-agent call lazy_show "{\"task_id\":\"$LAZY_TASK\"}" >/dev/null
call lazy_update_progress '{"message":"teaching greet to take a name"}'
printf '%s\n' '#!/bin/sh' 'echo "Hello, ${1:-world}!"' >greet.sh
sh test.sh
call lazy_journal '{"content":"greet without a name says world, so that old callers keep working."}'
call lazy_commit '{"message":"greet: take a name"}'
call lazy_final '{"note":"test.sh passes"}'
echo "greet takes a name, and test.sh passes."
`

const repoScript = `set -eu
call() { lazy-agent call "$@" >/dev/null; }
lazy-agent call lazy_show "{\"task_id\":\"$LAZY_TASK\"}" >/dev/null
call lazy_update_progress '{"message":"counting files"}'
n=$(find . -type f -not -path './.git/*' | wc -l | tr -d ' ')
printf '%s\n' '# lazy was here' '' "This work tree had $n files." >FILE
call lazy_commit '{"message":"Add FILE"}'
call lazy_final '{"note":"FILE says how many files there are"}'
echo "FILE says how many files there are."
`

func (r *run) repository(ctx context.Context) error {
	if err := os.WriteFile(r.git.config, []byte(identity), 0o600); err != nil {
		return fault.Wrap(fault.Failed, err, "the demo's folder cannot be written: %v", err).
			WithNext("Free the disk or set TMPDIR.")
	}
	make := r.small
	if r.o.Repo != "" {
		make = r.clone
	}
	if err := make(ctx); err != nil {
		return err
	}
	for _, kv := range [][2]string{{"user.name", "Demo"}, {"user.email", "demo@example.invalid"}, {"core.hooksPath", "/dev/null"}} {
		if _, err := r.git.run(ctx, r.at.Repo, "config", kv[0], kv[1]); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.h.Out, "  it is in %s\n", r.at.Repo)
	return nil
}

func (r *run) small(ctx context.Context) error {
	r.w = work{
		goal:   "Greet people by name",
		prompt: "Make `sh greet.sh NAME` print \"Hello, NAME!\". test.sh must pass.",
		script: script,
		file:   "greet.sh",
	}
	if _, err := r.git.run(ctx, r.at.Dir, "init", "--quiet", "--template=", r.at.Repo); err != nil {
		return err
	}
	if err := r.configure(); err != nil {
		return err
	}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(r.at.Repo, name), []byte(body), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	if _, err := r.git.run(ctx, r.at.Repo, "add", "--all"); err != nil {
		return err
	}
	_, err := r.git.run(ctx, r.at.Repo, "commit", "--quiet", "-m", "A program that greets")
	return err
}

// clone copies a repository, objects and all: whatever happens here cannot
// reach the original. Uncommitted work there stays there.
func (r *run) clone(ctx context.Context) error {
	source := r.o.Repo
	if !filepath.IsAbs(source) {
		source = filepath.Join(r.h.Dir, source)
	}
	if info, err := os.Stat(source); err != nil || !info.IsDir() {
		return fault.New(fault.Invalid, "%s is not a directory", r.o.Repo).WithNext("Give --repo the path of a git repository.")
	}
	if _, err := r.git.run(ctx, source, "rev-parse", "--git-dir"); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fault.Wrap(fault.Invalid, err, "%s is not a git repository", r.o.Repo).WithNext("Give --repo the path of a git repository.")
	}
	if _, err := r.git.run(ctx, source, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fault.Wrap(fault.Invalid, err, "%s has no commit yet", r.o.Repo).WithNext("Commit something there first.")
	}
	top, err := r.git.run(ctx, source, "rev-parse", "--show-toplevel")
	if err != nil {
		top, err = r.git.run(ctx, source, "rev-parse", "--absolute-git-dir") // a bare one
	}
	if err != nil {
		return err
	}
	// Copying the object files is fastest; a source that is being repacked
	// meanwhile loses them under the copy, and is asked for a pack instead.
	for _, how := range []string{"--no-hardlinks", "--no-local"} {
		if _, err = r.git.run(ctx, r.at.Dir, "clone", "--quiet", how, "--template=", "--", top, r.at.Repo); err == nil || ctx.Err() != nil {
			break
		}
		if rm := os.RemoveAll(r.at.Repo); rm != nil {
			return errors.Join(err, rm)
		}
	}
	if err != nil {
		return err
	}
	if _, err := r.git.run(ctx, r.at.Repo, "remote", "remove", "origin"); err != nil {
		return err
	}
	if _, err := r.git.run(ctx, r.at.Repo, "symbolic-ref", "--quiet", "HEAD"); err != nil {
		if _, err := r.git.run(ctx, r.at.Repo, "switch", "--quiet", "-c", "lazy-demo"); err != nil { // it was detached
			return err
		}
	}
	name := "LAZY-DEMO.md"
	for n := 2; ; n++ {
		if _, err := os.Lstat(filepath.Join(r.at.Repo, name)); err != nil {
			break
		}
		name = fmt.Sprintf("LAZY-DEMO-%d.md", n)
	}
	r.w = work{
		goal:   "Count the files",
		prompt: "Write " + name + " with the number of files in the work tree.",
		script: strings.ReplaceAll(repoScript, "FILE", name),
		file:   name,
	}
	if err := r.configure(); err != nil {
		return err
	}
	exclude := filepath.Join(r.at.Repo, ".git", "info")
	if err := os.MkdirAll(exclude, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", exclude, err)
	}
	return os.WriteFile(filepath.Join(exclude, "exclude"), []byte("/lazy.toml\n"), 0o644)
}

// configure writes the repository's lazy.toml. The agent's script is an argument
// of the shell, so it lies nowhere that the agent could change.
func (r *run) configure() error {
	if r.o.Agent != "" {
		text := fmt.Sprintf("# Written by lazy demo.\n\n[project]\nname = \"demo\"\n\n[agent]\nagent_id = %q\n", r.o.Agent)
		if err := os.WriteFile(filepath.Join(r.at.Repo, "lazy.toml"), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write lazy.toml: %w", err)
		}
		return nil
	}
	text := fmt.Sprintf(`# Written by lazy demo. The agent is a shell script instead of a model, so that
# no account is needed.

[project]
name = "demo"

[agent]
agent_id = "command"

[agents.command]
command = ["/bin/sh", "-c", '''
%s''']
`, r.w.script)
	if err := os.WriteFile(filepath.Join(r.at.Repo, "lazy.toml"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write lazy.toml: %w", err)
	}
	return nil
}

// landing is what is known before an accept and must hold after it.
type landing struct {
	branch string
	head   string // of the target
	tip    string // of the task
	tree   string // of the tip, and so of the merge: the target has not moved
}

func (r *run) before(ctx context.Context) (landing, error) {
	var l landing
	rec, err := r.record(ctx)
	if err != nil {
		return l, err
	}
	l.tip = rec.Head
	if l.branch, err = r.git.run(ctx, r.at.Repo, "symbolic-ref", "--short", "HEAD"); err != nil {
		return l, err
	}
	if l.head, err = r.git.run(ctx, r.at.Repo, "rev-parse", "HEAD"); err != nil {
		return l, err
	}
	if l.tip == "" || l.tip == l.head {
		return l, fault.New(fault.Failed, "the task has no commit of its own")
	}
	l.tree, err = r.git.run(ctx, r.at.Repo, "rev-parse", "--verify", l.tip+"^{tree}")
	return l, err
}

// verify asks git alone: the merge commit is the target's head, stands on the
// head the target had, carries the tree the task had, and is checked out.
func (r *run) verify(ctx context.Context, was landing) (string, error) {
	wrong := func(format string, args ...any) (string, error) {
		return "", fault.New(fault.Failed, "the merge is not what it should be: "+format, args...)
	}
	head, err := r.git.run(ctx, r.at.Repo, "rev-parse", "refs/heads/"+was.branch)
	if err != nil {
		return "", err
	}
	rec, err := r.record(ctx)
	if err != nil {
		return "", err
	}
	if rec.Status != "complete" {
		return wrong("the task is %s", rec.Status)
	}
	if rec.Merge != head {
		return wrong("the record says %s and %s is at %s", rec.Merge, was.branch, head)
	}
	parents, err := r.git.run(ctx, r.at.Repo, "rev-list", "--parents", "-n", "1", head)
	if err != nil {
		return "", err
	}
	f := strings.Fields(parents)
	if len(f) < 2 || f[1] != was.head || len(f) > 2 && f[2] != was.tip || len(f) > 3 {
		return wrong("its parents are %v, expected %s", f[1:], was.head)
	}
	tree, err := r.git.run(ctx, r.at.Repo, "rev-parse", head+"^{tree}")
	if err != nil {
		return "", err
	}
	if tree != was.tree {
		return wrong("its tree is %s, expected %s", tree, was.tree)
	}
	dirty, err := r.git.run(ctx, r.at.Repo, "status", "--porcelain", "--", r.w.file)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(r.at.Repo, r.w.file)); err != nil || dirty != "" {
		return wrong("%s is not checked out as it was merged", r.w.file)
	}
	fmt.Fprintf(r.h.Out, "  git: %s is the head of %s\n  git: its parent is %s, where %s was before\n  git: its tree is %s, the tree of the task\n",
		head[:12], was.branch, was.head[:12], was.branch, tree[:12])
	return head, nil
}
