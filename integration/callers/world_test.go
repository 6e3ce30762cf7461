// Package callers asks, of every operation of the catalogue on the surfaces that
// serve it, who may call it, on which tasks, and what a caller learns of what is
// not his. The questions are made from the catalogue, so an operation that is
// added is asked them too; the answers it must give are in spec_test.go.
package callers

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
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/mcpserver"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/rpc"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runnerapi"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// counter counts what reaches the store.
type counter struct {
	store.Store
	reads, writes atomic.Int64
}

func (c *counter) Get(ctx context.Context, k store.Key) (store.Item, error) {
	c.reads.Add(1)
	return c.Store.Get(ctx, k)
}

func (c *counter) Query(ctx context.Context, q store.Query) (store.Page, error) {
	c.reads.Add(1)
	return c.Store.Query(ctx, q)
}

// Transact counts as a write what was written; what the store refuses is a look.
func (c *counter) Transact(ctx context.Context, ws ...store.Write) error {
	err := c.Store.Transact(ctx, ws...)
	if err != nil {
		c.reads.Add(1)
		return err
	}
	c.writes.Add(1)
	return nil
}

// elsewhere is a repository that cannot be worked on: who may do a thing is
// decided before it is touched. It has one branch, and nothing ever changed.
type elsewhere struct{ app.Repository }

const head = "1111111111111111111111111111111111111111"

var errElsewhere = fault.New(fault.Unavailable, "the repository is elsewhere")

func (elsewhere) Current(context.Context) (string, string, error)     { return "main", head, nil }
func (elsewhere) Tip(context.Context, string) (string, error)         { return head, nil }
func (elsewhere) Probe(context.Context, task.Task) (app.Probe, error) { return app.Probe{}, nil }
func (elsewhere) Diff(context.Context, app.DiffQuery) (app.Diff, error) {
	return app.Diff{}, nil
}

func (elsewhere) Plan(context.Context, task.Task) (app.Landing, error) { return app.Landing{}, nil }

func (elsewhere) Overlap(context.Context, app.Landing) ([]string, string, error) { return nil, "", nil }

func (elsewhere) Finish(context.Context, task.Task, string, string) (string, error) {
	return "", errElsewhere
}

func (elsewhere) Subjects(context.Context, string, string) ([]string, error) { return nil, nil }

func (elsewhere) SaveRecovery(context.Context, task.Task, string, time.Time) (string, error) {
	return "", errElsewhere
}

// idle is an engine that is told things and never does one.
type idle struct{ engine.Engine }

func (idle) Describe(context.Context, string, string) (engine.Execution, error) {
	return engine.Execution{State: engine.Running}, nil
}

func (idle) Stop(context.Context, string, string, string) error { return nil }
func (idle) Fail(context.Context, string, string, string) error { return nil }
func (idle) Beat(context.Context, string) error                 { return nil }

// nowhere is a runner whose runs are all gone.
type nowhere struct{ runner.Runner }

func (nowhere) Find(context.Context, id.Task, int64) (string, bool, error) { return "", false, nil }
func (nowhere) Observe(context.Context, string) (runner.Report, error) {
	return runner.Report{Sight: runner.Gone}, nil
}
func (nowhere) Stop(context.Context, string, string) error { return nil }

const (
	tenant  = "local"
	project = "demo"
)

// world is two tenants, one of them with two projects, behind the real surfaces.
type world struct {
	*app.App
	t     testing.TB
	ops   *op.Catalogue
	store *counter
	url   string
	calls atomic.Int64
}

