// Package agents runs the real agent CLIs as people install them, against a
// scripted model, under the real control plane and inside the sandbox.
package agents

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/integration/modelfake"
	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/agent/install"
	"github.com/lazyplane/lazyplane/pkg/agentcli"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// TestMain makes the test program serve as lazy-agent too, and puts the CLIs that
// CI has installed on the PATH.
func TestMain(m *testing.M) {
	modes := []string{"supervise", "exec", "mcp", "call", "selfcheck", "broker"}
	if len(os.Args) > 1 && slices.Contains(modes, os.Args[1]) {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := agentcli.Program{
			Version: "test", Catalogue: op.Default, Find: drivers.Find, Now: time.Now, NewID: id.Gen{Rand: rand.Reader}.New,
			After: held,
		}.Main(ctx, os.Args[1:], os.Getenv, agentcli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
		stop()
		os.Exit(code)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		tools := os.Getenv("LAZY_CI_TOOLS")
		if tools == "" {
			tools = filepath.Join(cache, "lazyplane-ci")
		}
		bin := filepath.Join(tools, "agents", "node_modules", ".bin")
		os.Setenv("PATH", os.Getenv("PATH")+string(filepath.ListSeparator)+bin)
	}
	// Most of the time these tests wait for a CLI to start or for a peer's delay.
	flag.Parse()
	if n := flag.Lookup("test.parallel"); n.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := n.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// cli is one agent CLI and the model it is asked for.
type cli struct {
	id       string
	model    string
	provider string
}

func clis() []cli {
	return []cli{
		{id: "claude-code", model: "claude-opus-5-5", provider: "claude"},
		{id: "codex", model: "gpt-5.2-codex", provider: "codex"},
		{id: "opencode", model: "chat/gpt-5.2", provider: "codex"},
	}
}

// each runs f for every CLI that is installed. In CI all of them have to be.
func each(t *testing.T, f func(t *testing.T, c cli)) {
	needSandbox(t)
	t.Parallel()
	for _, c := range clis() {
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			d, _ := drivers.Find(c.id, nil)
			home, err := os.UserHomeDir()
			if err != nil {
				home = ""
			}
			if _, err := install.Find(d.(agent.Installed).Install(), home); err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatalf("%s has to be installed in CI (.ci/run agents): %v", c.id, err)
				}
				t.Skipf("%s is not installed: %v", c.id, err)
			}
			f(t, c)
		})
	}
}

// needSandbox skips where agents cannot be contained, except in CI.
func needSandbox(t testing.TB) {
	t.Helper()
	if err := local.Probe(t.Context()); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the sandbox does not work here: %v", err)
		}
		t.Skipf("the sandbox does not work here: %v", err)
	}
}

// world is a repository with its control plane, and the model its agent calls.
type world struct {
	t     testing.TB
	cli   cli
	root  string
	paths config.Paths
	model *modelfake.Server
	plane *local.Plane
	c     *client.Client
	ids   map[string]string // short ids by code
}

const secret = "sk-canary-the-real-credential-4711"

// begin makes a repository whose agent is c, with a stored credential for the
// scripted model.
func begin(t testing.TB, c cli, script, more string) *world {
	t.Helper()
	m := modelfake.New(modelfake.Must(script))
	m.Log = t.Logf
	w := beginWith(t, c, m, more)
	w.model = m
	return w
}

// beginWith is begin for a model service of the test's own.
func beginWith(t testing.TB, c cli, service http.Handler, more string) *world {
	t.Helper()
	w := &world{t: t, cli: c, root: repository(t, c, more)}
	srv := httptest.NewServer(service)
	t.Cleanup(srv.Close)
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if w.paths, err = config.PathsIn(home, w.root); err != nil {
		t.Fatal(err)
	}
	w.up()
	t.Cleanup(w.end)
	w.call("putModelCredential", map[string]any{"provider": c.provider, "scheme": "api-key", "base_url": srv.URL, "secret": secret})
	return w
}

