package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// TestScripts runs every command line of testdata/script in this process, on
// real repositories. The commands of a script:
//
//	lazy ARG…            run a command line; ! asserts that it fails
//	exits CODE ARG…      run one and demand its exit code
//	piped FILE ARG…      run one with FILE on standard input
//	typed FILE ARG…      run one on a terminal where a person types FILE
//	exits/typed/piped    combine as: exits 2 piped FILE ARG…
//	repo DIR             make a repository with one commit
//	[sandbox]            whether agents can be contained on this machine
//	config NAME VALUE    let a part of the machine be other than it is
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			req.Script(t, file)
			testscript.Run(t, testscript.Params{
				Files: []string{file},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"lazy": func(ts *testscript.TestScript, neg bool, args []string) {
						code := runLazy(ts, args)
						if neg != (code != 0) {
							ts.Fatalf("exit code %d", code)
						}
					},
					"piped": func(ts *testscript.TestScript, neg bool, args []string) {
						code := runLazy(ts, append([]string{"piped"}, args...))
						if neg != (code != 0) {
							ts.Fatalf("exit code %d", code)
						}
					},
					"typed": func(ts *testscript.TestScript, neg bool, args []string) {
						code := runLazy(ts, append([]string{"typed"}, args...))
						if neg != (code != 0) {
							ts.Fatalf("exit code %d", code)
						}
					},
					"exits": func(ts *testscript.TestScript, neg bool, args []string) {
						want, err := strconv.Atoi(args[0])
						ts.Check(err)
						if got := runLazy(ts, args[1:]); neg || got != want {
							ts.Fatalf("exit code %d, want %d", got, want)
						}
					},
					"repo":   makeRepo,
					"config": configure,
				},
				Condition: func(cond string) (bool, error) {
					if cond != "sandbox" {
						return false, fmt.Errorf("no condition %q", cond)
					}
					return local.Probe(t.Context()) == nil, nil
				},
				Setup: func(env *testscript.Env) error {
					env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
					env.Setenv("LAZY_HOME", filepath.Join(env.WorkDir, "state"))
					env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
					for _, name := range []string{"LAZY_TARGET", "LAZY_TOKEN", "LAZY_ACTOR", "VISUAL", "EDITOR", "NO_COLOR"} {
						env.Setenv(name, "")
					}
					m := &machine{t: t, dir: env.WorkDir}
					env.Values["machine"] = m
					env.Defer(m.end)
					return os.MkdirAll(filepath.Join(env.WorkDir, "home"), 0o755)
				},
			})
		})
	}
}

// machine is what the commands of one script share: the control planes they
// started, and what the script changed about the machine.
type machine struct {
	t      *testing.T
	dir    string
	mu     sync.Mutex
	config map[string]string // guarded by mu
	cancel []context.CancelFunc
	wait   sync.WaitGroup
}

func (m *machine) get(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config[name]
}

func (m *machine) end() {
	m.mu.Lock()
	for _, f := range m.cancel {
		f()
	}
	m.mu.Unlock()
	m.wait.Wait()
	for _, pattern := range []string{"state/projects/*/runs/*/box", "tmp/*/state/projects/*/runs/*/box"} {
		boxes, err := filepath.Glob(filepath.Join(m.dir, pattern))
		if err != nil {
			m.t.Error(err)
		}
		for _, dir := range boxes { // of tasks that are not over: they wait for a next turn
			if err := box.End(context.Background(), dir, time.Second, time.After); err != nil {
				m.t.Error(err)
			}
		}
	}
}

func configure(ts *testscript.TestScript, neg bool, args []string) {
	m := ts.Value("machine").(*machine)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.config == nil {
		m.config = map[string]string{}
	}
	m.config[args[0]] = strings.Join(args[1:], " ")
}

func makeRepo(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	for _, argv := range [][]string{
		{"init", "--quiet", "--initial-branch=main", dir},
		{"-C", dir, "config", "user.name", "Ada"},
		{"-C", dir, "config", "user.email", "ada@example.com"},
		{"-C", dir, "commit", "--quiet", "--allow-empty", "-m", "Begin"},
	} {
		ts.Check(ts.Exec("git", argv...))
	}
}

