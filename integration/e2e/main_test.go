// Package e2e runs the whole product on this machine: the control plane, real
// supervisor processes, the sandbox and git, over HTTP as a client sees them.
package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/agentcli"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// TestMain makes the test program serve as lazy-agent too, so that what runs here
// is the code under test and needs no build beforehand.
func TestMain(m *testing.M) {
	modes := []string{"supervise", "exec", "mcp", "call", "selfcheck", "broker"}
	if len(os.Args) > 1 && slices.Contains(modes, os.Args[1]) {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := agentcli.Program{
			Version: "test", Catalogue: op.Default, Find: drivers.Find, Now: time.Now, NewID: id.Gen{Rand: rand.Reader}.New,
		}.Main(ctx, os.Args[1:], os.Getenv, agentcli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
		stop()
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "plane" {
		os.Exit(servePlane(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

// servePlane is a control plane in a process of its own, for figures about one.
func servePlane(home, root string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	paths, err := config.PathsIn(home, root)
	if err == nil {
		var p *local.Plane
		if p, err = local.Up(ctx, local.Options{Paths: paths, Version: "test"}); err == nil {
			p.Wait(ctx)
			err = p.Close()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// world is a repository with its control plane.
type world struct {
	t     testing.TB
	root  string
	paths config.Paths
	plane *local.Plane
	c     *client.Client
}

// begin makes a repository whose agent is script and brings its plane up.
func begin(t testing.TB, script, more string) *world {
	t.Helper()
	needSandbox(t)
	w := &world{t: t, root: repository(t, script, more)}
	var err error
	if w.paths, err = config.PathsIn(t.TempDir(), w.root); err != nil {
		t.Fatal(err)
	}
	w.up()
	t.Cleanup(w.end)
	return w
}

func (w *world) up() {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	w.plane, err = local.Up(context.WithoutCancel(w.t.Context()), local.Options{Paths: w.paths, Bin: self, Version: "test", Log: log})
	if err != nil {
		w.t.Fatal(err)
	}
	w.c = &client.Client{Base: w.plane.URL, Token: w.plane.Token}
}

// end closes what is still live, so that no sandbox outlives the test, then the
// plane.
func (w *world) end() {
	if w.plane == nil {
		return
	}
	ctx := context.WithoutCancel(w.t.Context())
	var list struct {
		Tasks []struct {
			ID string `json:"task_id"`
		} `json:"tasks"`
	}
	if err := w.c.Call(ctx, "listTasks", map[string]any{"limit": 200}, &list); err != nil {
		w.t.Error(err)
	}
	if len(list.Tasks) < 200 {
		for _, task := range list.Tasks {
			if err := w.c.Call(ctx, "closeTask", map[string]any{"task_id": task.ID, "reason": "the test is over"}, nil); err != nil {
				w.t.Error(err)
			}
		}
		w.emptied(ctx)
	}
	w.down()
}

// emptied waits until every sandbox of the project has ended. Only one that never
// does takes all of the time.
func (w *world) emptied(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		boxes, err := filepath.Glob(filepath.Join(w.paths.Dir, "runs", "*", "box", "box.json"))
		if err != nil || len(boxes) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			w.t.Errorf("sandboxes are left: %v", boxes)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
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

// needSandbox skips where agents cannot be contained, except where everything
// must run.
func needSandbox(t testing.TB) {
	t.Helper()
	if err := local.Probe(t.Context()); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the sandbox does not work here: %v", err)
		}
		t.Skipf("the sandbox does not work here: %v", err)
	}
}

func repository(t testing.TB, script, more string) string {
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
	arg, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, config.File, more+"\n[agent]\nagent_id = \"command\"\n\n[agents.command]\ncommand = [\"/bin/sh\", \"-c\", "+string(arg)+"]\n")
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
	if op, ok := out["operation_id"].(string); ok && (command == "startTask" || command == "unblockTask" || command == "resumeTask" || command == "acceptTask") {
		var end map[string]any
		err := w.c.Follow(w.t.Context(), op, "", &end)
		return end, err
	}
	return out, nil
}

// rest waits until a task has settled and returns its row.
func (w *world) rest(code string) map[string]any {
	w.t.Helper()
	for {
		out := w.call("waitTasks", map[string]any{"task_ids": []string{code}, "timeout_s": 120})
		if settled, _ := out["settled"].([]any); len(settled) == 1 {
			return settled[0].(map[string]any)
		}
		if out["timed_out"] == true {
			w.t.Fatalf("%s did not come to rest: %v", code, w.call("getStatus", map[string]any{"task_id": code}))
		}
	}
}

// race calls f n times at once.
func race(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}

func httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
}
