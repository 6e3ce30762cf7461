package mcpserver_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/mcpserver"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

const (
	tenant  = "local"
	project = "demo"
	taskA   = id.Task("3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10")
	taskB   = id.Task("77aa9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f11")
	absent  = id.Task("99bb9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f12")
)

// counting counts what reaches the store.
type counting struct {
	store.Store
	mu    sync.Mutex
	reads int // guarded by mu
	puts  int // guarded by mu
}

func (c *counting) Get(ctx context.Context, k store.Key) (store.Item, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.Store.Get(ctx, k)
}

func (c *counting) Transact(ctx context.Context, ws ...store.Write) error {
	c.mu.Lock()
	c.puts++
	c.mu.Unlock()
	return c.Store.Transact(ctx, ws...)
}

func (c *counting) seen() (reads, puts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads, c.puts
}

// rig is the surface over the use cases and a store in a file. Its catalogue has
// handlers that the test steers; credentials, turns and their rows are real.
type rig struct {
	cfg    mcpserver.Config
	app    *app.App
	store  *counting
	tokens map[string]string // by name: builder, a, b, ended, owner, user, operator, session, runner
	log    lockedBuffer

	started chan struct{}
	release chan struct{}
	ended   chan error

	mu     sync.Mutex
	calls  []app.Call                            // guarded by mu
	story  func(cursor string) app.Progress      // guarded by mu; what Await tells
	awoke  []string                              // guarded by mu; cursors Await was called with
	during func(ctx context.Context, c app.Call) // guarded by mu; what lazy_slow does first
}

func newRig(t testing.TB) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "lazy.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := &rig{
		store: &counting{Store: db}, tokens: map[string]string{},
		started: make(chan struct{}, 64), release: make(chan struct{}), ended: make(chan error, 64),
	}
	ids := id.Gen{Rand: rand.Reader}
	r.app = app.New(app.Deps{
		Store: r.store, Key: bytes.Repeat([]byte("k"), 32), Now: time.Now, IDs: ids, Log: slog.New(slog.DiscardHandler),
		Local: true, Hop: time.Minute,
	})
	r.cfg = mcpserver.Config{
		Base: edge.Base{Log: slog.New(slog.NewJSONHandler(&r.log, nil)), Now: time.Now, NewID: ids.New, Hop: time.Minute},
		Auth: r.app, App: r.app, Ops: r.catalogue(), Turns: r.app, Await: r, Version: "1",
	}
	r.putTask(t, task.Task{ID: taskA, Code: "fix-login", Status: task.Working, Epoch: 4, Claimed: true, TurnKind: string(turn.Work)})
	r.putTask(t, task.Task{ID: taskB, Code: "add-tests", Status: task.Blocked})
	for name, tok := range map[string]identity.Token{
		"builder":  {Kind: identity.Builder, Subject: "b1"},
		"a":        {Kind: identity.Task, Subject: string(taskA)},
		"b":        {Kind: identity.Task, Subject: string(taskB)},
		"ended":    {Kind: identity.Task, Subject: string(absent), Revoked: time.Now(), Why: "accepted"},
		"owner":    {Kind: identity.Owner, Subject: "owner"},
		"user":     {Kind: identity.User, Subject: "bob@x.org"},
		"operator": {Kind: identity.Operator, Subject: "op"},
		"session":  {Kind: identity.Session, Subject: "s"},
		"runner":   {Kind: identity.Runner, Subject: string(taskA), Turn: "t1", Epoch: 4},
	} {
		r.tokens[name] = r.putToken(t, tok)
	}
	r.tokens["unknown"] = identity.Text([]byte("another key"), identity.Token{Kind: identity.Builder, Tenant: tenant})
	return r
}

func (r *rig) putTask(t testing.TB, v task.Task) {
	t.Helper()
	v.Tenant, v.Project, v.Salt = tenant, project, "salt" // its token derives from the same
	r.put(t, store.For(tenant).Task(v.ID).Meta(), "task", v)
}

func (r *rig) putToken(t testing.TB, tok identity.Token) string {
	t.Helper()
	tok.Tenant, tok.Project, tok.Salt = tenant, project, "salt"
	text := identity.Text(r.app.Key, tok)
	tok.Hash = identity.Hash(text)
	r.put(t, store.For(tenant).Token(tok.Hash), "token", tok)
	return text
}