// runLazy runs one command line as the script's person at the script's machine.
func runLazy(ts *testscript.TestScript, args []string) int {
	m := ts.Value("machine").(*machine)
	e := scriptEnv(ts, m)
	for len(args) > 1 {
		switch args[0] {
		case "piped":
			e.In, e.Piped = strings.NewReader(ts.ReadFile(args[1])), func() bool { return true }
		case "typed":
			in := strings.NewReader(ts.ReadFile(args[1]))
			e.In, e.TTY = in, func(s any) bool { return s == e.In || s == e.Err }
			e.Masked = func(question string) (string, error) {
				_, err := fmt.Fprintln(e.Err, question)
				b, rerr := io.ReadAll(in)
				return string(b), errors.Join(err, rerr)
			}
		default:
			return cli.Main(context.Background(), e, args)
		}
		args = args[2:]
	}
	return cli.Main(context.Background(), e, args)
}

func scriptEnv(ts *testscript.TestScript, m *machine) *cli.Env {
	dir := ts.MkAbs(".")
	environ := []string{}
	for _, name := range []string{"HOME", "PATH", "LAZY_HOME", "TMPDIR", "GIT_CONFIG_NOSYSTEM"} {
		environ = append(environ, name+"="+ts.Getenv(name))
	}
	e := &cli.Env{
		In: strings.NewReader(""), Out: ts.Stdout(), Err: ts.Stderr(),
		Getenv: ts.Getenv, Environ: func() []string { return environ },
		Now: time.Now, Dir: dir, TempDir: tmp(ts), Self: "/nowhere/lazy", Version: "1.2.3",
		Build: cli.Build{Go: "go1.26", OS: "linux", Arch: "amd64", Revision: "0123456789abcdef"},
		TTY:   func(any) bool { return false },
		Piped: func() bool { return false },
		Width: func() int { return 80 },
		Own:   local.Own,
		Exec: func(ctx context.Context, argv []string) error {
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Env = environ
			return cmd.Run()
		},
		Session: func(ctx context.Context, argv, env []string) error {
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, ts.Stdout(), ts.Stderr()
			return cmd.Run()
		},
		Output: func(ctx context.Context, at string, argv ...string) (string, error) {
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Dir, cmd.Env = at, append(environ, "LC_ALL=C")
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil {
				return "", fmt.Errorf("%s: %s", argv[0], strings.TrimSpace(errs.String()))
			}
			return string(out), nil
		},
		LookPath: func(name string) (string, error) {
			if slices.Contains(strings.Fields(m.get("programs")), name) {
				return "/usr/bin/" + name, nil
			}
			if name == "git" && m.get("git") != "absent" {
				return exec.LookPath("git")
			}
			if own := filepath.Join(ts.Getenv("WORK"), "bin", name); isFile(own) {
				return own, nil
			}
			if strings.HasPrefix(name, "/bin/") {
				return name, nil
			}
			return "", exec.ErrNotFound
		},
		Agents: func() (all []cli.AgentCLI) {
			for _, a := range []cli.AgentCLI{
				{ID: "claude-code", Found: "claude", Get: "npm install -g a", Service: "claude"},
				{ID: "codex", Found: "codex", Get: "npm install -g b", Service: "codex"},
				{ID: "opencode", Found: "opencode", Get: "npm install -g c", Service: "claude"},
			} {
				if !slices.Contains(strings.Fields(m.get("programs")), a.Found) {
					a.Found = ""
				}
				all = append(all, a)
			}
			return all
		},
		Alive: cli.ProcessAlive,
		Lock:  cli.FileLock,
		Probe: func(context.Context) error {
			if why := m.get("sandbox"); why != "" {
				return fault.New(fault.Failed, "%s", why).WithNext("Install bubblewrap.")
			}
			return nil
		},
	}
	e.Up = func(ctx context.Context, o cli.UpOptions) error { return up(ctx, m, o) }
	e.Detach = func(argv, _ []string, at, _ string) error {
		if m.get("detach") == "fails" {
			return errors.New("no process can be started")
		}
		ctx, cancel := context.WithCancel(context.Background())
		m.mu.Lock()
		m.cancel = append(m.cancel, cancel)
		m.mu.Unlock()
		sub := *e
		sub.Out, sub.Err, sub.Dir = io.Discard, io.Discard, at
		m.wait.Go(func() { cli.Main(ctx, &sub, argv[1:]) })
		return nil
	}
	return e
}

// tmp is where the script's commands make temporary folders.
func tmp(ts *testscript.TestScript) string {
	if dir := ts.Getenv("TMPDIR"); dir != "" {
		return dir
	}
	return ts.Getenv("WORK")
}

func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}
