// Package process is the runner of a laptop: a run is a supervisor process in a
// session of its own, which outlives the control plane that launched it and is
// found again by the files it lives in (SY-040, AG-020).
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// Config is what a runner needs to know.
type Config struct {
	BinPath  string        // the installed lazy-agent
	StateDir string        // state of the project; runs live in its runs directory
	Target   func() string // address a supervisor calls
	Grace    time.Duration // between asking a supervisor to end and killing it
	Now      func() time.Time
	After    func(time.Duration) <-chan time.Time // the clock of Grace; time.After when nil
	Log      *slog.Logger
	// OnExit is told of the end of every run this runner watches, after its
	// record is durable. It makes things fast; the sweep makes them true.
	OnExit func(ref string, r runner.Report)
	// CrashPoint, when set, is called around every process that is started or
	// ended: "runner.spawn.before", "runner.kill.after".
	CrashPoint func(point string)
}

// Runner launches and watches supervisor processes.
type Runner struct {
	c Config

	mu       sync.Mutex
	locks    map[string]*sync.Mutex   // by ref, one launch at a time
	watched  map[string]chan struct{} // by ref, closed at the end of the process
	watching sync.WaitGroup
}

var (
	_ runner.Runner = (*Runner)(nil)
	_ runner.Ender  = (*Runner)(nil)
	_ runner.Lister = (*Runner)(nil)
)

// Wait returns when every run that this runner watches has ended and OnExit was
// told of it.
func (r *Runner) Wait() { r.watching.Wait() }

// reposts bounds how often an ended run is started again to hand in its answer.
const reposts = 3

// New returns a runner.
func New(c Config) *Runner {
	if c.Grace == 0 {
		c.Grace = 10 * time.Second
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.OnExit == nil {
		c.OnExit = func(string, runner.Report) {}
	}
	if c.CrashPoint == nil {
		c.CrashPoint = func(string) {}
	}
	return &Runner{c: c, locks: map[string]*sync.Mutex{}, watched: map[string]chan struct{}{}}
}

func refOf(task id.Task, epoch int64) string {
	return task.Short() + "/" + strconv.FormatInt(epoch, 10)
}

// dir returns the directory of a reference; a reference is never trusted to be
// a path.
func (r *Runner) dir(ref string) (string, error) {
	short, epoch, ok := strings.Cut(ref, "/")
	n, err := strconv.ParseInt(epoch, 10, 64)
	if !ok || err != nil || n < 0 || strconv.FormatInt(n, 10) != epoch || !id.IsShort(short) {
		return "", fault.New(fault.Invalid, "%q is not a reference of a run", ref)
	}
	return filepath.Join(r.c.StateDir, "runs", short, epoch), nil
}

// Launch starts the supervisor of a run, once: a second launch of the same task
// and epoch, in this process or after its death, returns the same reference.
func (r *Runner) Launch(ctx context.Context, s runner.Spec) (string, error) {
	ref := refOf(s.Task, s.Epoch)
	dir, err := r.dir(ref)
	if err != nil {
		return "", err
	}
	defer r.one(ref)()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	lock, err := spool.Lock(dir)
	if err != nil {
		return "", err
	}
	if lock == nil { // a supervisor lives, or is about to
		if err := r.settle(ctx, dir); err != nil {
			return "", err
		}
		r.watch(ref, dir)
		return ref, nil
	}
	defer lock.Close()
	if begun(dir) {
		_, err := r.repost(ref, dir, lock)
		return ref, err
	}
	start := spool.Start{
		Target: r.c.Target(), Plane: filepath.Join(r.c.StateDir, "plane.json"), Nonce: s.Nonce,
		Tenant: s.Tenant, Project: s.Project, Task: s.Task, Turn: s.Turn, Epoch: s.Epoch, Host: s.Host,
	}
	if err := spool.Write(dir, spool.StartFile, start); err != nil {
		return "", err
	}
	mode := "supervise"
	if s.Broker {
		mode = "broker"
	}
	if err := r.spawn(ref, dir, mode, lock); err != nil {
		return "", err
	}
	return ref, nil
}

// begun reports whether a supervisor of this run has ever started.
func begun(dir string) bool {
	var i spool.Ident
	a, _ := spool.Read(dir, spool.SelfFile, &i)
	b, _ := spool.Read(dir, spool.PidFile, &i)
	return a || b
}

// spawn starts a supervisor that inherits the run's lock, so that between this
// fork and the child's first file there is no moment in which a crash of ours
// could let a second one start.
func (r *Runner) spawn(ref, dir, mode string, lock *os.File) error {
	log, err := os.OpenFile(filepath.Join(dir, spool.LogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open supervisor log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(r.c.BinPath, mode, "--protocol-dir", dir, "--lock-fd", "3") //nolint:noctx // it outlives whoever starts it
	cmd.Env = scrubbed(os.Environ())
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r.c.CrashPoint("runner.spawn.before")
	if err := cmd.Start(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the supervisor program %s cannot be started", r.c.BinPath).
			WithNext("Run `lazy doctor`.")
	}
	r.c.CrashPoint("runner.spawn.after")
	ident, err := spool.Identify(cmd.Process.Pid)
	if err == nil {
		err = spool.Write(dir, spool.PidFile, ident)
	}
	done := make(chan struct{})
	r.mu.Lock()
	r.watched[ref] = done
	r.mu.Unlock()
	r.watching.Go(func() {
		defer close(done)
		r.ended(ref, dir, code(cmd.Wait()))
	})
	if errors.Is(err, os.ErrNotExist) { // it ended before we could look: the watcher says so
		return nil
	}
	return err
}

// scrubbed is the environment of a supervisor: what a program needs to run at
// all, and nothing a person keeps secrets in.
func scrubbed(environ []string) []string {
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR":
			out = append(out, kv)
		}
	}
	return out
}

// code is the exit code a shell would show: 128 + signal for a killed process.
func code(err error) int {
	if err == nil {
		return 0
	}
	x, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return -1
	}
	if ws, ok := x.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return x.ExitCode()
}

