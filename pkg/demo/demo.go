// Package demo runs the whole main job on a real git repository: it makes the
// repository, lets a scripted agent work on a task in it, and merges the result.
// It drives the same command lines a person types, and then checks with its own
// git commands that the merge really is where it should be.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// Options is what a person may choose.
type Options struct {
	Repo        string // work on a private clone of this repository
	Agent       string // a CLI; "" and command are the scripted one
	Model       string // of that CLI
	Keep        bool   // keep the folder when the demo does not succeed
	HostProcess bool
}

// Host is what the demo may touch.
type Host struct {
	Out     io.Writer
	Err     io.Writer
	Now     func() time.Time
	Environ []string
	Dir     string // relative paths of Options start here
	TempDir string
	Self    string // the program the commands to try next run
	// Lazy runs one command line on the demo's repository and state.
	Lazy func(ctx context.Context, at Place, out, errs io.Writer, args ...string) int
	// Up runs the control plane until ctx ends; ready is called once it answers.
	Up func(ctx context.Context, at Place, host bool, ready func(url string)) error
	// Ends says that the control plane does not outlive the demo.
	Ends bool
	// Apart says that the project's repository lies with the control plane: commits
	// are brought there and taken from there.
	Apart bool
	// Probe says why agents cannot be sandboxed here.
	Probe func(ctx context.Context) error
}

// Place is where a demo happens: everything it makes lies below Dir.
type Place struct {
	Dir  string
	Home string // state of the control plane, apart from the person's own
	Repo string
}

// ErrUnconfigured ends a demo before anything ran, because its agent lacks what
// only the person can give.
var ErrUnconfigured = errors.New("the demo's agent is not set up")

// Code is the code of the demo's task.
const Code = "greet"

// work is what the scripted agent is asked for and how the result is known.
type work struct {
	goal   string
	prompt string
	script string
	file   string // the file it changes
}

type run struct {
	h    Host
	o    Options
	at   Place
	w    work
	git  gitter
	took []took
	up   *plane
}

type took struct {
	step string
	time time.Duration
}

// Run runs the demo. It succeeds only when the merge commit is on the target
// with the parent and the tree it should have.
func Run(ctx context.Context, h Host, o Options) (err error) {
	if o.Agent == "command" {
		o.Agent = ""
	}
	if o.Agent != "" && !slices.Contains(names.AgentCLIs(), o.Agent) {
		return fault.New(fault.Invalid, "the demo cannot run %q; it runs its scripted agent, command, or one of %s", o.Agent, strings.Join(names.AgentCLIs(), ", ")).
			WithNext("Set that agent up in your own repository: `lazy init`, then edit lazy.toml.")
	}
	if o.Agent == "" {
		fmt.Fprintln(h.Out, "lazy demo: from a goal to a merged commit, on this machine, without an account")
	} else {
		fmt.Fprintf(h.Out, "lazy demo: from a goal to a merged commit, on this machine, with %s and its model\n", o.Agent)
	}
	if !o.HostProcess {
		if err := h.Probe(ctx); err != nil {
			return unsandboxed(err)
		}
	}
	r := &run{h: h, o: o, git: gitter{environ: h.Environ}}
	if err := r.place(); err != nil {
		return err
	}
	defer func() {
		if stop := r.stop(ctx); err == nil {
			err = stop
		}
		err = r.leave(ctx, err)
	}()
	return r.all(ctx)
}

// unsandboxed turns a probe's finding into one sentence and both ways on.
func unsandboxed(err error) error {
	f := fault.Of(err)
	why := f.Public
	if f.Kind == fault.Internal && f.Err != nil {
		why = f.Err.Error()
	}
	e := fault.New(fault.Failed, "agents cannot be sandboxed here: %s; nothing was made", why)
	for _, n := range f.Next {
		if !strings.Contains(n.Text, "--host-process") { // the demo has its own way to say so
			e.Next = append(e.Next, n)
		}
	}
	if len(e.Next) == 0 {
		e = e.WithNext("Install bubblewrap (for example `apt-get install bubblewrap`) and allow user namespaces; `lazy doctor` shows what is missing.")
	}
	return e.WithNext("Or run the demo's scripted agent without a sandbox: `lazy demo --host-process`.")
}

func (r *run) place() error {
	dir, err := os.MkdirTemp(r.h.TempDir, "lazy-demo-")
	if err != nil {
		return fault.Wrap(fault.Failed, err, "there is no place for the demo's repository: %v", err).
			WithNext("Set TMPDIR to a directory you can write to.")
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("resolve the demo's folder: %w", err)
	}
	r.at = Place{Dir: dir, Home: filepath.Join(dir, "state"), Repo: filepath.Join(dir, "repo")}
	r.git.config = filepath.Join(dir, "gitconfig")
	return nil
}

