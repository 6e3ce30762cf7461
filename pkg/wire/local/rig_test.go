package local_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/blob/file"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	enginelocal "github.com/lazyplane/lazyplane/pkg/engine/local"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/step"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
	"github.com/lazyplane/lazyplane/statemachines"
)

const (
	tenant  = "local"
	project = "shop"
)

// rig is a person's repository, the durable state, and at most one control plane
// over them, made of the real parts; only the runner is scripted. It lives in a
// synctest bubble: time passes when nobody has anything to do.
type rig struct {
	t     *testing.T
	dir   string
	paths config.Paths
	repo  *git.Repo
	key   []byte
	host  *host
	set   app.Settings // guarded by mu once a plane runs
	owner identity.Caller
	bench identity.Caller // a builder
	ops   *op.Catalogue

	// How a plane is to behave, read when it starts.
	deliver int  // how often each outbox hint is delivered; -1 drops it
	sweeps  bool // whether a sweep runs every five seconds
	// post decides itself how an event is delivered, when it is not nil: an outbox
	// row's hint, or the end of a process.
	post func(event string, deliver func())
	// backwards hands outbox rows on late, the newest first.
	backwards bool
	wrap      func(store.Store) store.Store

	log   *slog.Logger
	told  told
	mu    sync.Mutex
	plane *plane // guarded by mu; nil while none runs
	calls atomic.Int64
}

// plane is one life of the control plane.
type plane struct {
	app    *app.App
	engine *enginelocal.Engine
	db     *table
	fuse   *fuse
	jobs   chan store.Key
	stop   context.CancelFunc
	tasks  sync.WaitGroup

	mu   sync.Mutex
	kept []store.Key // guarded by mu
}

// later hands rows on a few seconds from now, the newest first.
func (p *plane) later(k store.Key) {
	p.mu.Lock()
	p.kept = append(p.kept, k)
	first := len(p.kept) == 1
	p.mu.Unlock()
	if !first {
		return
	}
	p.tasks.Go(func() {
		time.Sleep(3 * time.Second)
		p.mu.Lock()
		kept := p.kept
		p.kept = nil
		p.mu.Unlock()
		for _, k := range slices.Backward(kept) {
			p.jobs <- k
		}
	})
}

// inBubble runs a test of the whole product on virtual time.
func inBubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.up()
		f(t, r)
	})
}

func newRig(t *testing.T) *rig {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, dir: filepath.Join(top, "repo"), key: make([]byte, 32), ops: op.Default(), deliver: 1, sweeps: true,
		set: app.Settings{
			Agents: map[string]app.Agent{"scripted": {ID: "scripted"}}, DefaultAgent: "scripted", DefaultBranch: "main",
			Protected: []string{"deploy/"}, Network: "none", Publish: "submit", Watchdog: 30 * time.Minute, TurnAge: 6 * time.Hour,
			TinyLines: 20, TinyFiles: 3,
		},
	}
	r.log = slog.New(slog.DiscardHandler)
	if os.Getenv("LAZY_TEST_LOG") != "" {
		r.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main", ".")
	r.git("config", "user.name", "Ada")
	r.git("config", "user.email", "ada@example.com")
	r.write("README.md", "shop\n")
	r.write("deploy/run.sh", "echo one\n")
	r.write("src/a.txt", "one\ntwo\nthree\n")
	r.commitAll("first")
	if r.paths, err = config.PathsIn(filepath.Join(top, "home"), r.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.paths.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if r.repo, err = git.Open(t.Context(), r.dir); err != nil {
		t.Fatal(err)
	}
	r.host = newHost(r)
	return r
}

// step lets a test watch, delay and break the steps of flows.
func (r *rig) step(next engine.Step) engine.Step {
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		var p struct{ Step string }
		if err := json.Unmarshal(payload, &p); err != nil {
			return nil, err
		}
		r.host.mu.Lock()
		watch, fail := r.host.beforeStep, r.host.failStep[p.Step]
		r.host.mu.Unlock()
		if watch != nil {
			watch(p.Step)
		}
		if fail != nil {
			return nil, fail
		}
		return next(ctx, payload)
	}
}

