package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// giveUp only ends worlds that are broken: everything is waited for by condition.
// It is longer than any time-out of the product that no clock of ours moves.
const giveUp = 3 * time.Minute

// World is one repository with its state and the processes that serve it. The
// control plane is started again whenever it dies, as a person's next command or
// an init system does; supervisors are not.
type World struct {
	Repo  string
	Paths config.Paths
	Log   string // what every life of the plane wrote

	dir    string
	ahead  atomic.Int64
	keys   atomic.Int64
	lives  atomic.Int64
	shaken atomic.Bool // something died, so waiting may need the clock moved

	mu     sync.Mutex
	cmd    *exec.Cmd // guarded by mu
	closed bool      // guarded by mu
	broken error     // guarded by mu
	nursed chan struct{}
}

// agentScript is the agent of every world. What it does is one word of its
// prompt, so that a turn that is redelivered does the same again. A file it waits
// for it leaves alone: an agent whose supervisor was killed lives until its sandbox
// notices, and would take away what its successor waits for.
const agentScript = `
call() { lazy-agent call "$@"; }
sure() { # a call whose answer may be lost is made again, as a person would
	for n in 1 2 3 4 5; do call "$@" >/dev/null && return 0; sleep 0.1; done
	return 0
}
word=$(grep -o 'RUN:[a-z0-9:-]*' "$LAZY_PROMPT_FILE" | head -1)
name=${word##*:}
case "$word" in
RUN:make:*|RUN:hold:*)
	case "$(cat "$name.txt" 2>/dev/null)" in "$name") ;; *) echo "$name" >"$name.txt" ;; esac
	call lazy_commit "{\"message\":\"add $name\"}" >/dev/null || true
	case "$word" in RUN:hold:*) while [ ! -e "go-$name" ]; do sleep 0.02; done ;; esac
	call lazy_final '{"note":"done"}' >/dev/null || true
	;;
RUN:die:*)
	if [ ! -e ".died" ]; then echo 1 >.died; echo half >"$name.txt"; kill -9 $$; fi
	rm -f .died
	echo "$name" >"$name.txt"
	call lazy_commit "{\"message\":\"add $name\"}" >/dev/null || true
	call lazy_final '{"note":"done"}' >/dev/null || true
	;;
RUN:parent:*)
	sure lazy_create "{\"goal\":\"part of $name\",\"prompt\":\"RUN:make:$name-part\",\"code\":\"$name-part\"}"
	sure lazy_start "{\"task_id\":\"$name-part\"}"
	sure lazy_wait "{\"task_ids\":[\"$name-part\"],\"timeout_s\":20}"
	sure lazy_accept "{\"task_id\":\"$name-part\"}"
	echo "$name" >"$name.txt"
	sure lazy_commit "{\"message\":\"add $name\"}"
	sure lazy_final '{"note":"done"}'
	;;
RUN:hang:*)
	echo "$name" >"$name.txt"
	while :; do sleep 0.05; done
	;;
esac
echo "$word done"
`

// NewWorld makes a repository in dir and starts its plane. home is shared by
// worlds, so that the program is installed once.
func NewWorld(ctx context.Context, home, dir string) (*World, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	w := &World{Repo: filepath.Join(dir, "repo"), Log: filepath.Join(dir, "plane.log"), nursed: make(chan struct{})}
	if err := os.Mkdir(w.Repo, 0o755); err != nil {
		return nil, err
	}
	toml := "[agent]\nagent_id = \"scripted\"\n\n[agents.scripted]\ncommand = [\"/bin/sh\", \"-c\", '''" + agentScript + "''']\n"
	for name, text := range map[string]string{"README.md": "shop\n", "notes.txt": "one\ntwo\n", ".gitignore": "go-*\n.died\n", config.File: toml} {
		if err := os.WriteFile(filepath.Join(w.Repo, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "."},
		{"config", "user.name", "Ada"},
		{"config", "user.email", "ada@example.com"},
		{"config", "gc.auto", "0"},
		{"add", "-A"},
		{"commit", "-q", "-m", "first"},
	} {
		if _, err := w.Git(ctx, args...); err != nil {
			return nil, err
		}
	}
	if w.Paths, err = config.PathsIn(home, w.Repo); err != nil {
		return nil, err
	}
	w.dir = filepath.Join(w.Paths.Dir, folder)
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return nil, err
	}
	return w, w.Arm()
}

// Arm makes the processes of the world die when they together reach these points.
func (w *World) Arm(at ...int) error {
	return replace(filepath.Join(w.dir, armedFile), fmt.Appendf(nil, "%s\n", strings.Trim(fmt.Sprint(at), "[]")))
}