func (r *run) all(ctx context.Context) error {
	what := "make a small repository"
	if r.o.Repo != "" {
		what = "clone " + r.o.Repo + " privately"
	}
	if err := r.step(what, func() error { return r.repository(ctx) }); err != nil {
		return err
	}
	if err := r.step("bring the control plane up", func() error { return r.bringUp(ctx) }); err != nil {
		return err
	}
	if r.h.Apart {
		if err := r.step("bring the commits there", func() error { return r.lazy(ctx, "push") }); err != nil {
			return err
		}
	}
	if err := r.step("create a task", func() error {
		args := []string{"create", "--code", Code, "--goal", r.w.goal, "--prompt", r.w.prompt}
		if r.o.Model != "" {
			args = append(args, "--model", r.o.Model)
		}
		return r.lazy(ctx, args...)
	}); err != nil {
		return err
	}
	if err := r.step("start it", func() error { return r.lazy(ctx, "start", Code) }); err != nil {
		return err
	}
	if err := r.step("let the agent work", func() error {
		limit := "10m"
		if r.o.Agent != "" {
			limit = "30m"
		}
		if err := r.lazy(ctx, "wait", Code, "--timeout", limit); err != nil {
			return err
		}
		return r.settled(ctx)
	}); err != nil {
		return err
	}
	if err := r.step("look at the result", func() error {
		if err := r.lazy(ctx, "show", Code); err != nil {
			return err
		}
		return r.lazy(ctx, "diff", Code)
	}); err != nil {
		return err
	}
	var before landing
	if err := r.step("accept it", func() (err error) {
		if r.h.Apart {
			if err := r.lazy(ctx, "pull", "lazy/"+Code); err != nil {
				return err
			}
		}
		if before, err = r.before(ctx); err != nil {
			return err
		}
		if err := r.lazy(ctx, "accept", Code, "--yes"); err != nil || !r.h.Apart {
			return err
		}
		return r.lazy(ctx, "pull")
	}); err != nil {
		return err
	}
	var merged string
	if err := r.step("check the merge with git", func() (err error) {
		merged, err = r.verify(ctx, before)
		return err
	}); err != nil {
		return err
	}
	r.summary(merged, before)
	return nil
}

// step runs one part of the demo under a heading and notes what it took.
func (r *run) step(name string, f func() error) error {
	fmt.Fprintf(r.h.Out, "\n%d. %s\n", len(r.took)+1, name)
	began := r.h.Now()
	err := f()
	r.took = append(r.took, took{name, r.h.Now().Sub(began)})
	return err
}

// lazy shows a command line and runs it. It reports its own errors; here only
// the fact that it did not succeed matters.
func (r *run) lazy(ctx context.Context, args ...string) error {
	fmt.Fprintf(r.h.Out, "$ lazy %s\n", commandLine(args))
	return r.quiet(ctx, r.h.Out, args...)
}

func (r *run) quiet(ctx context.Context, out io.Writer, args ...string) error {
	if code := r.h.Lazy(ctx, r.at, out, whileRuns{func() bool { return ctx.Err() != nil }, r.h.Err}, args...); code != 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fault.New(fault.Failed, "`lazy %s` ended with exit code %d; the demo stops here", args[0], code)
	}
	return nil
}

// whileRuns drops what a command says once the demo is interrupted: the demo says
// what becomes of everything then.
type whileRuns struct {
	over func() bool
	w    io.Writer
}

func (w whileRuns) Write(p []byte) (int, error) {
	if w.over() {
		return len(p), nil
	}
	return w.w.Write(p)
}

// record is the part of `lazy show --json` that the demo reads.
type record struct {
	Status string `json:"status"`
	Head   string `json:"head_sha"`
	Final  *struct {
		SHA string `json:"sha"`
	} `json:"final"`
	Merge string `json:"merge_sha"`
}

func (r *run) record(ctx context.Context) (record, error) {
	var b bytes.Buffer
	if err := r.quiet(ctx, &b, "show", Code, "--json"); err != nil {
		return record{}, err
	}
	var rec record
	if err := json.Unmarshal(b.Bytes(), &rec); err != nil {
		return rec, fmt.Errorf("understand `lazy show --json`: %w", err)
	}
	return rec, nil
}

// settled refuses to go on from a turn that did not do its work.
func (r *run) settled(ctx context.Context) error {
	rec, err := r.record(ctx)
	if err != nil {
		return err
	}
	if rec.Status == "blocked" && rec.Final != nil {
		return nil
	}
	_ = r.lazy(ctx, "show", Code, "--full")
	return fault.New(fault.Failed, "the agent's turn ended with the task %s, without a declaration that it is done", rec.Status).
		WithNext("The turn's record above says why; the control plane's log is below " + r.at.Home + ".")
}

