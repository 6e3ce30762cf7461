package depot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	enginelocal "github.com/lazyplane/lazyplane/pkg/engine/local"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/runnerapi"
	"github.com/lazyplane/lazyplane/pkg/step"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/supervisor"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/statemachines"
)

// acceptor is a control plane whose accepts run by the shipped definition, with
// brokers that are started by it and reach it over HTTP.
type acceptor struct {
	*rig
	engine *enginelocal.Engine
	step   func(context.Context, []byte) ([]byte, error)
	url    string
	dir    string
	// unswept leaves everything to events.
	unswept bool

	mu       sync.Mutex
	at       func(epoch int64, point string)              // guarded by mu: called at each named point of a broker
	between  func(op string, serve http.HandlerFunc) bool // guarded by mu: whether it has answered
	launched []int64                                      // guarded by mu: epochs
	over     map[string]bool                              // guarded by mu: references of brokers that are gone
	running  sync.WaitGroup
}

var _ runner.Runner = (*acceptor)(nil)

// counted counts what writes cost on DynamoDB, without the indexes: a unit for each
// begun kilobyte of an item, twice that in a transaction of several.
type counted struct {
	store.Store
	mu    sync.Mutex
	units int // guarded by mu
}

func (c *counted) Transact(ctx context.Context, ws ...store.Write) error {
	err := c.Store.Transact(ctx, ws...)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range ws {
		n := 1 + len(w.Item.Doc)>>10
		if len(ws) > 1 {
			n *= 2
		}
		c.units += n
	}
	return err
}

func (c *counted) taken() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.units = c.units, 0
	return n
}