// configure changes what the project's configuration says.
func (r *rig) configure(f func(*app.Settings)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set.Agents = maps.Clone(r.set.Agents)
	f(&r.set)
}

func (r *rig) settings() app.Settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.set
}

// payable adds an agent that calls a model somebody pays for.
func payable(s *app.Settings) { s.Agents["paid"] = app.Agent{ID: "paid"} }

func (r *rig) close() {
	r.host.killAll()
	r.down()
}

// up starts a control plane over the durable state.
func (r *rig) up() *plane {
	r.t.Helper()
	p, err := r.start()
	if err != nil {
		r.t.Fatal(err)
	}
	if r.owner.Hash == "" {
		r.owner = r.who("rpc", p.app.MintOwner)
		r.bench = r.who("mcp", func(ctx context.Context, tenant, project, email, name string) (string, error) {
			return p.app.MintBuilder(ctx, tenant, project, "desk", email, name)
		})
	}
	return p
}

func (r *rig) start() (*plane, error) {
	db, err := sqlite.Open(r.t.Context(), r.paths.DB(), time.Now)
	if err != nil {
		return nil, err
	}
	blobs, err := file.New(r.paths.Blobs())
	if err != nil {
		return nil, err
	}
	p := &plane{db: &table{Store: db}, jobs: make(chan store.Key, 4096)}
	p.fuse = &fuse{Store: p.db, dead: make(chan struct{})}
	var s store.Store = p.fuse
	if r.wrap != nil {
		s = r.wrap(s)
	}
	deliver := r.deliver
	p.app = app.New(app.Deps{
		Store: s, Blob: blobs, Repo: newRepository(r), Runner: r.host,
		Settings: func(context.Context, string, string) (app.Settings, error) { return r.settings(), nil },
		Key:      r.key, Now: time.Now, IDs: id.Gen{Rand: rand.Reader}, Log: r.log, Local: true,
		Hop: 600 * time.Second, Seal: local.NewSealer(r.paths.Credentials()), Moved: r.told.note,
		Provider: func(agent, _ string) string {
			if agent == "paid" {
				return "claude"
			}
			return ""
		},
		Publish: func(k store.Key) {
			if r.backwards {
				p.later(k)
				return
			}
			if r.post != nil {
				r.post(k.SK, func() { p.jobs <- k })
				return
			}
			for range deliver {
				p.jobs <- k
			}
		},
	})
	var ms []*asl.Machine
	for _, name := range statemachines.Names() {
		src, err := statemachines.Source(name)
		if err != nil {
			return nil, err
		}
		m, err := asl.Load(name, src, map[string]string{"StepFunction": "step"})
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	p.engine, err = enginelocal.New(enginelocal.Options{
		Store: s, Tenant: tenant, Machines: ms, Step: r.step(step.Handler(p.app)), Now: time.Now,
		NewToken: func() string { return randomText(16) }, Log: r.log,
	})
	if err != nil {
		return nil, err
	}
	p.app.Engine = p.engine
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.tasks.Go(func() { _ = p.engine.Run(ctx) })
	for range 4 {
		p.tasks.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case k := <-p.jobs:
					_ = p.app.Consume(ctx, k)
				}
			}
		})
	}
	if r.sweeps {
		p.tasks.Go(func() {
			_ = p.app.CatchUp(ctx, tenant, project)
			tick := time.NewTicker(5 * time.Second)
			defer tick.Stop()
			for next := time.Now(); ; {
				// One that cannot find anything is left out: days pass here.
				if p.db.changed.Swap(false) || !time.Now().Before(next) {
					_, _ = p.app.Sweep(ctx, 100)
					next = p.db.due(ctx)
				}
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	r.mu.Lock()
	r.plane = p
	r.mu.Unlock()
	return p, nil
}

// down ends the control plane as a kill does: nothing it was doing is finished.
func (r *rig) down() {
	r.mu.Lock()
	p := r.plane
	r.plane = nil
	r.mu.Unlock()
	if p == nil {
		return
	}
	p.fuse.blow()
	p.stop()
	_ = p.engine.Close()
	p.tasks.Wait()
	if err := p.db.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) now() *plane {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plane
}

func (r *rig) app() *app.App { return r.now().app }

func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func (r *rig) who(surface string, mint func(ctx context.Context, tenant, project, email, name string) (string, error)) identity.Caller {
	r.t.Helper()
	text, err := mint(r.t.Context(), tenant, project, "ada@example.com", "Ada")
	if err != nil {
		r.t.Fatal(err)
	}
	who, err := r.app().Authenticate(r.t.Context(), text, surface)
	if err != nil {
		r.t.Fatal(err)
	}
	return who
}

// in is a JSON object.
type in map[string]any

// try makes a call the way a surface does, through the catalogue.
func (r *rig) try(who identity.Caller, name string, args in) (map[string]any, error) {
	return r.tryKey(who, name, args, fmt.Sprintf("key-%d", r.calls.Add(1)))
}

func (r *rig) tryKey(who identity.Caller, name string, args in, key string) (map[string]any, error) {
	return callOp(r.t.Context(), r.ops, r.app(), who, name, args, key)
}

func callOp(ctx context.Context, ops *op.Catalogue, a *app.App, who identity.Caller, name string, args in, key string) (map[string]any, error) {
	o, ok := ops.Command(name)
	if !ok {
		if o, ok = ops.Tool(name); !ok {
			return nil, fmt.Errorf("no operation %s", name)
		}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	got, err := o.Call(ctx, a, app.Call{Who: who, Key: key, Operation: id.Keyed(id.Gen{Rand: rand.Reader}.New(), who.Hash, key)}, raw)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(got)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(b, &out)
}

func (r *rig) do(name string, args in) map[string]any {
	r.t.Helper()
	out, err := r.try(r.owner, name, args)
	if err != nil {
		r.t.Fatalf("%s %v: %v", name, args, err)
	}
	return out
}

// create makes a backlog task and returns its id.
func (r *rig) create(code string, more ...in) id.Task {
	r.t.Helper()
	args := in{"goal": "do " + code, "prompt": "Please do " + code + ".", "code": code}
	for _, m := range more {
		maps.Copy(args, m)
	}
	return id.Task(r.do("createTask", args)["task_id"].(string))
}

func (r *rig) task(t id.Task) task.Task {
	r.t.Helper()
	v, ok := readRow[task.Task](r, store.For(tenant).Task(t).Meta())
	if !ok {
		r.t.Fatalf("there is no task %s", t)
	}
	return v
}

func readRow[T any](r *rig, k store.Key) (v T, ok bool) {
	r.t.Helper()
	var it store.Item
	err := r.read(func(db *sqlite.Store) (err error) {
		it, err = db.Get(r.t.Context(), k)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return v, false
	}
	if err == nil {
		err = json.Unmarshal(it.Doc, &v)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return v, true
}

// until waits, on virtual time, until cond holds.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(3 * time.Hour); !cond(); time.Sleep(250 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("it never came to this: %s", what)
		}
	}
}

// rest waits until the task has the status and nobody holds it.
func (r *rig) rest(t id.Task, want task.Status) task.Task {
	r.t.Helper()
	var got task.Task
	for end := time.Now().Add(3 * time.Hour); ; time.Sleep(250 * time.Millisecond) {
		if got = r.task(t); got.Status == want && !got.Claimed {
			return got
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s is %s (claimed %t, why %q), never %s", got.Name(), got.Status, got.Claimed, got.Why, want)
		}
	}
}

// path is the task's recorded way through the statuses.
func (r *rig) path(t id.Task) string {
	r.t.Helper()
	var b strings.Builder
	for i, h := range rows[task.History](r, t, "HIS#") {
		if i > 0 {
			b.WriteString(" ")
		}
		b.WriteString(string(h.To))
	}
	return b.String()
}
