package emulated_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

const (
	tenant  = "local"
	project = "shop"
	email   = "ada@example.com"
	person  = "Ada"
)

// built compiles the programs once for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lazy-emulated-")
	if err != nil {
		return "", err
	}
	return dir, emulated.Build(context.Background(), filepath.Join("..", ".."), dir)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func programs(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// book is what functions and shims write.
type book struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if os.Getenv("LAZY_TEST_LOG") != "" {
		_, _ = os.Stderr.Write(p)
	}
	return b.text.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// emulate brings the stack up on a repository, or skips the test where there is no
// emulator. It returns what is logged, too.
func emulate(t *testing.T, root string, options ...func(*emulated.Options)) (*emulated.Stack, *book) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(root, "lazy.toml"))
	if err != nil {
		t.Fatal(err)
	}
	log := &book{}
	o := emulated.Options{
		Dir: t.TempDir(), Config: string(config), Tenant: tenant, Project: project, Email: email, Name: person,
		Bin: programs(t), Host: true, Sweep: 2 * time.Second, Log: log,
	}
	for _, f := range options {
		f(&o)
	}
	s, err := emulated.Up(t.Context(), o)
	if errors.Is(err, moto.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	lazy(t, s, root, "push")
	return s, log
}

// lazy runs a command line of a person in a clone of the project, as whoever the
// stack's token is for.
func lazy(t *testing.T, s *emulated.Stack, dir string, args ...string) string {
	t.Helper()
	out, err := lazyAs(t, s.URL, s.Token, dir, args...)
	if err != nil {
		t.Fatalf("lazy %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func lazyAs(t *testing.T, url, token, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs(t), names.AgentBinary), args...)
	cmd.Args[0] = "lazy"
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), names.EnvTarget+"="+url, names.EnvToken+"="+token, names.EnvHome+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// world is a control plane and the repository it works on.
type world struct {
	t     *testing.T
	root  string
	state string // folder of workspaces and runs
	c     *client.Client
	pull  func(t *testing.T) // takes what was merged into root; nil where it is there by itself
	// patient asks again what is refused for the moment, as the same request.
	patient bool
}

// hosted is the world of a stack.
func hosted(t *testing.T, s *emulated.Stack, root string) *world {
	w := &world{t: t, root: root, state: s.State(), c: &client.Client{Base: s.URL, Token: s.Token}}
	w.pull = func(t *testing.T) {
		t.Helper()
		for {
			out, err := lazyAs(t, s.URL, s.Token, root, "pull")
			if err == nil {
				return
			}
			if !w.patient {
				t.Fatalf("lazy pull: %v\n%s", err, out)
			}
			w.pause()
		}
	}
	return w
}

// ask makes one request.
func (w *world) ask(command string, in map[string]any, out any) error {
	w.t.Helper()
	key := rand.Text()
	for {
		err := w.c.Call(w.t.Context(), command, in, out, client.WithKey(key))
		if !w.patient || !fault.Retryable(err) {
			return err
		}
		w.pause()
	}
}

// follow waits for the end of an operation.
func (w *world) follow(operation string, out any) error {
	w.t.Helper()
	for {
		err := w.c.Follow(w.t.Context(), operation, "", out)
		if !w.patient || !fault.Retryable(err) || strings.Contains(err.Error(), "tried again until it succeeds") {
			return err
		}
		w.pause()
	}
}

func (w *world) call(command string, in map[string]any) map[string]any {
	w.t.Helper()
	var out map[string]any
	if err := w.ask(command, in, &out); err != nil {
		w.t.Fatalf("%s %v: %v", command, in, err)
	}
	if op, _ := out["operation_id"].(string); op != "" {
		var end map[string]any
		if err := w.follow(op, &end); err != nil {
			w.t.Fatalf("%s %v: %v", command, in, err)
		}
		if end != nil {
			out = end
		}
	}
	return out
}

// rest waits until a task waits for a person.
func (w *world) rest(code string) map[string]any {
	w.t.Helper()
	for {
		out := w.call("waitTasks", map[string]any{"task_ids": []string{code}, "timeout_s": 300})
		if settled, _ := out["settled"].([]any); len(settled) == 1 {
			return settled[0].(map[string]any)
		}
		if out["timed_out"] == true {
			w.t.Fatalf("%s did not come to rest: %v", code, w.call("getStatus", map[string]any{"task_id": code}))
		}
	}
}

// job is the main job on a task, from its creation to its merge.
func (w *world) job(code string) {
	w.t.Helper()
	w.begin(code)
	w.finish(code)
}

func (w *world) begin(code string) {
	w.t.Helper()
	w.call("createTask", map[string]any{"goal": "Do the work", "prompt": "please", "code": code})
	w.call("startTask", map[string]any{"task_id": code})
}

func (w *world) finish(code string) {
	w.t.Helper()
	if got := w.rest(code); got["status"] != "blocked" {
		w.t.Fatalf("after its turn %s is %v: %v", code, got["status"], got)
	}
	end := w.call("acceptTask", map[string]any{"task_id": code})
	if w.pull != nil {
		w.pull(w.t)
	}
	if end["status"] != "complete" || end["merge_sha"] != git(w.t, w.root, "rev-parse", "main") {
		w.t.Fatalf("the accept of %s answered %v", code, end)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes a repository whose agent is script.
func repository(t *testing.T, script string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git(t, root, "init", "-q", "-b", "main")
	git(t, root, "config", "user.name", person)
	git(t, root, "config", "user.email", email)
	text := fmt.Sprintf("[project]\nname = %q\n\n[agent]\nagent_id = \"command\"\n\n[agents.command]\ncommand = [\"/bin/sh\", \"-c\", '''\n%s''']\n", project, script)
	for name, body := range map[string]string{"lazy.toml": text, "README.md": "hello\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, root, "add", "-A")
	git(t, root, "commit", "-qm", "begin")
	return root
}