func newAcceptor(t *testing.T) *acceptor {
	t.Helper()
	a := &acceptor{rig: newRig(t), dir: t.TempDir(), over: map[string]bool{}, at: func(int64, string) {}}
	a.App.Runner, a.App.After = a, time.After
	log := slog.New(slog.DiscardHandler)
	api := runnerapi.New(runnerapi.Config{
		Base: edge.Base{Log: log, Now: time.Now, NewID: a.IDs.New, Hop: names.HopHosted}, Auth: a.App, Runs: a.App,
	})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		between := a.between
		a.mu.Unlock()
		if between == nil || !between(strings.TrimPrefix(r.URL.Path, "/runner/"), func(w http.ResponseWriter, _ *http.Request) { api.ServeHTTP(w, r) }) {
			api.ServeHTTP(w, r)
		}
	}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.Start()
	t.Cleanup(srv.Close)
	a.url = srv.URL
	var ms []*asl.Machine
	for _, name := range statemachines.Names() {
		src, err := statemachines.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := asl.Load(name, src, map[string]string{"StepFunction": "step"})
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	a.step = step.Handler(a.App)
	n := 0
	var err error
	a.engine, err = enginelocal.New(enginelocal.Options{
		Store: a.db, Tenant: tenant, Machines: ms, Step: a.step, Now: time.Now, Log: log,
		NewToken: func() string { n++; return fmt.Sprintf("%032d", n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	a.App.Engine = a.engine
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var flows sync.WaitGroup
	flows.Go(func() { _ = a.engine.Run(ctx) })
	t.Cleanup(func() {
		a.running.Wait()
		stop()
		flows.Wait()
		_ = a.engine.Close()
	})
	return a
}

// watch sets what happens at the named points of brokers.
func (a *acceptor) watch(f func(epoch int64, point string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = f
}

func (a *acceptor) launches() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.launched)
}

// Launch starts a broker, once for a task and epoch.
func (a *acceptor) Launch(_ context.Context, s runner.Spec) (string, error) {
	if !s.Broker {
		return "", fault.New(fault.Internal, "an accept launches a supervisor")
	}
	ref := s.Task.Short() + "/" + fmt.Sprint(s.Epoch)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, there := a.over[ref]; there {
		return ref, nil
	}
	a.over[ref] = false
	a.launched = append(a.launched, s.Epoch)
	dir := filepath.Join(a.dir, ref)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	err := spool.Write(dir, spool.StartFile, spool.Start{
		Target: a.url, Nonce: s.Nonce, Tenant: s.Tenant, Project: s.Project, Task: s.Task, Turn: s.Turn, Epoch: s.Epoch,
	})
	if err != nil {
		return "", err
	}
	a.running.Go(func() {
		_, err := dies(func() error {
			return supervisor.Land(context.WithoutCancel(a.t.Context()), supervisor.Options{
				Dir: dir, Version: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler), Crash: func(point string) {
					a.mu.Lock()
					at := a.at
					a.mu.Unlock()
					at(s.Epoch, point)
				},
			})
		})
		a.gone(s.Task, s.Epoch, fmt.Sprint(err))
	})
	return ref, nil
}

// gone tells the control plane that a broker is gone, as the event of its container
// does.
func (a *acceptor) gone(tid id.Task, epoch int64, why string) {
	a.mu.Lock()
	a.over[tid.Short()+"/"+fmt.Sprint(epoch)] = true
	a.mu.Unlock()
	if err := a.RunnerGone(context.WithoutCancel(a.t.Context()), tenant, tid, epoch, runner.Report{Sight: runner.Gone, ExitCode: 137, Reason: why}); err != nil {
		a.t.Errorf("the end of broker %d is not heard: %v", epoch, err)
	}
}

func (a *acceptor) Find(_ context.Context, tid id.Task, epoch int64) (string, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ref := tid.Short() + "/" + fmt.Sprint(epoch)
	_, ok := a.over[ref]
	return ref, ok, nil
}

func (a *acceptor) Observe(_ context.Context, ref string) (runner.Report, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over[ref] {
		return runner.Report{Sight: runner.Gone, Reason: "it has ended"}, nil
	}
	return runner.Report{Sight: runner.Alive}, nil
}

func (a *acceptor) Stop(context.Context, string, string) error { return nil }

const opID = "019a5f00-0000-7000-8000-000000000001"

// accepted puts a task into the merge phase, as the request of an accept does, and
// orders its flow.
func (a *acceptor) accepted(k task.Task) task.Task {
	a.t.Helper()
	k.Epoch, k.Version, k.Claimed, k.Prior, k.Goal, k.Commits = 2, k.Version+1, true, task.Blocked, "Do the work", 1
	k.Accept.Operation, k.Accept.N, k.Accept.Step = opID, 1, "claimed"
	a.row(k)
	doc, err := json.Marshal(app.Op{ID: opID, Kind: "accept", Verb: "accept", Project: project, Task: k.ID, Epoch: k.Epoch})
	if err != nil {
		a.t.Fatal(err)
	}
	err = a.db.Transact(a.t.Context(), store.Write{Act: store.Put, Item: store.Item{
		Key: store.For(tenant).Operation(opID), Doc: doc, Attr: store.Attr{store.AttrType: "operation", "schema": int64(1)},
	}})
	if err != nil {
		a.t.Fatal(err)
	}
	input := fmt.Appendf(nil, `{"v":1,"tenant":%q,"turn":%q,"n":1}`, tenant, opID)
	if err := a.engine.Start(a.t.Context(), names.MachineAccept, opID+"-1", input); err != nil {
		a.t.Fatal(err)
	}
	return k
}

// ended waits until the task has left the merge phase. Meanwhile it looks at the
// task as the sweep does, which makes up for events that are late.
func (a *acceptor) ended(k task.Task) task.Task {
	a.t.Helper()
	for {
		if !a.unswept {
			if err := a.FlowEnded(a.t.Context(), tenant, opID); err != nil && !fault.Retryable(err) {
				a.t.Fatal(err)
			}
		}
		now, _, err := a.LoadTask(a.t.Context(), tenant, k.ID)
		if err != nil {
			a.t.Fatal(err)
		}
		if now.Status != task.Merging && (now.Status != task.Complete || now.Workspace == nil) {
			return now
		}
		if now.Accept.GaveUp {
			a.t.Fatalf("the accept was given up: %s", now.Accept.Failure)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-a.t.Context().Done():
			a.t.Fatal("the test's time is over")
		}
	}
}

// merged holds the result of an accept against what it must be: one merge commit on
// what main was, and every commit of the task still there for who pulls it.
func (a *acceptor) merged(k, now task.Task, main string, files map[string]string) {
	a.t.Helper()
	if now.Status != task.Complete || now.Merge == "" || now.Merge != a.head("main") {
		a.t.Fatalf("it is %s with merge %s; main is at %s: %+v", now.Status, now.Merge, a.head("main"), now.Accept)
	}
	a.depot = a.another() // nothing but what is durable
	fresh := a.t.TempDir()
	a.run(fresh, "init", "-q", "-b", "none", ".")
	head := a.pulled(fresh, "main")
	if got := a.run(fresh, "show", "-s", "--format=%an <%ae> %P", head); got != "Ada <ada@example.com> "+main {
		a.t.Errorf("the merge is %q, want one on %s", got, main)
	}
	if n := a.run(fresh, "log", "--format=%H", "--grep", "Lazy-Task: "+string(k.ID), head); n != head {
		a.t.Errorf("the task was merged by %q", n)
	}
	for name, text := range files {
		if got := a.run(fresh, "show", head+":"+name); got != strings.TrimSpace(text) {
			a.t.Errorf("%s holds %q", name, got)
		}
	}
	if repo := a.container(); !repo.Has(a.t.Context(), k.Tip) {
		a.t.Error("the task's own commits went with its branch")
	}
}

func (a *acceptor) begin(files map[string]string) (k task.Task, main string) {
	a.t.Helper()
	main = a.rig.run(a.clone, "rev-parse", "HEAD")
	a.pushed("main", main, "")
	return a.worked(1, "main", main, files), main
}

func work() map[string]string { return map[string]string{"work.txt": "work\n"} }
