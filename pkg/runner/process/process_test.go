package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/process"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

const taskID = id.Task("3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10")

// TestMain is a supervisor, or a launcher that dies, when the tests start this
// program as one.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "lazy-agent":
		os.Exit(child())
	case "launcher":
		launcher(os.Args[1], os.Args[2])
	default:
		os.Exit(m.Run())
	}
}

// child behaves as the file beside its run says.
func child() int {
	dir := os.Args[3]
	syscall.CloseOnExec(3)
	b, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), "behave"))
	how := strings.TrimSpace(string(b))
	f, _ := os.OpenFile(filepath.Join(filepath.Dir(dir), "started"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	fmt.Fprintln(f, os.Getpid(), strings.Join(os.Environ(), " "))
	if how == "exit before naming itself" {
		return 9
	}
	if i, err := spool.Self(); err != nil || spool.Write(dir, spool.SelfFile, i) != nil {
		return 1
	}
	fmt.Println("said something")
	switch how {
	case "exit 7":
		return 7
	case "answer":
		if spool.Unposted(dir) {
			_ = spool.Write(dir, spool.AckedFile, spool.Acked{})
			_ = spool.Write(dir, spool.ExitFile, spool.Exit{})
			return 0
		}
		_ = spool.Write(dir, spool.ResponseFile, map[string]any{"outcome": "ok"})
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "never answered":
		_ = spool.Write(dir, spool.ResponseFile, map[string]any{"outcome": "ok"})
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "ignore":
		ignoreTerm()
	}
	time.Sleep(time.Hour)
	return 0
}

// launcher launches and is killed at once: what it knew dies with it.
func launcher(state, bin string) {
	r := process.New(process.Config{
		BinPath: bin, StateDir: state, Target: func() string { return "http://127.0.0.1:1" }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if _, err := r.Launch(context.Background(), spec(1)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func spec(epoch int64) runner.Spec {
	return runner.Spec{Tenant: "local", Project: "p", Task: taskID, Turn: "t1", Epoch: epoch, Nonce: "lzn_local_canary"}
}

type rig struct {
	t     *testing.T
	state string
	bin   string
	exits chan runner.Report
	c     process.Config

	mu      sync.Mutex
	runners []*process.Runner
}

func newRig(t *testing.T, behave string) *rig {
	t.Helper()
	home := t.TempDir()
	r := &rig{t: t, state: filepath.Join(home, "state"), bin: link(t, home, "lazy-agent"), exits: make(chan runner.Report, 16)}
	must(t, os.MkdirAll(spool.TaskDir(r.state, taskID), 0o700))
	r.behave(behave)
	r.c = process.Config{
		BinPath: r.bin, StateDir: r.state, Target: func() string { return "http://127.0.0.1:1" }, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), OnExit: func(_ string, rep runner.Report) { r.exits <- rep },
	}
	t.Cleanup(func() {
		for _, pid := range r.started() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, p := range r.runners {
			p.Wait()
		}
	})
	return r
}

// runner makes one more control plane's runner over the same state.
func (r *rig) runner() *process.Runner {
	p := process.New(r.c)
	r.runners = append(r.runners, p)
	return p
}

func (r *rig) behave(how string) {
	r.t.Helper()
	must(r.t, os.WriteFile(filepath.Join(spool.TaskDir(r.state, taskID), "behave"), []byte(how), 0o600))
}

func (r *rig) dir(epoch int64) string { return spool.Dir(r.state, taskID, epoch) }

// started lists the pids of every supervisor that ever ran.
func (r *rig) started() []int {
	b, _ := os.ReadFile(filepath.Join(spool.TaskDir(r.state, taskID), "started"))
	var pids []int
	for line := range strings.Lines(string(b)) {
		pid, _, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(pid)
		must(r.t, err)
		pids = append(pids, n)
	}
	return pids
}

func (r *rig) exit() runner.Report {
	r.t.Helper()
	select {
	case rep := <-r.exits:
		return rep
	case <-time.After(time.Minute):
		r.t.Fatal("nobody was told of the end")
		return runner.Report{}
	}
}

// alive waits until the supervisor of an epoch has named itself.
func (r *rig) alive(epoch int64) spool.Ident {
	r.t.Helper()
	for {
		var i spool.Ident
		if ok, err := spool.Read(r.dir(epoch), spool.SelfFile, &i); err != nil {
			r.t.Fatal(err)
		} else if ok {
			return i
		}
		time.Sleep(time.Millisecond)
	}
}

func link(t *testing.T, dir, name string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	at := filepath.Join(dir, name)
	must(t, os.Symlink(self, at))
	return at
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLaunchingAgainReturnsTheSameRunAndStartsNothing(t *testing.T) {
	req.Covers(t, "B24", "P7")
	r := newRig(t, "sleep")
	p := r.runner()
	var wg sync.WaitGroup
	refs := make([]string, 16)
	for i := range refs {
		wg.Go(func() {
			ref, err := p.Launch(t.Context(), spec(1))
			if err != nil {
				t.Error(err)
			}
			refs[i] = ref
		})
	}
	wg.Wait()
	r.alive(1)
	for _, ref := range append(refs, launch(t, r.runner(), 1)) { // that one watches too
		if ref != "3f2a9c1e/1" {
			t.Errorf("reference %q", ref)
		}
	}
	if n := len(r.started()); n != 1 {
		t.Errorf("%d supervisors were started", n)
	}
	must(t, p.Stop(t.Context(), refs[0], "stop"))
	r.exit()
	r.exit()
	if ref := launch(t, p, 1); ref != refs[0] || len(r.started()) != 1 {
		t.Errorf("a run that is over was started again: %q, %d", ref, len(r.started()))
	}
}

func launch(t *testing.T, p *process.Runner, epoch int64) string {
	t.Helper()
	ref, err := p.Launch(t.Context(), spec(epoch))
	must(t, err)
	return ref
}

// The launcher is killed right after it started a supervisor, at any of the
// points that leave other files behind.
func TestARunOutlivesItsLauncherAndIsFoundByWhoeverComesNext(t *testing.T) {
	req.Covers(t, "B24", "SY-040", "AG-020")
	for name, lose := range map[string][]string{"all files": nil, "no pid": {spool.PidFile}, "no names": {spool.PidFile, spool.SelfFile}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "sleep")
			cmd := exec.CommandContext(t.Context(), link(t, t.TempDir(), "launcher"), r.state, r.bin)
			cmd.Stderr = os.Stderr
			if err := cmd.Run(); err == nil {
				t.Fatal("the launcher survived")
			}
			who := r.alive(1)
			for _, f := range lose {
				must(t, os.Remove(filepath.Join(r.dir(1), f)))
			}
			p := r.runner()
			if len(lose) == 2 { // it holds the lock, so it lives, and nobody knows who it is
				if rep, err := p.Observe(t.Context(), "3f2a9c1e/1"); err != nil || rep.Sight != runner.Unclear {
					t.Errorf("observe: %+v, %v", rep, err)
				}
				if _, err := p.Launch(t.Context(), spec(1)); fault.KindOf(err) != fault.Unavailable {
					t.Errorf("launch: %v", err)
				}
				must(t, spool.Write(r.dir(1), spool.SelfFile, who))
			}
			ref, ok, err := p.Find(t.Context(), taskID, 1)
			if err != nil || !ok || ref != "3f2a9c1e/1" {
				t.Fatalf("find: %q %v %v", ref, ok, err)
			}
			if rep, err := p.Observe(t.Context(), ref); err != nil || rep.Sight != runner.Alive {
				t.Errorf("observe: %+v, %v", rep, err)
			}
			if refs, err := p.Adopt(); err != nil || len(refs) != 1 || refs[0] != ref {
				t.Errorf("adopt: %v, %v", refs, err)
			}
			launch(t, p, 1)
			if n := len(r.started()); n != 1 {
				t.Errorf("%d supervisors were started", n)
			}
			must(t, p.Stop(t.Context(), ref, "stop"))
			if rep := r.exit(); rep.Sight != runner.Gone {
				t.Errorf("the end: %+v", rep)
			}
		})
	}
}

func TestAnIntentWhoseProcessNeverStartedIsLaunchedAnew(t *testing.T) {
	req.Covers(t, "B24")
	r := newRig(t, "sleep")
	must(t, os.MkdirAll(r.dir(1), 0o700))
	must(t, spool.Write(r.dir(1), spool.StartFile, spool.Start{Nonce: "old"}))
	p := r.runner()
	if _, ok, err := p.Find(t.Context(), taskID, 1); ok || err != nil {
		t.Errorf("found: %v %v", ok, err)
	}
	launch(t, p, 1)
	r.alive(1)
	var s spool.Start
	_, err := spool.Read(r.dir(1), spool.StartFile, &s)
	must(t, err)
	if s.Nonce != "lzn_local_canary" || len(r.started()) != 1 {
		t.Errorf("%+v, %d started", s, len(r.started()))
	}
}

func TestARecycledPidIsSomebodyElse(t *testing.T) {
	req.Covers(t, "SY-043", "OW-08")
	r := newRig(t, "exit 7")
	p := r.runner()
	ref := launch(t, p, 1)
	r.exit()
	me, err := spool.Self() // a process that lives under the recorded pid
	must(t, err)
	others := map[string]string{"another start": strings.TrimRight(me.Mark, "0123456789") + "1"}
	if boot, start, ok := strings.Cut(me.Mark, "/"); ok {
		others["another boot"] = strings.Repeat("0", len(boot)) + "/" + start
	} else if runtime.GOOS == "linux" {
		t.Errorf("the mark %q has no boot id", me.Mark)
	}
	for what, mark := range others {
		for _, f := range []string{spool.SelfFile, spool.PidFile} {
			must(t, spool.Write(r.dir(1), f, spool.Ident{PID: me.PID, Mark: mark}))
		}
		if rep, err := p.Observe(t.Context(), ref); err != nil || rep.Sight != runner.Gone {
			t.Errorf("%s: %+v, %v", what, rep, err)
		}
		must(t, p.Stop(t.Context(), ref, "stop")) // and we are still here
	}
	// Somebody who holds the run and cannot be told from its supervisor may be it.
	lock, err := spool.Lock(r.dir(1))
	must(t, err)
	if rep, err := p.Observe(t.Context(), ref); err != nil || rep.Sight == runner.Gone {
		t.Errorf("a run that somebody holds: %+v, %v", rep, err)
	}
	must(t, lock.Close())
	must(t, os.WriteFile(filepath.Join(r.dir(1), spool.SelfFile), []byte("{"), 0o600))
	if rep, err := p.Observe(t.Context(), ref); err != nil || rep.Sight == runner.Gone {
		t.Errorf("an identity that cannot be read: %+v, %v", rep, err)
	}
	must(t, spool.Write(r.dir(1), spool.SelfFile, me))
	if rep, err := p.Observe(t.Context(), ref); err != nil || rep.Sight != runner.Alive {
		t.Errorf("the process itself: %+v, %v", rep, err)
	}
}

func TestTheEndIsReportedWithItsCodeWordsAndLastLines(t *testing.T) {
	req.Covers(t, "CR-002")
	r := newRig(t, "exit 7")
	p := r.runner()
	ref := launch(t, p, 1)
	rep := r.exit()
	if rep.Sight != runner.Gone || rep.ExitCode != 7 || rep.Reason != "exit code 7" || rep.Log != "said something\n" {
		t.Errorf("told %+v", rep)
	}
	again, err := r.runner().Observe(t.Context(), ref) // by another process, later
	if err != nil || again != rep {
		t.Errorf("observed %+v, %v", again, err)
	}
	long := strings.Repeat(strings.Repeat("x", 400)+"\n", 300)
	must(t, os.WriteFile(filepath.Join(r.dir(1), spool.AgentLog), []byte(long), 0o600))
	rep, err = p.Observe(t.Context(), ref)
	if n := strings.Count(rep.Log, "\n"); err != nil || len(rep.Log) > 32<<10 || n > 200 || !strings.HasPrefix(rep.Log, "xxx") {
		t.Errorf("%d bytes, %d lines, %v", len(rep.Log), n, err)
	}
}

func TestASupervisorThatDiesBeforeItNamesItselfIsGone(t *testing.T) {
	r := newRig(t, "exit before naming itself")
	p := r.runner()
	ref := launch(t, p, 1)
	rep := r.exit()
	if rep.Sight != runner.Gone || rep.ExitCode != 9 {
		t.Errorf("told %+v", rep)
	}
	if again := launch(t, p, 1); again != ref || len(r.started()) != 1 {
		t.Errorf("started again: %q, %d", again, len(r.started()))
	}
}

func TestAnAnswerThatWasLeftIsHandedInAndOnlyAFewTimesTried(t *testing.T) {
	req.Covers(t, "AG-003", "CR-017")
	r := newRig(t, "answer")
	launch(t, r.runner(), 1)
	if rep := r.exit(); rep.Sight != runner.Gone || rep.ExitCode != 0 {
		t.Errorf("told %+v", rep)
	}
	if n := len(r.started()); n != 2 || spool.Unposted(r.dir(1)) {
		t.Errorf("%d supervisors, unposted %v", n, spool.Unposted(r.dir(1)))
	}
	r.behave("never answered")
	p := r.runner()
	ref := launch(t, p, 2)
	if rep := r.exit(); rep.ExitCode != 137 {
		t.Errorf("told %+v", rep)
	}
	if n := len(r.started()); n != 2+4 {
		t.Errorf("%d supervisors were started", n)
	}
	if rep, err := p.Observe(t.Context(), ref); err != nil || rep.Sight != runner.Gone {
		t.Errorf("observe: %+v, %v", rep, err)
	}
}

func TestStopAsksThenKillsAfterTheGraceOfItsClock(t *testing.T) {
	r := newRig(t, "ignore")
	waits := make(chan time.Duration, 8)
	fire := make(chan time.Time, 1)
	r.c.Grace, r.c.After = time.Hour, func(d time.Duration) <-chan time.Time { waits <- d; return fire }
	p := r.runner()
	ref := launch(t, p, 1)
	i := r.alive(1)
	for { // until it ignores the signal
		if _, err := os.Stat(filepath.Join(r.dir(1), "ignoring")); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	done := make(chan error, 1)
	go func() { done <- p.Stop(t.Context(), ref, "stop") }()
	if d := <-waits; d != time.Hour || !i.Alive() {
		t.Errorf("grace %s, alive %v", d, i.Alive())
	}
	fire <- time.Time{}
	must(t, <-done)
	if i.Alive() {
		t.Error("it is alive")
	}
	var s spool.Stop
	if ok, err := spool.Read(r.dir(1), spool.StopFile, &s); !ok || err != nil || s.Why != "stop" {
		t.Errorf("the reason that was left: %+v, %v", s, err)
	}
	if rep := r.exit(); rep.ExitCode != 137 {
		t.Errorf("told %+v", rep)
	}
}

func TestASupervisorInheritsNoSecretAndNoOtherRunsFiles(t *testing.T) {
	req.Covers(t, "AG-025")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-env")
	t.Setenv("GITHUB_TOKEN", "canary-env")
	r := newRig(t, "sleep")
	launch(t, r.runner(), 1)
	i := r.alive(1)
	b, err := os.ReadFile(filepath.Join(spool.TaskDir(r.state, taskID), "started"))
	must(t, err)
	if strings.Contains(string(b), "canary") || !strings.Contains(string(b), "PATH=") {
		t.Errorf("environment: %s", b)
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", i.PID))
	if err == nil && strings.Contains(string(args), "lzn_") {
		t.Errorf("arguments: %q", args)
	}
	for _, name := range []string{".", spool.StartFile, spool.PidFile, spool.LogFile} {
		fi, err := os.Stat(filepath.Join(r.dir(1), name))
		must(t, err)
		if fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, fi.Mode())
		}
	}
	var s map[string]any
	raw, err := os.ReadFile(filepath.Join(r.dir(1), spool.StartFile))
	must(t, err)
	must(t, json.Unmarshal(raw, &s))
	if s["nonce"] != "lzn_local_canary" || s["epoch"] != float64(1) {
		t.Errorf("start: %v", s)
	}
}

func TestAReferenceIsNeverAPath(t *testing.T) {
	r := newRig(t, "sleep")
	p := r.runner()
	for _, ref := range []string{"", "x", "../../etc/1", "3f2a9c1e/../1", "3f2a9c1e/-1", "3f2a9c1e/01", "3f2a9c1e/1/2", "3F2A9C1E/1"} {
		if _, err := p.Observe(t.Context(), ref); fault.KindOf(err) != fault.Invalid {
			t.Errorf("observe %q: %v", ref, err)
		}
		if err := p.Stop(t.Context(), ref, "stop"); fault.KindOf(err) != fault.Invalid {
			t.Errorf("stop %q: %v", ref, err)
		}
	}
	rep, err := p.Observe(t.Context(), "3f2a9c1e/5")
	if err != nil || rep.Sight != runner.Gone {
		t.Errorf("a run that never was: %+v, %v", rep, err)
	}
	if err := p.EndTask(t.Context(), taskID); err != nil {
		t.Errorf("end no sandbox: %v", err)
	}
}

func TestAMissingProgramIsARefusalThatSaysWhatToDo(t *testing.T) {
	r := newRig(t, "sleep")
	r.c.BinPath = filepath.Join(r.state, "none")
	_, err := r.runner().Launch(t.Context(), spec(1))
	f := fault.Of(err)
	if f.Kind != fault.Unavailable || len(f.Next) == 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("launch: %v", err)
	}
}
