package supervisor_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agentcli"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/process"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/sandbox/bwrap"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// TestMain is lazy-agent when this program is started under that name: every
// process of these tests is a real one.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != names.AgentBinary {
		os.Exit(m.Run())
	}
	if _, err := os.Lstat("break-selfcheck"); err == nil && len(os.Args) == 2 && os.Args[1] == "selfcheck" {
		fmt.Println("-32000") // the wrong binary, for the test of the preflight
		os.Exit(0)
	}
	p := agentcli.Program{
		Version: "1.2.3", Revision: "abc", Catalogue: op.Default, Find: find, Now: time.Now,
		NewID: id.Gen{Rand: rand.Reader}.New, Crash: dieAt, Beat: 2 * time.Second,
	}
	if wd, err := os.Getwd(); err == nil {
		p.After = limits(filepath.Join(filepath.Dir(wd), limitsFile))
	}
	// Not os.Exit, at which the race detector holds every process for another
	// second: rig reads the supervisor's log for what it found.
	syscall.Exit(p.Main(context.Background(), os.Args[1:], os.Getenv, agentcli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// dieAt kills the process, as the system would, at the point that a file beside
// the run names; the file goes first, so it happens once.
func dieAt(point string) {
	wd, err := os.Getwd()
	if err != nil {
		return
	}
	at := filepath.Join(filepath.Dir(wd), "die")
	b, err := os.ReadFile(at)
	if err != nil || strings.TrimSpace(string(b)) != point {
		return
	}
	_ = os.Remove(at)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

const (
	taskID = id.Task("3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10")
	turnID = id.Turn("01900000-0000-7000-8000-000000000001")
)

// rig is a repository, a task's workspace, a control plane and a runner.
type rig struct {
	t      testing.TB
	dir    string
	state  string
	bin    string
	repo   *git.Repo
	ws     git.Workspace
	plane  *planetest.Plane
	runner *process.Runner
	exits  chan runner.Report
	base   string
	epoch  int64
}

// newRig builds one whose agent runs script.
func newRig(t testing.TB, script string, tune ...func(*turn.Command)) *rig {
	t.Helper()
	needSandbox(t)
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	r := &rig{t: t, dir: filepath.Join(home, "repo"), state: filepath.Join(home, "state"), exits: make(chan runner.Report, 16), epoch: 1}
	must(t, os.MkdirAll(r.dir, 0o755))
	must(t, os.MkdirAll(r.state, 0o700))
	r.bin = install(t, filepath.Join(home, "bin"))
	r.git("init", "-q", "-b", "main", ".")
	r.git("config", "user.name", "Ada")
	r.git("config", "user.email", "ada@example.com")
	must(t, os.WriteFile(filepath.Join(r.dir, "a.txt"), []byte("a\n"), 0o644))
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "first")
	r.base = r.git("rev-parse", "main")
	r.repo, err = git.Open(t.Context(), r.dir)
	must(t, err)
	r.ws, err = r.repo.CreateWorkspace(t.Context(), git.WorkspaceSpec{
		StateDir: filepath.Join(r.state, "tasks", taskID.Short()), TaskShort: taskID.Short(), Branch: "lazy/fix", Base: r.base,
	})
	must(t, err)
	cmd := turn.Command{
		Turn: turnID, Task: taskID, Code: "fix", Epoch: 1, Kind: turn.Work, Prompt: "do the thing", WatchdogMS: 60_000,
		Deadline: time.Now().Add(time.Hour), Agent: "command", Argv: []string{"sh", "-c", script}, Network: "none",
		Tree: r.ws.Tree, GitDir: r.ws.GitDir, Objects: r.ws.Objects, Shared: r.ws.Shared, State: r.ws.State, Borrowed: r.ws.Borrowed,
		Branch: "lazy/fix", Base: r.base, Tip: r.base, Author: "lazy agent <agent@lazyplane.invalid>",
	}
	for _, f := range tune {
		f(&cmd)
	}
	r.plane = planetest.New(t, r.state, cmd)
	r.runner = r.newRunner()
	t.Cleanup(func() {
		for e := int64(1); e <= r.epoch; e++ {
			_ = r.runner.Stop(context.WithoutCancel(t.Context()), taskID.Short()+"/"+strconv.FormatInt(e, 10), "stop")
		}
		if err := r.runner.EndTask(context.WithoutCancel(t.Context()), taskID); err != nil {
			t.Errorf("end the sandbox: %v", err)
		}
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(r.runDir(), spool.LogFile))
			t.Logf("supervisor.log:\n%s", b)
		}
		logs, _ := filepath.Glob(filepath.Join(spool.TaskDir(r.state, taskID), "*", spool.LogFile))
		for _, at := range logs {
			if b, _ := os.ReadFile(at); bytes.Contains(b, []byte("WARNING: DATA RACE")) {
				t.Errorf("%s:\n%s", at, b)
			}
		}
	})
	return r
}