func (r *rig) put(t testing.TB, k store.Key, typ string, v any) {
	t.Helper()
	doc, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	w := store.Write{Act: store.Put, Item: store.Item{Key: k, Attr: store.Attr{store.AttrType: typ, "schema": int64(1)}, Doc: doc}}
	if err := r.store.Transact(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) saw(c app.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
}

func (r *rig) last(t *testing.T) app.Call {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == 0 {
		t.Fatal("no handler ran")
	}
	return r.calls[len(r.calls)-1]
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

func (r *rig) tells(f func(cursor string) app.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.story = f
}

// Await tells the rig's story.
func (r *rig) Await(_ context.Context, _ app.Call, _, cursor string) (app.Progress, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awoke = append(r.awoke, cursor)
	return r.story(cursor), nil
}

type messageIn struct {
	Message string   `json:"message" jsonschema:"any text"`
	Files   []string `json:"files,omitempty" jsonschema:"paths"`
	Secret  string   `json:"secret,omitempty" jsonschema:"only the builder's"`
}

type howIn struct {
	How string `json:"how" jsonschema:"which error"`
}

type none struct{}

type began struct {
	Task      string `json:"task_id"`
	Operation string `json:"operation_id,omitempty"`
	Confirm   bool   `json:"confirmation_required,omitempty"`
	Pending   bool   `json:"pending,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

// failures are the ways a handler can fail.
func failures() map[string]error {
	m := map[string]error{
		"plain": errors.New("read row 7: the disk at /secret is on fire"),
		"busy":  refusal.Of(refusal.TaskBusy, "t", "working", "Ada", "noon"),
		"gone":  refusal.Of(refusal.NotFound, "task", "x"),
	}
	for _, k := range fault.Kinds() {
		m[string(k)] = fault.New(k, "a fault of kind %s", k)
	}
	return m
}

func (r *rig) catalogue() *op.Catalogue {
	both := func(o op.Op) op.Op { o.Builder, o.Agent = true, true; return o }
	return op.New(
		op.Define(both(op.Op{
			Tool: "lazy_echo", Doc: "Say it back.", Effect: op.Read,
			Omit:    map[identity.Kind][]string{identity.Task: {"secret"}},
			Instead: map[string]refusal.Code{"secret": refusal.UsagePassDenied, "image": refusal.HumanOnly},
		}), func(_ context.Context, _ *app.App, c app.Call, in messageIn) (messageIn, error) {
			r.saw(c)
			return in, nil
		}),
		op.Define(both(op.Op{Tool: "lazy_fail", Doc: "Fail.", Effect: op.Read}),
			func(_ context.Context, _ *app.App, c app.Call, in howIn) (none, error) {
				r.saw(c)
				if in.How == "panic" {
					panic("lzy_owner_secret in a panic")
				}
				return none{}, failures()[in.How]
			}),
		op.Define(both(op.Op{Tool: "lazy_slow", Doc: "Take long.", Effect: op.Read, Long: true}),
			func(ctx context.Context, _ *app.App, c app.Call, _ none) (began, error) {
				r.saw(c)
				r.mu.Lock()
				during := r.during
				r.mu.Unlock()
				if during != nil {
					during(ctx, c)
				}
				r.started <- struct{}{}
				select {
				case <-r.release:
				case <-ctx.Done():
				}
				r.ended <- ctx.Err()
				return began{Task: "t"}, ctx.Err()
			}),
		op.Define(both(op.Op{Tool: "lazy_active", Doc: "Nothing to say.", Effect: op.Read}),
			func(_ context.Context, _ *app.App, c app.Call, _ none) (none, error) {
				r.saw(c)
				return none{}, nil
			}),
		op.Define(op.Op{
			Tool: "lazy_commit", Doc: "Commit.", Agent: true, Refuse: refusal.AgentOnly, Why: "A builder has no worktree.",
		}, func(_ context.Context, _ *app.App, c app.Call, _ messageIn) (began, error) {
			r.saw(c)
			return began{Task: string(c.Who.Task())}, nil
		}),
		op.Define(op.Op{
			Tool: "lazy_memory_save", Doc: "Save.", Builder: true, Refuse: refusal.BuilderOnly, Why: "Every later launch reads it.",
		}, func(_ context.Context, _ *app.App, c app.Call, _ messageIn) (none, error) {
			r.saw(c)
			return none{}, nil
		}),
		op.Define(both(op.Op{Tool: "lazy_accept", Doc: "Merge.", Flow: "accept", Confirm: true}),
			func(_ context.Context, _ *app.App, c app.Call, _ none) (began, error) {
				r.saw(c)
				if c.Code == "" {
					return began{Task: "t", Confirm: true}, nil
				}
				return began{Task: "t", Operation: c.Operation}, nil
			}),
		op.Define(both(op.Op{Tool: "lazy_wait", Doc: "Wait.", Effect: op.Read, Long: true}),
			func(_ context.Context, _ *app.App, c app.Call, _ none) (began, error) {
				r.saw(c)
				return began{Task: "t", Pending: true, Cursor: "77"}, nil
			}),
	)
}

func (r *rig) serve(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(mcpserver.New(r.cfg))
	t.Cleanup(s.Close)
	return s
}

// post sends one request and reads the whole answer.
func post(t *testing.T, s *httptest.Server, path, token, body string, header ...string) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// lockedBuffer is a log that handlers write at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *lockedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *lockedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