// ended records the end of a run's process and starts it again if it took its
// answer with it.
func (r *Runner) ended(ref, dir string, exit int) {
	var x spool.Exit
	if ok, _ := spool.Read(dir, spool.ExitFile, &x); !ok || exit > 128 {
		x = spool.Exit{Code: exit, Reason: runner.Reason(exit), At: r.c.Now()}
		if err := spool.Write(dir, spool.ExitFile, x); err != nil {
			r.c.Log.Error("record exit", "ref", ref, "err", err)
		}
	}
	if r.answerLeft(ref, dir) {
		return // the end is told when that one ends
	}
	// What the process was just about to start has its lock until it becomes another
	// program, and may outlive it by that moment.
	rep, err := r.Observe(context.Background(), ref)
	for n := 0; err == nil && rep.Sight == runner.Unclear && n < 100; n++ {
		<-time.After(20 * time.Millisecond)
		rep, err = r.Observe(context.Background(), ref)
	}
	if err != nil {
		r.c.Log.Error("observe ended run", "ref", ref, "err", err)
	}
	r.c.OnExit(ref, rep)
}

// answerLeft starts an ended run's supervisor again when it took its answer with it.
// It waits for whoever is launching the run: while the launcher holds the run's lock,
// nobody could tell that the process is gone.
func (r *Runner) answerLeft(ref, dir string) (again bool) {
	defer r.one(ref)()
	if !spool.Unposted(dir) {
		return false
	}
	lock, err := spool.Lock(dir)
	if err != nil || lock == nil {
		return false
	}
	defer lock.Close()
	if again, err = r.repost(ref, dir, lock); err != nil {
		r.c.Log.Error("start a supervisor for its answer", "ref", ref, "err", err)
	}
	return again
}

// repost starts an ended run's supervisor again, when it left an answer that was
// not taken; it does nothing else with it (CR-017).
func (r *Runner) repost(ref, dir string, lock *os.File) (started bool, err error) {
	if !spool.Unposted(dir) {
		return false, nil
	}
	var n int
	if _, err := spool.Read(dir, "reposts.json", &n); err != nil {
		return false, err
	}
	if n >= reposts {
		return false, nil
	}
	if err := spool.Write(dir, "reposts.json", n+1); err != nil {
		return false, err
	}
	if err := r.spawn(ref, dir, "supervise", lock); err != nil {
		return false, err
	}
	return true, nil
}

// one serialises launches of one reference within this process.
func (r *Runner) one(ref string) (unlock func()) {
	r.mu.Lock()
	m := r.locks[ref]
	if m == nil {
		m = &sync.Mutex{}
		r.locks[ref] = m
	}
	r.mu.Unlock()
	m.Lock()
	return m.Unlock
}

// settle waits for a supervisor that holds the lock to have named itself, and
// records it as launched.
func (r *Runner) settle(ctx context.Context, dir string) error {
	for range 200 {
		var i spool.Ident
		for _, name := range []string{spool.SelfFile, spool.PidFile} {
			if ok, err := spool.Read(dir, name, &i); err != nil {
				return err
			} else if ok {
				return spool.Write(dir, spool.PidFile, i)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.c.After(10 * time.Millisecond):
		}
	}
	return fault.New(fault.Unavailable, "a supervisor of this run is starting and has not named itself")
}

// Find locates a run by its directory.
func (r *Runner) Find(ctx context.Context, task id.Task, epoch int64) (string, bool, error) {
	ref := refOf(task, epoch)
	dir, err := r.dir(ref)
	if err != nil {
		return "", false, err
	}
	if _, err := os.Stat(filepath.Join(dir, spool.StartFile)); errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	} else if err != nil {
		return "", false, fmt.Errorf("find run: %w", err)
	}
	if begun(dir) {
		return ref, true, nil
	}
	if r.live(dir) == runner.Gone { // an intent without a process: nothing to find
		return "", false, nil
	}
	err = r.settle(ctx, dir)
	return ref, err == nil, err
}