func (r *rig) newRunner() *process.Runner {
	return process.New(process.Config{
		BinPath: r.bin, StateDir: r.state, Target: r.plane.URL, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Grace:  10 * time.Second,
		OnExit: func(_ string, rep runner.Report) { r.exits <- rep },
	})
}

// needSandbox skips a test where bubblewrap does not work, and fails it in CI.
func needSandbox(t testing.TB) {
	t.Helper()
	b, err := bwrap.Find(t.Context())
	if err == nil {
		err = b.Probe(t.Context())
	}
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("bubblewrap must work in CI: %v", err)
	}
	t.Skipf("bubblewrap does not work here: %v", err)
}

// install puts this program somewhere under the name lazy-agent.
func install(t testing.TB, dir string) string {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	self, err := os.Executable()
	must(t, err)
	bin := filepath.Join(dir, names.AgentBinary)
	if os.Link(self, bin) == nil {
		return bin
	}
	in, err := os.Open(self)
	must(t, err)
	defer in.Close()
	out, err := os.OpenFile(bin, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err)
	must(t, out.Close())
	return bin
}

func (r *rig) spec() runner.Spec {
	return runner.Spec{
		Tenant: "local", Project: "p", Task: taskID, Turn: turnID, Epoch: r.epoch, Nonce: planetest.Nonce,
	}
}

func (r *rig) runDir() string { return spool.Dir(r.state, taskID, r.epoch) }

// launch starts the run.
func (r *rig) launch() string {
	r.t.Helper()
	ref, err := r.runner.Launch(r.t.Context(), r.spec())
	must(r.t, err)
	return ref
}

// run launches and waits for the report and the end of the process.
func (r *rig) run() turn.Response {
	r.t.Helper()
	r.launch()
	resp := r.plane.Report()
	r.gone()
	return resp
}

// gone waits for the end of the supervisor.
func (r *rig) gone() runner.Report {
	r.t.Helper()
	select {
	case rep := <-r.exits:
		return rep
	case <-time.After(90 * time.Second):
		r.t.Fatal("the supervisor does not end")
		return runner.Report{}
	}
}

// next prepares another turn of the task, on the tip the last one left.
func (r *rig) next(script string, tune ...func(*turn.Command)) {
	r.t.Helper()
	r.epoch++
	r.plane.Do(func(p *planetest.Plane) {
		p.Used, p.Reports, p.Beats, p.Calls, p.Stop = false, nil, nil, nil, ""
		p.Command.Epoch, p.Command.Argv, p.Command.Tip = r.epoch, []string{"sh", "-c", script}, p.Tip
		for _, f := range tune {
			f(&p.Command)
		}
	})
}

// dieAt lets the next supervisor kill itself at a point.
func (r *rig) dieAt(point string) {
	r.t.Helper()
	dir := filepath.Dir(r.runDir())
	must(r.t, os.MkdirAll(dir, 0o700))
	must(r.t, os.WriteFile(filepath.Join(dir, "die"), []byte(point), 0o600))
}

func (r *rig) git(args ...string) string {
	r.t.Helper()
	c := exec.CommandContext(context.Background(), "git", args...)
	c.Dir = r.dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *rig) file(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.ws.Tree, name))
	must(r.t, err)
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
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// supervise is a supervisor started by hand on the run's directory.
func supervise(r *rig) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), r.bin, "supervise", "--protocol-dir", r.runDir())
	cmd.Dir = r.runDir()
	cmd.Stderr = os.Stderr
	return cmd
}