// Reached lists the points that were reached so far.
func (w *World) Reached() ([]string, error) { return points(w.dir) }

// Died lists the points at which processes ended.
func (w *World) Died() []string {
	b, err := os.ReadFile(filepath.Join(w.dir, diedFile))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// Git runs git as the person does.
func (w *World) Git(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = w.Repo
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// Up starts the plane and keeps it up until Close.
func (w *World) Up(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	go w.nurse(context.WithoutCancel(ctx))
	return w.ready(ctx)
}

func (w *World) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(w.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.CommandContext(context.WithoutCancel(ctx), self, upWord, w.Paths.Home, w.Repo)
	c.Stdout, c.Stderr = log, log
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	w.mu.Lock()
	w.cmd = c
	w.mu.Unlock()
	w.lives.Add(1)
	return nil
}

// maxLives ends a world whose plane dies again and again by itself.
const maxLives = 12

func (w *World) nurse(ctx context.Context) {
	defer close(w.nursed)
	for {
		w.mu.Lock()
		c := w.cmd
		w.mu.Unlock()
		err := c.Wait()
		w.mu.Lock()
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return
		}
		w.shaken.Store(true)
		if w.lives.Load() >= maxLives {
			err = fmt.Errorf("the plane ended %d times, the last time with: %w", w.lives.Load(), err)
		} else {
			err = w.start(ctx)
		}
		if err != nil {
			w.mu.Lock()
			w.broken = err
			w.mu.Unlock()
			return
		}
	}
}

func (w *World) fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// KillPlane ends the plane from outside, as a person's kill -9 does.
func (w *World) KillPlane() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.cmd.Process.Kill()
}

// ready waits until the present life of the plane answers.
func (w *World) ready(ctx context.Context) error {
	return w.until(ctx, "the plane answers", func() (bool, error) {
		at, ok, err := config.ReadPlane(w.Paths.Plane())
		return err == nil && ok && at.PID == w.pid(), nil
	})
}

// pid is the process of the plane's present life. What an earlier one wrote of
// its address may by now be somebody else's.
func (w *World) pid() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cmd.Process.Pid
}

