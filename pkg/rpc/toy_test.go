package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/rpc"
)

// population is the set of credentials the tests present, by their text.
type population map[string]identity.Caller

func (p population) Authenticate(_ context.Context, bearer, surface string) (identity.Caller, error) {
	who, ok := p[bearer]
	switch {
	case !ok:
		return who, refusal.Of(refusal.Unauthenticated)
	case who.Kind == identity.Task || who.Kind == identity.Builder || who.Kind == identity.Runner:
		return who, refusal.Of(refusal.WrongSurface, string(who.Kind), "/"+surface)
	}
	return who, nil
}

func people() population {
	return population{
		"owner":    {Kind: identity.Owner, Tenant: "local", Project: "p", Email: "ada@x.org", Name: "Ada"},
		"user":     {Kind: identity.User, Tenant: "local", Project: "p", Email: "bob@x.org", Name: "Bob"},
		"operator": {Kind: identity.Operator, Tenant: "local", Project: "p"},
		"task":     {Kind: identity.Task, Tenant: "local", Project: "p"},
		"builder":  {Kind: identity.Builder, Tenant: "local", Project: "p"},
		"runner":   {Kind: identity.Runner, Tenant: "local", Project: "p"},
	}
}

// toy is a plane with a small catalogue whose handlers the test steers.
type toy struct {
	mu      sync.Mutex
	calls   []app.Call // guarded by mu
	started chan struct{}
	release chan struct{}
	ended   chan error // the context's state when a slow call ended
	log     syncBuffer
	ids     int // guarded by mu
}

func newToy() *toy {
	return &toy{started: make(chan struct{}, 64), release: make(chan struct{}), ended: make(chan error, 64)}
}

func (y *toy) saw(c app.Call) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.calls = append(y.calls, c)
}

func (y *toy) last(t *testing.T) app.Call {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.calls) == 0 {
		t.Fatal("no handler ran")
	}
	return y.calls[len(y.calls)-1]
}

func (y *toy) count() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.calls)
}

func (y *toy) newID() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.ids++
	return fmt.Sprintf("01890000-0000-7000-8000-%012d", y.ids)
}

type textIn struct {
	Text string `json:"text" jsonschema:"any text"`
}

type failIn struct {
	How string `json:"how" jsonschema:"which error"`
}

type none struct{}

// failures are the ways a handler can fail.
func failures() map[string]error {
	m := map[string]error{
		"plain":   errors.New("read row 7: the disk at /secret is on fire"),
		"wrapped": fmt.Errorf("load task: %w", refusal.Of(refusal.NotFound, "task", "x")),
		"busy":    refusal.Of(refusal.TaskBusy, "t", "working", "Ada", "noon"),
	}
	for _, k := range fault.Kinds() {
		m[string(k)] = fault.New(k, "a fault of kind %s", k)
	}
	return m
}

func (y *toy) catalogue() *op.Catalogue {
	all := []identity.Kind{identity.Owner, identity.User, identity.Operator}
	return op.New(
		op.Define(op.Op{Name: "echo", Doc: "Say it back.", Effect: op.Read, People: all},
			func(_ context.Context, _ *app.App, c app.Call, in textIn) (textIn, error) {
				y.saw(c)
				return in, nil
			}),
		op.Define(op.Op{Name: "fail", Doc: "Fail.", Effect: op.Read, People: all},
			func(_ context.Context, _ *app.App, c app.Call, in failIn) (none, error) {
				y.saw(c)
				if in.How == "panic" {
					panic("lzy_owner_secret in a panic")
				}
				return none{}, failures()[in.How]
			},
			func(s *jsonschema.Schema) { op.Prop(s, "how").MaxLength = new(20) }),
		op.Define(op.Op{Name: "slow", Doc: "Take long.", Effect: op.Read, Long: true, People: all},
			func(ctx context.Context, _ *app.App, c app.Call, _ none) (textIn, error) {
				y.saw(c)
				y.started <- struct{}{}
				select {
				case <-y.release:
				case <-ctx.Done():
				}
				y.ended <- ctx.Err()
				return textIn{"done"}, ctx.Err()
			}),
		op.Define(op.Op{Name: "awaitOperation", Doc: "Await.", Effect: op.Read, Long: true, People: all},
			func(_ context.Context, _ *app.App, c app.Call, in awaitIn) (app.Progress, error) {
				y.saw(c)
				return progress(in.Operation, in.Cursor), nil
			}),
		op.Define(op.Op{Name: "provision", Doc: "Provision.", Effect: op.Read, People: []identity.Kind{identity.Operator}},
			func(_ context.Context, _ *app.App, c app.Call, _ none) (none, error) {
				y.saw(c)
				return none{}, nil
			}),
		op.Define(op.Op{Name: "decide", Doc: "Decide.", Effect: op.Read, People: []identity.Kind{identity.Owner, identity.User}},
			func(_ context.Context, _ *app.App, c app.Call, _ none) (none, error) {
				y.saw(c)
				return none{}, nil
			}),
	)
}

type awaitIn struct {
	Operation string `json:"operation_id" jsonschema:"the operation"`
	Cursor    string `json:"cursor,omitempty" jsonschema:"where to go on"`
}

// progress is the story of an operation in three hops.
func progress(operation, cursor string) app.Progress {
	p := app.Progress{Operation: operation}
	switch cursor {
	case "":
		p.Cursor = "1"
		p.Phases = []app.Phase{{N: 1, Of: 2, Name: "prepare", State: "done"}}
	case "1":
		p.Cursor = "2"
		p.Phases = []app.Phase{{N: 2, Of: 2, Name: "land", State: "started"}}
	default:
		p.Cursor = "3"
		p.Done = true
		p.Phases = []app.Phase{{N: 2, Of: 2, Name: "land", State: "done"}}
		p.Result = []byte(`{"text":"landed"}`)
		if operation == "bad" {
			p.Result = nil
			p.Error = refusal.Of(refusal.AcceptCheckFailed, "failed", "make test", "t", "blocked")
		}
	}
	return p
}

func (y *toy) config() rpc.Config {
	return rpc.Config{
		Base: edge.Base{Log: slog.New(slog.NewJSONHandler(&y.log, nil)), Now: time.Now, NewID: y.newID, Hop: time.Minute},
		Auth: people(), App: app.New(app.Deps{}), Ops: y.catalogue(),
		Status: rpc.Status{Version: "1.2.3", SourceID: "s", CodeSHA: "c", Generation: "g", ProjectRoot: "/r"},
	}
}

func (y *toy) serve(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(rpc.New(y.config()))
	t.Cleanup(s.Close)
	return s
}

// do sends one request and returns the answer, whose body the caller closes.
func do(t *testing.T, s *httptest.Server, method, path, token, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// syncBuffer is a log that handlers write at once.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
