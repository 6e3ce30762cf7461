package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
	"github.com/lazyplane/lazyplane/pkg/store/storetest"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// rig is the use cases over a real store in a temporary folder and stateful fakes
// of everything else. Calls go through the catalogue, as every surface's do.
type rig struct {
	*app.App
	t      *testing.T
	clock  *clock
	log    *ledger
	lag    *storetest.Lag // the same store; Settle lets its indexes catch up
	repo   *fakeRepo
	runner *fakeRunner
	engine *fakeEngine
	blobs  *memBlobs
	rand   *dice
	logged *logBook
	set    *app.Settings
	ops    *op.Catalogue
	mu     sync.Mutex
	keys   int       // guarded by mu: idempotency keys given out
	reset  time.Time // of the window of the paid agent's credential, where there is one
}

const (
	tenant  = "local"
	project = "demo"
)

// newRig makes a rig whose clock stands at noon of a fixed day, whose ids come
// from a fixed seed, and whose repository has one commit on main. Indexes lag until
// Settle is called.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, clock: newClock(), repo: newFakeRepo(), runner: newFakeRunner(), engine: newFakeEngine(),
		blobs: newMemBlobs(), rand: newDice(), logged: &logBook{}, ops: op.Default(),
		set: &app.Settings{
			Agents: map[string]app.Agent{
				"claude":   {ID: "claude", Argv: []string{"claude"}},
				"scripted": {ID: "scripted", Argv: []string{"true"}},
			},
			DefaultAgent: "claude", DefaultBranch: "main", Network: "open", Publish: "submit",
			Watchdog: 30 * time.Minute, TurnAge: 6 * time.Hour, TinyLines: 20, TinyFiles: 3,
		},
	}
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "lazy.db"), r.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r.lag = storetest.Lagging(db)
	r.log = &ledger{Store: r.lag, keys: map[store.Key]bool{}}
	r.App = app.New(app.Deps{
		Store: r.log, Blob: r.blobs, Engine: r.engine, Repo: r.repo, Runner: r.runner,
		Settings: func(context.Context, string, string) (app.Settings, error) { return *r.set, nil },
		Key:      []byte("0123456789abcdef0123456789abcdef"),
		Now:      r.clock.Now, After: r.clock.After, IDs: id.Gen{Rand: r.rand},
		Log: slog.New(slog.NewTextHandler(r.logged, nil)), Local: true, Hop: 600 * time.Second,
	})
	return r
}

// owner is the person of a local install.
func (r *rig) owner() identity.Caller {
	return identity.Caller{Kind: identity.Owner, Tenant: tenant, Project: project, Email: "ada@example.com", Name: "Ada", Hash: "owner-hash"}
}

// member is another person of the same project.
func (r *rig) member() identity.Caller {
	return identity.Caller{Kind: identity.User, Tenant: tenant, Project: project, Email: "bo@example.com", Name: "Bo", Hash: "member-hash"}
}

// builder is an orchestrating agent with the whole project.
func (r *rig) builder() identity.Caller {
	return identity.Caller{Kind: identity.Builder, Tenant: tenant, Project: project, Subject: "b1", Hash: "builder-hash"}
}

// operator is automation that names no person.
func (r *rig) operator() identity.Caller {
	return identity.Caller{Kind: identity.Operator, Tenant: tenant, Project: project, Hash: "operator-hash"}
}

// stranger is a person of another tenant.
func (r *rig) stranger() identity.Caller {
	return identity.Caller{Kind: identity.User, Tenant: "other", Project: project, Email: "eve@example.com", Hash: "stranger-hash"}
}

// agent is the agent of a task as its supervisor relays it, stamped with the run
// in force.
func (r *rig) agent(tid id.Task) identity.Caller {
	r.t.Helper()
	t := r.load(tid)
	return identity.Caller{
		Kind: identity.Task, Tenant: tenant, Project: project, Subject: string(tid), Hash: "task-hash-" + string(tid),
		Turn: t.Turn, Epoch: t.Epoch,
	}
}

// call is a request of who with an idempotency key of its own.
func (r *rig) call(who identity.Caller) app.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys++
	return app.Call{Who: who, Key: fmt.Sprintf("key-%04d", r.keys)}
}

type args = map[string]any

// op finds an operation by command or tool.
func (r *rig) op(name string) op.Op {
	r.t.Helper()
	o, ok := r.ops.Command(name)
	if !ok {
		if o, ok = r.ops.Tool(name); !ok {
			r.t.Fatalf("the catalogue has no %s", name)
		}
	}
	return o
}

// try sends one call through the catalogue.
func (r *rig) try(c app.Call, name string, in args) (any, error) {
	r.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.op(name).Call(r.t.Context(), r.App, c, raw)
}

// do sends a call that must succeed and decodes its answer.
func do[T any](r *rig, who identity.Caller, name string, in args) T {
	r.t.Helper()
	return answer[T](r, r.call(who), name, in)
}

// answer is do with a call made by the test.
func answer[T any](r *rig, c app.Call, name string, in args) T {
	r.t.Helper()
	out, err := r.try(c, name, in)
	if err != nil {
		r.t.Fatalf("%s %v: %v", name, in, err)
	}
	b, err := json.Marshal(out)
	if err != nil {
		r.t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		r.t.Fatalf("%s answered %s: %v", name, b, err)
	}
	return v
}

