package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// live says what the files and the process table prove of a run. A process with
// the recorded pid and another start mark is somebody else.
func (r *Runner) live(dir string) runner.Sight {
	for _, name := range []string{spool.SelfFile, spool.PidFile} {
		var i spool.Ident
		ok, err := spool.Read(dir, name, &i)
		if err != nil {
			return runner.Unclear
		}
		if ok && i.Alive() {
			return runner.Alive
		}
	}
	held, err := spool.Held(dir)
	if err != nil || held {
		return runner.Unclear // somebody holds it who has not written its name yet
	}
	return runner.Gone
}

// Observe reports what is known of a run. Gone is proof: no process of the
// recorded identity exists and nobody holds the run's lock.
func (r *Runner) Observe(_ context.Context, ref string) (runner.Report, error) {
	dir, err := r.dir(ref)
	if err != nil {
		return runner.Report{}, err
	}
	rep := runner.Report{Sight: r.live(dir)}
	if rep.Sight == runner.Gone && spool.Unposted(dir) {
		if err := r.rescue(ref, dir); err != nil {
			return rep, err
		}
		rep.Sight = r.live(dir)
	}
	if rep.Sight != runner.Gone {
		return rep, nil
	}
	var x spool.Exit
	ok, err := spool.Read(dir, spool.ExitFile, &x)
	if err != nil {
		return rep, err
	}
	if !ok {
		x = spool.Exit{Code: -1, Reason: runner.Reason(-1)}
	}
	rep.ExitCode, rep.Reason = x.Code, x.Reason
	rep.Log = spool.Tail(filepath.Join(dir, spool.AgentLog))
	if rep.Log == "" {
		rep.Log = spool.Tail(filepath.Join(dir, spool.LogFile))
	}
	return rep, nil
}

// rescue starts an ended run again to hand in its answer.
func (r *Runner) rescue(ref, dir string) error {
	defer r.one(ref)()
	lock, err := spool.Lock(dir)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close()
	_, err = r.repost(ref, dir, lock)
	return err
}

// Adopt watches every run that outlived the control plane before this one, and
// returns their references (SY-040).
func (r *Runner) Adopt() ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(r.c.StateDir, "runs", "*", "*", spool.StartFile))
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var refs []string
	for _, f := range dirs {
		dir := filepath.Dir(f)
		if r.live(dir) != runner.Alive {
			continue
		}
		ref := filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
		r.watch(ref, dir)
		refs = append(refs, ref)
	}
	return refs, nil
}

// watch tells OnExit of the end of a process that is not our child.
func (r *Runner) watch(ref, dir string) {
	var i spool.Ident
	if ok, err := spool.Read(dir, spool.SelfFile, &i); err != nil || !ok {
		if ok, err = spool.Read(dir, spool.PidFile, &i); err != nil || !ok {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.watched[ref]; old != nil {
		select {
		case <-old:
		default:
			return
		}
	}
	done := make(chan struct{})
	r.watched[ref] = done
	r.watching.Go(func() {
		defer close(done)
		await(i)
		r.ended(ref, dir, -1)
	})
}

// Stop ends a run: the supervisor's process group is asked, given a grace to end
// its agent and hand in its answer, and then killed. The task's sandbox ends with
// it, unless a later run of the task has it (AG-007). It returns once all of it
// is gone. Stopping what is gone is a success.
func (r *Runner) Stop(ctx context.Context, ref, why string) error {
	dir, err := r.dir(ref)
	if err != nil {
		return err
	}
	if err := r.stop(ctx, ref, dir, why); err != nil {
		return err
	}
	later, err := r.succeeded(dir)
	if err != nil || later {
		return err
	}
	return box.End(ctx, spool.BoxDir(dir), r.c.Grace, r.c.After)
}

// succeeded reports whether a later run of the same task may be alive.
func (r *Runner) succeeded(dir string) (bool, error) {
	mine, err := strconv.ParseInt(filepath.Base(dir), 10, 64)
	if err != nil {
		return false, fmt.Errorf("read epoch: %w", err)
	}
	all, err := os.ReadDir(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list runs: %w", err)
	}
	for _, e := range all {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err == nil && n > mine && r.live(filepath.Join(filepath.Dir(dir), e.Name())) != runner.Gone {
			return true, nil
		}
	}
	return false, nil
}

func (r *Runner) stop(ctx context.Context, ref, dir, why string) error {
	var i spool.Ident
	for _, name := range []string{spool.SelfFile, spool.PidFile} {
		if ok, err := spool.Read(dir, name, &i); err != nil {
			return err
		} else if ok && i.Alive() {
			break
		}
	}
	if !i.Alive() {
		return nil
	}
	if err := spool.Write(dir, spool.StopFile, spool.Stop{Why: why, At: r.c.Now()}); err != nil {
		return err
	}
	r.watch(ref, dir)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		await(i)
	}()
	for _, step := range []struct {
		sig   syscall.Signal
		grace time.Duration
	}{{syscall.SIGTERM, r.c.Grace}, {syscall.SIGKILL, r.c.Grace}} {
		if i.Alive() { // the group of another process is never signaled
			r.c.CrashPoint("runner.kill.before")
			if err := syscall.Kill(-i.PID, step.sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("signal run %s: %w", ref, err)
			}
			r.c.CrashPoint("runner.kill.after")
		}
		select {
		case <-gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.c.After(step.grace):
		}
	}
	return fmt.Errorf("run %s does not end", ref)
}

// EndTask ends the sandbox of a task with everything the agent left running in
// it (AG-007). Ending a task that has none is a success.
func (r *Runner) EndTask(ctx context.Context, task id.Task) error {
	dir := filepath.Join(spool.TaskDir(r.c.StateDir, task), "box")
	return box.End(ctx, dir, r.c.Grace, r.c.After)
}

// List reports every run that has not provably ended, and every task's sandbox
// that is still there, by the files they live in.
func (r *Runner) List(ctx context.Context) ([]runner.Seen, error) {
	runs, err := filepath.Glob(filepath.Join(r.c.StateDir, "runs", "*", "*", spool.StartFile))
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var out []runner.Seen
	for _, f := range runs {
		dir := filepath.Dir(f)
		n, err := strconv.ParseInt(filepath.Base(dir), 10, 64)
		if err != nil || ctx.Err() != nil {
			continue
		}
		if sight := r.live(dir); sight != runner.Gone {
			out = append(out, runner.Seen{Short: filepath.Base(filepath.Dir(dir)), Epoch: n, Sight: sight})
		}
	}
	boxes, err := filepath.Glob(filepath.Join(r.c.StateDir, "runs", "*", "box", spool.BoxFile))
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	sealed, err := filepath.Glob(filepath.Join(r.c.StateDir, "runs", "*", "box", spool.SealedBox, spool.BoxFile))
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	for _, f := range append(boxes, sealed...) {
		var b spool.Box
		if ok, err := spool.Read(filepath.Dir(f), spool.BoxFile, &b); err == nil && ok && b.Alive() {
			out = append(out, runner.Seen{Short: shortOf(f, r.c.StateDir), Sight: runner.Alive, Place: true})
		}
	}
	return out, ctx.Err()
}

// shortOf is the task of a file below the directory of its runs.
func shortOf(file, state string) string {
	rel, err := filepath.Rel(filepath.Join(state, "runs"), file)
	if err != nil {
		return ""
	}
	short, _, _ := strings.Cut(rel, string(filepath.Separator))
	return short
}