func (w *world) up() {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	w.plane, err = local.Up(context.WithoutCancel(w.t.Context()), local.Options{
		Paths: w.paths, Bin: self, Version: "test", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.c = &client.Client{Base: w.plane.URL, Token: w.plane.Token}
}

func (w *world) down() {
	if w.plane == nil {
		return
	}
	if err := w.plane.Close(); err != nil {
		w.t.Error(err)
	}
	w.plane = nil
}

// end closes what is still live, so that no sandbox outlives the test.
func (w *world) end() {
	if w.plane == nil {
		return
	}
	ctx := context.WithoutCancel(w.t.Context())
	if w.t.Failed() {
		w.tell()
	}
	var list struct {
		Tasks []struct {
			ID string `json:"task_id"`
		} `json:"tasks"`
	}
	if err := w.c.Call(ctx, "listTasks", map[string]any{"limit": 200}, &list); err != nil {
		w.t.Error(err)
	}
	for _, task := range list.Tasks {
		if err := w.c.Call(ctx, "closeTask", map[string]any{"task_id": task.ID, "reason": "the test is over"}, nil); err != nil {
			w.t.Error(err)
		}
	}
	live, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		boxes, err := filepath.Glob(filepath.Join(w.paths.Dir, "runs", "*", "box", "box.json"))
		if err != nil || len(boxes) == 0 {
			break
		}
		select {
		case <-live.Done():
			w.t.Errorf("sandboxes are left: %v", boxes)
			w.down()
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	w.down()
}

// tell prints what a person would look at after a failure.
func (w *world) tell() {
	for _, pattern := range []string{"runs/*/*/supervisor.log", "runs/*/*/agent.log"} {
		found, _ := filepath.Glob(filepath.Join(w.paths.Dir, pattern))
		for _, f := range found {
			b, _ := os.ReadFile(f)
			if len(b) > 6000 {
				b = b[len(b)-6000:]
			}
			w.t.Logf("%s:\n%s", f, b)
		}
	}
	if w.model != nil {
		w.t.Logf("against the script: %v; answers left: %d", w.model.Wrong(), w.model.Left())
	}
}

func repository(t testing.TB, c cli, more string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "config", "user.name", "Ada")
	git(t, dir, "config", "user.email", "ada@example.com")
	git(t, dir, "config", "gc.auto", "0")
	write(t, dir, "README.md", "# a project\n")
	write(t, dir, config.File, "network = \"none\"\n[agent]\nagent_id = \""+c.id+"\"\n"+more)
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "start")
	return dir
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// call runs an operation to its end and fails the test when it is refused.
func (w *world) call(command string, in map[string]any) map[string]any {
	w.t.Helper()
	out, err := w.try(command, in)
	if err != nil {
		w.t.Fatalf("%s %v: %v", command, in, err)
	}
	return out
}

func (w *world) try(command string, in map[string]any) (map[string]any, error) {
	var out map[string]any
	if err := w.c.Call(w.t.Context(), command, in, &out); err != nil {
		return nil, err
	}
	if op, ok := out["operation_id"].(string); ok && slices.Contains([]string{"startTask", "unblockTask", "resumeTask", "acceptTask"}, command) {
		var end map[string]any
		err := w.c.Follow(w.t.Context(), op, "", &end)
		return end, err
	}
	return out, nil
}

// start makes a task and starts it.
func (w *world) start(code, prompt string) {
	w.t.Helper()
	w.call("createTask", map[string]any{"goal": "Do the work", "prompt": prompt, "code": code, "model": w.cli.model})
	w.call("startTask", map[string]any{"task_id": code})
}

// rest waits until a task has settled and returns its row.
func (w *world) rest(code string) map[string]any {
	w.t.Helper()
	for range 3 { // a busy machine may need longer than one wait
		out := w.call("waitTasks", map[string]any{"task_ids": []string{code}, "timeout_s": 120})
		if settled, _ := out["settled"].([]any); len(settled) == 1 {
			return settled[0].(map[string]any)
		}
	}
	w.t.Fatalf("%s did not come to rest: %v", code, w.call("getStatus", map[string]any{"task_id": code}))
	return nil
}

// show is the task's record.
func (w *world) show(code string) map[string]any {
	w.t.Helper()
	return w.call("showTask", map[string]any{"task_id": code})
}

// scripted fails the test when the model was asked for anything but the script.
func (w *world) scripted() {
	w.t.Helper()
	if wrong := w.model.Wrong(); len(wrong) > 0 || w.model.Left() > 0 {
		w.t.Errorf("against the script: %v; %d answers were not asked for", wrong, w.model.Left())
	}
}

// until waits for something that has to happen.
func (w *world) until(what string, f func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	for !f() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: it did not happen: %v", what, errors.Join(ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// text is a value as JSON, to look for words in.
func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