// refused sends a call that must be refused with code and must write nothing.
func (r *rig) refused(who identity.Caller, code refusal.Code, name string, in args) error {
	r.t.Helper()
	before := r.snapshot()
	out, err := r.try(r.call(who), name, in)
	if !refusal.Is(err, code) {
		r.t.Errorf("%s %v by %s answered %v, %v; want refusal %s", name, in, who.Kind, out, err, code)
	}
	r.unchanged(before)
	return err
}

// refusedAfter is refused for a call during which somebody else writes.
func (r *rig) refusedAfter(who identity.Caller, code refusal.Code, name string, in args) {
	r.t.Helper()
	if out, err := r.try(r.call(who), name, in); !refusal.Is(err, code) {
		r.t.Errorf("%s %v by %s answered %v, %v; want refusal %s", name, in, who.Kind, out, err, code)
	}
}

// snapshot is every row there is but confirmation codes, which lie outside a
// tenant's records (OT-044).
func (r *rig) snapshot() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, k := range r.log.all() {
		if strings.HasPrefix(k.SK, "CNF#") {
			continue
		}
		it, err := r.lag.Get(context.Background(), k)
		if err == nil {
			out[k.String()] = fmt.Sprint(it.Attr, it.Index, string(it.Doc))
		}
	}
	return out
}

// unchanged fails when a row differs from a snapshot.
func (r *rig) unchanged(before map[string]string) {
	r.t.Helper()
	if d := cmp.Diff(before, r.snapshot()); d != "" {
		r.t.Errorf("a refused request has written (-before +after):\n%s", d)
	}
}

// load reads a task's row.
func (r *rig) load(tid id.Task) task.Task {
	r.t.Helper()
	return read[task.Task](r, store.For(tenant).Task(tid).Meta())
}

// read decodes a row that must exist.
func read[T any](r *rig, k store.Key) T {
	r.t.Helper()
	it, err := r.lag.Get(r.t.Context(), k)
	if err != nil {
		r.t.Fatalf("read %s: %v", k, err)
	}
	var v T
	if err := json.Unmarshal(it.Doc, &v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

// rows decodes the rows of a task under a prefix, in order.
func rows[T any](r *rig, tid id.Task, prefix string) []T {
	r.t.Helper()
	var out []T
	q := store.Query{PK: store.For(tenant).Task(tid).PK, Prefix: prefix, Limit: 1000}
	err := store.All(r.t.Context(), r.lag, q, func(it store.Item) bool {
		var v T
		if err := json.Unmarshal(it.Doc, &v); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, v)
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// create makes a task as the owner; parent may be "".
func (r *rig) create(goal string, parent id.Task) app.Created {
	r.t.Helper()
	in := args{"goal": goal, "prompt": "Do it: " + goal}
	if parent != "" {
		in["parent"] = string(parent)
	}
	return do[app.Created](r, r.owner(), "createTask", in)
}

// working makes a task whose agent is running a work turn on a branch of its own.
func (r *rig) working(goal string, parent id.Task) id.Task {
	r.t.Helper()
	tid := r.create(goal, parent).TaskID
	r.start(tid)
	return tid
}

// start runs the first turn of a task up to the point at which its agent works,
// doing by hand what the flow and the supervisor do.
func (r *rig) start(tid id.Task) {
	r.t.Helper()
	// Its target may be the branch of a parent that this test never starts.
	r.repo.branchFrom(r.load(tid).Target, "main")
	do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(tid)})
	t := r.load(tid)
	base := r.repo.branchFrom(t.Branch, t.Target)
	if err := r.SetHead(r.t.Context(), tenant, tid, base, base); err != nil {
		r.t.Fatal(err)
	}
	r.run(tid, func(run *turn.Run) {
		run.State, run.Hello, run.Running, run.Beat = "running", r.clock.Now(), r.clock.Now(), r.clock.Now()
	})
}

// again ends the running turn of a task and begins the next one, so that callers
// stamped with the old run are late.
func (r *rig) again(tid id.Task) {
	r.t.Helper()
	r.park(tid)
	do[app.Begun](r, r.owner(), "unblockTask", args{"task_id": string(tid), "feedback": "go on"})
	r.run(tid, func(run *turn.Run) {
		run.State, run.Hello, run.Running, run.Beat = "running", r.clock.Now(), r.clock.Now(), r.clock.Now()
	})
}

// run edits the run item in force.
func (r *rig) run(tid id.Task, edit func(*turn.Run)) {
	r.t.Helper()
	if err := r.EditRun(r.t.Context(), tenant, tid, r.load(tid).Epoch, edit); err != nil {
		r.t.Fatal(err)
	}
}

// park ends the running turn of a task as the flow does when it was completed:
// the label function decides, the epoch is released.
func (r *rig) park(tid id.Task) {
	r.t.Helper()
	if err := r.Park(r.t.Context(), tenant, tid); err != nil {
		r.t.Fatal(err)
	}
}

// finish brings a task to complete or abandoned by edges of the table.
func (r *rig) finish(tid id.Task, to task.Status) {
	r.t.Helper()
	if err := r.Finish(r.t.Context(), tenant, tid, to); err != nil {
		r.t.Fatal(err)
	}
}