func newWorld(t testing.TB, ops *op.Catalogue) *world {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "lazy.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := &world{t: t, ops: ops, store: &counter{Store: db}}
	ids := id.Gen{Rand: rand.Reader}
	w.App = app.New(app.Deps{
		Store: w.store, Repo: elsewhere{}, Engine: idle{}, Runner: nowhere{}, Key: bytes.Repeat([]byte("k"), 32), Now: time.Now, IDs: ids,
		Log: slog.New(slog.DiscardHandler), Local: true, Hop: time.Minute,
		Settings: func(context.Context, string, string) (app.Settings, error) {
			return app.Settings{
				Agents: map[string]app.Agent{"c": {ID: "c", Argv: []string{"true"}}}, DefaultAgent: "c", DefaultBranch: "main",
			}, nil
		},
	})
	base := edge.Base{Log: slog.New(slog.DiscardHandler), Now: time.Now, NewID: ids.New, Hop: time.Minute}
	srv := httptest.NewServer(edge.Router(slices.Concat(
		rpc.Routes(rpc.Config{Base: base, Auth: w.App, App: w.App, Ops: ops}),
		mcpserver.Routes(mcpserver.Config{Base: base, Auth: w.App, App: w.App, Ops: ops, Turns: w.App, Await: w.App, Version: "1"}),
		runnerapi.Routes(runnerapi.Config{Base: base, Auth: w.App, Runs: w.App}),
	)...))
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

// caller is who calls, with a credential that is really stored.
type caller struct {
	name string
	who  identity.Caller
	text string
}

// caller makes a credential of a kind in a project of a tenant.
func (w *world) caller(kind identity.Kind, tenant, project, subject string) caller {
	w.t.Helper()
	tok := identity.Token{Kind: kind, Tenant: tenant, Project: project, Subject: subject, Salt: "salt"}
	if kind == identity.Owner || kind == identity.User {
		tok.Email, tok.Name = subject+"@example.com", subject
	}
	if kind == identity.Runner {
		tok.Turn, tok.Epoch = "018f0000-0000-7000-8000-000000000001", 1
	}
	if kind == identity.Task {
		// A task's own row says which of its lives its token belongs to.
		if it, err := w.store.Get(w.t.Context(), store.For(tenant).Task(id.Task(subject)).Meta()); err == nil {
			var t task.Task
			if err := json.Unmarshal(it.Doc, &t); err != nil {
				w.t.Fatal(err)
			}
			tok.Salt = t.Salt
		}
	}
	text := identity.Text(w.Key, tok)
	tok.Hash = identity.Hash(text)
	doc, err := json.Marshal(tok)
	if err != nil {
		w.t.Fatal(err)
	}
	err = w.store.Transact(w.t.Context(), store.Write{Act: store.Put, Item: store.Item{
		Key: store.For(tenant).Token(tok.Hash), Attr: store.Attr{store.AttrType: "token", "schema": int64(1)}, Doc: doc,
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	if kind == identity.User { // one who may do all that a person of the team may
		if err := w.AddMember(w.t.Context(), tenant, project, tok.Email, tok.Name, app.RoleAdmin); err != nil {
			w.t.Fatal(err)
		}
	}
	return caller{name: string(kind), text: text, who: identity.Caller{
		Kind: kind, Tenant: tenant, Project: project, Subject: subject, Email: tok.Email, Name: tok.Name, Hash: tok.Hash,
		Turn: tok.Turn, Epoch: tok.Epoch,
	}}
}

// do makes a call of a use case that must succeed, and decodes what it answers.
func do[T any](w *world, c caller, name string, in map[string]any) T {
	w.t.Helper()
	o := w.op(name)
	raw, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := o.Call(w.t.Context(), w.App, app.Call{Who: c.who, Key: w.key(), Operation: id.Gen{Rand: rand.Reader}.New()}, raw)
	if err != nil {
		w.t.Fatalf("%s %s: %v", name, raw, err)
	}
	b, err := json.Marshal(out)
	if err != nil {
		w.t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		w.t.Fatalf("%s answered %s: %v", name, b, err)
	}
	return v
}

// op finds an operation by its command or its tool.
func (w *world) op(name string) op.Op {
	w.t.Helper()
	o, ok := w.ops.Command(name)
	if !ok {
		if o, ok = w.ops.Tool(name); !ok {
			w.t.Fatalf("the catalogue has no %s", name)
		}
	}
	return o
}

func (w *world) key() string { return "key-" + strconv.FormatInt(w.calls.Add(1), 10) }

// answer is what a call came to.
type answer struct {
	status        int
	code          string // of the refusal, "" when there was none
	confirm       string // the code to confirm it with, where that was asked for
	body          string
	reads, writes int64
}

func (a answer) String() string {
	return strconv.Itoa(a.status) + " " + a.code + ", " + strconv.FormatInt(a.reads, 10) + " reads, " +
		strconv.FormatInt(a.writes, 10) + " writes: " + a.body
}

// post sends a request as a caller and counts what it did to the store. Calls are
// made one at a time.
func (w *world) post(c caller, path string, in any) answer {
	w.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+c.text)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set(names.HeaderIdempotency, w.key())
	q.Header.Set(names.HeaderHold, "1")
	reads, writes := w.store.reads.Load(), w.store.writes.Load()
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		w.t.Fatal(err)
	}
	a := answer{
		status: resp.StatusCode, body: string(b), code: codeOf(b), confirm: confirmOf(b),
		reads: w.store.reads.Load() - reads, writes: w.store.writes.Load() - writes,
	}
	return a
}

// codeOf reads the code of a refusal from either surface's form of it.
func codeOf(body []byte) string {
	type failure struct{ Code string }
	var v struct {
		Error             json.RawMessage
		Fields            []any
		StructuredContent struct{ Error failure }
		IsError           bool
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return "no JSON: " + string(body)
	}
	var f failure
	if json.Unmarshal(v.Error, &f) == nil && f.Code != "" {
		return f.Code
	}
	switch {
	case len(v.Fields) > 0:
		return "invalid_arguments"
	case v.IsError:
		return v.StructuredContent.Error.Code
	}
	return ""
}

// confirmOf reads the code that a tool's first call of two answers with.
func confirmOf(body []byte) string {
	var v struct {
		StructuredContent struct {
			Code string `json:"confirmation_code"`
		}
	}
	_ = json.Unmarshal(body, &v) // another form has none
	return v.StructuredContent.Code
}

// call makes the call of an operation on the surface of its caller. It is false
// where that surface does not have it.
func (w *world) call(c caller, o op.Op, in map[string]any) (answer, bool) {
	w.t.Helper()
	switch c.who.Kind {
	case identity.Builder:
		return w.tool(c, o, "_", in)
	case identity.Task:
		return w.tool(c, o, c.who.Subject, in)
	default:
		if o.Name == "" {
			return answer{}, false
		}
		return w.post(c, "/rpc/"+o.Name, in), true
	}
}

func (w *world) tool(c caller, o op.Op, segment string, in map[string]any) (answer, bool) {
	w.t.Helper()
	if o.Tool == "" {
		return answer{}, false
	}
	return w.post(c, "/mcp/"+segment+"/"+o.Tool, map[string]any{"arguments": in}), true
}

// without replaces a word of a body, so that two answers can be compared.
func without(body, word string) string {
	return strings.NewReplacer(word, "…", strings.ToUpper(word), "…").Replace(body)
}
