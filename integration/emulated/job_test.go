package emulated_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// commits is an agent that changes a file, commits and declares. One whose task is
// called crash or deploy says that it has begun, and goes on when it is told to.
const commits = `set -e
case $LAZY_TASK_CODE in crash|deploy)
  echo $$ >begun
  while [ ! -e go ]; do sleep 0.1; done
  rm begun go
esac
echo "work of $LAZY_TASK_CODE" >> "$LAZY_TASK_CODE.txt"
lazy-agent call lazy_commit '{"message":"do the work"}' >/dev/null
lazy-agent call lazy_final '{"note":"done"}' >/dev/null
echo finished
`

// laptop brings the local control plane up on a repository.
func laptop(t *testing.T, root string) (*world, config.Paths) {
	t.Helper()
	paths, err := config.PathsIn(t.TempDir(), root)
	if err != nil {
		t.Fatal(err)
	}
	p, err := local.Up(t.Context(), local.Options{
		Paths: paths, Bin: filepath.Join(programs(t), names.AgentBinary), HostProcess: true, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{t: t, root: root, state: paths.Dir, c: &client.Client{Base: p.URL, Token: p.Token}}, paths
}

// begun waits until the agent of a task works, and returns its work tree.
func (w *world) begun(code string) (tree string) {
	w.t.Helper()
	for {
		all, err := filepath.Glob(filepath.Join(w.state, "tasks", "*", "tree", "begun"))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range all {
			if tree = filepath.Dir(f); git(w.t, tree, "symbolic-ref", "--short", "HEAD") == "lazy/"+code {
				return tree
			}
		}
		w.pause()
	}
}

func (w *world) pause() {
	w.t.Helper()
	select {
	case <-w.t.Context().Done():
		w.t.Fatal("the test's time is over")
	case <-time.After(50 * time.Millisecond):
	}
}

// crash kills the supervisor of a task's first run with kill -9, and its agent.
func (w *world) crash(code string) {
	w.t.Helper()
	tree := w.begun(code)
	short := filepath.Base(filepath.Dir(tree))
	var i spool.Ident
	if ok, err := spool.Read(filepath.Join(w.state, "runs", short, "1"), spool.SelfFile, &i); err != nil || !ok {
		w.t.Fatalf("the run of %s: %v", code, err)
	}
	if err := syscall.Kill(i.PID, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	// Its agent may outlive it a moment; the next one writes a mark of its own.
	if b, err := os.ReadFile(filepath.Join(tree, "begun")); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if err := os.Remove(filepath.Join(tree, "begun")); err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	for i.Alive() {
		w.pause()
	}
}

func (w *world) goOn(code string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.begun(code), "go"), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// all is the scenario, the same for every control plane. deploy is what happens
// in the middle of one turn.
func (w *world) all(deploy func()) []id.Task {
	w.t.Helper()
	w.begin("crash")
	w.crash("crash")
	w.job("plain")
	w.begin("deploy")
	w.begun("deploy")
	deploy()
	w.goOn("deploy")
	w.finish("deploy")
	w.goOn("crash")
	w.finish("crash")
	var out []id.Task
	for _, code := range []string{"plain", "crash", "deploy"} {
		tid, _ := w.call("showTask", map[string]any{"task_id": code})["task_id"].(string)
		out = append(out, id.Task(tid))
	}
	return out
}

// rested waits until a store holds no ordered work any more.
func (w *world) rested(s store.Store, tasks []id.Task) {
	w.t.Helper()
	for _, t := range tasks {
		for {
			p, err := s.Query(w.t.Context(), store.Query{PK: store.For(tenant).Task(t).PK, Prefix: "OUT#"})
			if err != nil {
				w.t.Fatal(err)
			}
			if len(p.Items) == 0 {
				break
			}
			w.pause()
		}
	}
}

func TestTheJobEndsInTheSameStateHereAndThere(t *testing.T) {
	there := repository(t, commits)
	s, _ := emulate(t, there, func(o *emulated.Options) { o.NoBus = true })
	var heard func(db *dynamo.Store, tasks []id.Task)
	away := hosted(t, s, there)
	next := t.TempDir()
	for _, f := range names.Surfaces() { // another version: the same program under another name
		if err := os.Link(filepath.Join(programs(t), f), filepath.Join(next, f)); err != nil {
			t.Fatal(err)
		}
	}
	var want, got []string
	var files string // of main, here
	t.Run("work", func(t *testing.T) {
		t.Run("hosted", func(t *testing.T) {
			t.Parallel()
			w := *away
			w.t = t
			tasks := w.all(func() {
				for _, f := range names.Surfaces() {
					s.Deploy(f, filepath.Join(next, f))
				}
				heard = listen(t, s)
			})
			db := dynamo.New(s.Table, emulated.Table)
			w.rested(db, tasks)
			got = content(t, db, tasks)
			heard(db, tasks)
		})
		// Everything that the table tells is lost; the clock makes up for it.
		t.Run("B27-deaf", func(t *testing.T) {
			t.Parallel()
			req.Covers(t, "B27", "SY-001")
			root := repository(t, commits)
			s, _ := emulate(t, root, func(o *emulated.Options) { o.NoStream = true })
			w := hosted(t, s, root)
			w.job("plain")
		})
		t.Run("local", func(t *testing.T) {
			t.Parallel()
			w, paths := laptop(t, repository(t, commits))
			tasks := w.all(func() {})
			db, err := sqlite.Open(t.Context(), paths.DB(), time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			w.rested(db, tasks)
			want, files = content(t, db, tasks), git(t, w.root, "ls-tree", "-r", "main")
		})
	})
	if t.Failed() {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the stores differ (- local, + hosted):\n%s", diff)
	}
	if n := git(t, there, "rev-list", "--count", "main"); n != "4" {
		t.Errorf("main has %s commits, want the first and three merges", n)
	}
	if diff := cmp.Diff(files, git(t, there, "ls-tree", "-r", "main")); diff != "" {
		t.Errorf("the files differ (- local, + hosted):\n%s", diff)
	}
}

func content(t *testing.T, s store.Store, tasks []id.Task) []string {
	t.Helper()
	out, err := emulated.Content(context.WithoutCancel(t.Context()), s, tenant, project, tasks...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