// summary is what a person takes away.
func (r *run) summary(merged string, before landing) {
	w := r.h.Out
	fmt.Fprintf(w, "\nDone: %s is on %s, its parent and its tree are the expected ones.\n\n", merged[:12], before.branch)
	widest := 0
	for _, t := range r.took {
		widest = max(widest, len([]rune(t.step)))
	}
	var whole time.Duration
	for _, t := range r.took {
		whole += t.time
		fmt.Fprintf(w, "  %-*s  %7s\n", widest, t.step, span(t.time))
	}
	fmt.Fprintf(w, "  %-*s  %7s\n\n", widest, "altogether", span(whole))
	fmt.Fprintf(w, "The repository is kept in %s\n", r.at.Repo)
	if r.h.Ends {
		fmt.Fprintf(w, "The control plane ended with the demo. Look at the merge with: git -C %s log --stat -2\n", quote(r.at.Repo))
		fmt.Fprintf(w, "Remove it all with: rm -rf %s\n", quote(r.at.Dir))
		return
	}
	cmd, err := r.wrapper()
	if err != nil {
		fmt.Fprintf(w, "(no command to try next: %v)\n", err)
		return
	}
	fmt.Fprintln(w, "Three commands to try next:")
	fmt.Fprintf(w, "  %s show %s\n", cmd, Code)
	fmt.Fprintf(w, "  git -C %s log --stat -2\n", quote(r.at.Repo))
	fmt.Fprintf(w, "  %s create --goal \"Say goodbye too\" --code bye\n", cmd)
	fmt.Fprintf(w, "Remove it all with: %s down; rm -rf %s\n", cmd, quote(r.at.Dir))
}

func span(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// wrapper writes a command that is lazy on the demo's repository and state, so
// that what is printed works from anywhere as it stands.
func (r *run) wrapper() (string, error) {
	bin := filepath.Join(r.at.Dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	prog := filepath.Join(bin, "lazy") // the program is known by the name it is called by
	if err := os.Symlink(r.h.Self, prog); err != nil {
		return "", err
	}
	path := filepath.Join(r.at.Dir, "lazy")
	text := fmt.Sprintf("#!/bin/sh\nLAZY_HOME=%s\nexport LAZY_HOME\nunset LAZY_TARGET LAZY_TOKEN\nexec %s -C %s \"$@\"\n",
		quote(r.at.Home), quote(prog), quote(r.at.Repo))
	return quote(path), os.WriteFile(path, []byte(text), 0o755)
}

// leave says what became of the folder, and removes it when nothing worth
// keeping is in it.
func (r *run) leave(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrUnconfigured) && !r.o.Keep {
		return errors.Join(err, os.RemoveAll(r.at.Dir))
	}
	if ctx.Err() != nil && !r.o.Keep {
		if rm := os.RemoveAll(r.at.Dir); rm == nil {
			fmt.Fprintf(r.h.Out, "\nInterrupted: the control plane is stopped and %s removed.\n", r.at.Dir)
			return err
		}
	}
	fmt.Fprintf(r.h.Out, "\nThe demo did not succeed. What it left is in %s\n", r.at.Dir)
	return err
}

// commandLine prints arguments the way a shell takes them.
func commandLine(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = quote(a)
	}
	return strings.Join(out, " ")
}

func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	if !strings.ContainsAny(s, "\"$`\\!\n") {
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// plane is a control plane running inside this process.
type plane struct {
	cancel context.CancelFunc
	done   chan error
}

func (r *run) bringUp(ctx context.Context) error {
	// Its life is the demo's, not the request's: on Ctrl-C it must still be there
	// to stop the running turn.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &plane{cancel: cancel, done: make(chan error, 1)}
	ready := make(chan string, 1)
	go func() {
		p.done <- r.h.Up(own, r.at, r.o.HostProcess, func(url string) { ready <- url })
	}()
	select {
	case url := <-ready:
		r.up = p
		fmt.Fprintf(r.h.Out, "  it listens on %s; its state is in %s\n", url, r.at.Home)
		return nil
	case err := <-p.done:
		cancel()
		if err == nil {
			err = errors.New("the control plane ended before it was ready")
		}
		return err
	case <-ctx.Done():
		cancel()
		return errors.Join(ctx.Err(), ended(<-p.done))
	}
}

// stopLimit is how long an interrupted demo waits for its task to be gone.
const stopLimit = 20 * time.Second

// stop ends what the demo started: first a task that is still there, since an
// agent outlives its control plane on purpose, then the plane.
func (r *run) stop(ctx context.Context) error {
	if r.up == nil {
		return nil
	}
	if ctx.Err() != nil {
		left, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		r.drop(left)
	}
	r.up.cancel()
	return ended(<-r.up.done)
}

// ended is the error of a plane that was told to end; being told is none.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// drop closes the demo's task and waits until its agent, its worktree and at last
// its branch are gone.
func (r *run) drop(ctx context.Context) {
	if r.h.Lazy(ctx, r.at, io.Discard, io.Discard, "close", Code, "--reason", "the demo was interrupted", "--yes") != 0 {
		return // it was never made, or is over
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := r.git.run(ctx, r.at.Repo, "rev-parse", "--verify", "--quiet", "refs/heads/lazy/"+Code); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