// until waits for a condition; time only ends a broken world.
func (w *World) until(ctx context.Context, what string, cond func() (bool, error)) error {
	for end := time.Now().Add(giveUp); ; {
		ok, err := cond()
		if ok || err != nil {
			return err
		}
		if err := errors.Join(ctx.Err(), w.fault()); err != nil {
			return fmt.Errorf("while waiting until %s: %w", what, err)
		}
		if time.Now().After(end) {
			return fmt.Errorf("it never came to this: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Try makes one attempt at a call of the owner's.
func (w *World) Try(ctx context.Context, key, command string, in, out any) error {
	at, ok, err := config.ReadPlane(w.Paths.Plane())
	if err != nil || !ok || at.PID != w.pid() {
		return &client.UnreachableError{Err: errors.Join(err, errors.New("no plane"))}
	}
	token, err := os.ReadFile(w.Paths.Token())
	if err != nil {
		return &client.UnreachableError{Err: err}
	}
	c := client.Client{Base: at.URL, Token: strings.TrimSpace(string(token)), NewID: func() string { return fmt.Sprint(w.keys.Add(1)) }}
	one, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	return c.Call(one, command, in, out, client.WithKey(key))
}

// Call makes a call through however many deaths of the plane, under one key: what
// was acknowledged, or done without the answer arriving, is not done again.
func (w *World) Call(ctx context.Context, command string, in, out any) error {
	key := fmt.Sprintf("call-%d", w.keys.Add(1))
	return w.until(ctx, command+" is answered", func() (bool, error) {
		err := w.Try(ctx, key, command, in, out)
		if err == nil {
			return true, nil
		}
		_, away := errors.AsType[*client.UnreachableError](err)
		_, lost := errors.AsType[*client.LostError](err)
		// A plane that died since its address was read may have left its port to that
		// of another world, which does not know the credential.
		if k := fault.KindOf(err); away || lost || k == fault.Unavailable || k == fault.Unauthenticated {
			return false, nil
		}
		return false, fmt.Errorf("%s: %w", command, err)
	})
}

// Args are the arguments of a call.
type Args map[string]any

// Status asks where a task is.
func (w *World) Status(ctx context.Context, code string) (op.TaskState, error) {
	var s op.Standing
	if err := w.Call(ctx, "getStatus", Args{"task_id": code}, &s); err != nil {
		return op.TaskState{}, err
	}
	return *s.Task, nil
}

// How far and how often the clock is moved while nothing happens.
const (
	patience = 250 * time.Millisecond
	jump     = 6 * time.Second
)

// Await waits until a task has one of the statuses. When something died and no
// supervisor of the task is left to wait for, it moves the clock.
func (w *World) Await(ctx context.Context, code string, want ...string) (op.TaskState, error) {
	var s op.TaskState
	was, since := "", time.Now()
	err := w.until(ctx, fmt.Sprintf("%s is %v", code, want), func() (bool, error) {
		var err error
		if s, err = w.Status(ctx, code); err != nil {
			return false, err
		}
		if slices.Contains(want, string(s.Status)) {
			return true, nil
		}
		if is := fmt.Sprint(s.Status, s.Updated); is != was {
			was, since = is, time.Now()
		}
		if w.shaken.Load() || len(w.Died()) > 0 {
			if time.Since(since) > patience {
				since = time.Now()
				return false, w.nudge(ctx)
			}
		}
		return false, nil
	})
	if err != nil {
		err = fmt.Errorf("%w; it is %s (%s)", err, s.Status, s.Why)
	}
	return s, err
}

// nudge moves the clock when some task waits for nothing but time: no supervisor
// of it is left.
func (w *World) nudge(ctx context.Context) error {
	var l op.Listing
	if err := w.Call(ctx, "listActive", Args{}, &l); err != nil {
		return err
	}
	for _, t := range l.Tasks {
		if !w.alive(t.Short) {
			return w.Jump(jump)
		}
	}
	return nil
}

// Jump moves the plane's clock ahead.
func (w *World) Jump(d time.Duration) error {
	return setAhead(w.dir, time.Duration(w.ahead.Add(int64(d))))
}

// idents are the processes of a task's runs and sandbox.
func (w *World) idents(short string) []spool.Ident {
	var out []spool.Ident
	files, _ := filepath.Glob(filepath.Join(w.Paths.Dir, "runs", short, "*", spool.SelfFile))
	pids, _ := filepath.Glob(filepath.Join(w.Paths.Dir, "runs", short, "*", spool.PidFile))
	for _, f := range append(files, pids...) {
		var i spool.Ident
		if ok, err := spool.Read(filepath.Dir(f), filepath.Base(f), &i); err == nil && ok {
			out = append(out, i)
		}
	}
	return out
}

// alive reports whether a supervisor of the task runs.
func (w *World) alive(short string) bool {
	for _, i := range w.idents(short) {
		if i.Alive() {
			return true
		}
	}
	return false
}

// KillSupervisors ends every supervisor of a task, and nothing else.
func (w *World) KillSupervisors(short string) int {
	n := 0
	for _, i := range w.idents(short) {
		if i.Alive() {
			w.shaken.Store(true)
			if syscall.Kill(i.PID, syscall.SIGKILL) == nil {
				n++
			}
		}
	}
	return n
}

// KillSandbox ends the sandbox of a task under its supervisor, with the agent.
func (w *World) KillSandbox(short string) int {
	n := 0
	for _, i := range w.boxes(short) {
		w.shaken.Store(true)
		if syscall.Kill(i.PID, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// boxes are the processes that hold the sandboxes of a task.
func (w *World) boxes(short string) []spool.Ident {
	var out []spool.Ident
	files, _ := filepath.Glob(filepath.Join(w.Paths.Dir, "runs", short, "box", spool.BoxFile))
	for _, f := range files {
		var b spool.Box
		if ok, err := spool.Read(filepath.Dir(f), spool.BoxFile, &b); err != nil || !ok {
			continue
		}
		for _, i := range []spool.Ident{b.Helper, b.Ident} {
			if i.Alive() {
				out = append(out, i)
			}
		}
	}
	return out
}

// Tree is the work tree of a task.
func (w *World) Tree(t id.Task) string { return filepath.Join(w.Paths.Task(t.Short()), "tree") }

// Close ends every process of the world.
func (w *World) Close() {
	w.mu.Lock()
	w.closed = true
	c := w.cmd
	w.mu.Unlock()
	if c != nil {
		_ = c.Process.Kill()
		<-w.nursed
	}
	for _, i := range w.idents("*") {
		if i.Alive() {
			_ = syscall.Kill(-i.PID, syscall.SIGKILL)
		}
	}
	for _, i := range w.boxes("*") {
		_ = syscall.Kill(i.PID, syscall.SIGKILL)
	}
}
