package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/mcpserver"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// The bar is a call with authentication and one store read at 1.3 times the bare
// SDK (DESIGN 11): compare MCPCall with BareSDK. MCPProtocol is the same call
// through the protocol's own route.

const benchRPC = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lazy_read","arguments":{}}}`

// reading replaces the rig's catalogue by one tool that reads one row.
func reading(b *testing.B) *rig {
	b.Helper()
	r := newRig(b)
	r.cfg.Log = slog.New(slog.DiscardHandler)
	r.cfg.Ops = op.New(op.Define(op.Op{Tool: "lazy_read", Doc: "Read.", Effect: op.Read, Builder: true},
		func(ctx context.Context, a *app.App, _ app.Call, _ none) (map[string]any, error) {
			it, err := a.Store.Get(ctx, store.For(tenant).Task(taskA).Meta())
			if err != nil {
				return nil, err
			}
			var out map[string]any
			err = json.Unmarshal(it.Doc, &out)
			return out, err
		}))
	return r
}

// calls posts one body over and over on one connection.
func calls(b *testing.B, s *httptest.Server, path, token, body, want string) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		once(b, s, path, token, body, want)
	}
}

func once(b *testing.B, s *httptest.Server, path, token, body, want string) {
	b.Helper()
	q, err := http.NewRequestWithContext(b.Context(), "POST", s.URL+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := s.Client().Do(q)
	if err != nil {
		b.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(got), want) {
		b.Fatalf("%d %s %v", resp.StatusCode, got, err)
	}
}

// BenchmarkCall prints the protocol's own route over the bare SDK, call by call in
// turns, so that both meet the same load.
func BenchmarkCall(b *testing.B) {
	r := reading(b)
	ours := httptest.NewServer(mcpserver.New(r.cfg))
	b.Cleanup(ours.Close)
	theirs := bare(b, r)
	var a, z time.Duration
	for b.Loop() {
		began := time.Now()
		once(b, ours, "/mcp/_", r.tokens["builder"], benchRPC, "fix-login")
		a += time.Since(began)
		began = time.Now()
		once(b, theirs, "/", "", benchRPC, "fix-login")
		z += time.Since(began)
	}
	b.ReportMetric(a.Seconds()/z.Seconds(), "x-bare")
}

func BenchmarkMCPCall(b *testing.B) {
	r := reading(b)
	s := httptest.NewServer(mcpserver.New(r.cfg))
	b.Cleanup(s.Close)
	calls(b, s, "/mcp/_/lazy_read", r.tokens["builder"], `{"arguments":{}}`, "fix-login")
}

func BenchmarkMCPProtocol(b *testing.B) {
	r := reading(b)
	s := httptest.NewServer(mcpserver.New(r.cfg))
	b.Cleanup(s.Close)
	calls(b, s, "/mcp/_", r.tokens["builder"], benchRPC, "fix-login")
}

func BenchmarkBareSDK(b *testing.B) {
	calls(b, bare(b, reading(b)), "/", "", benchRPC, "fix-login")
}

// bare serves the same answer through the SDK alone.
func bare(b *testing.B, r *rig) *httptest.Server {
	b.Helper()
	it, err := r.store.Get(b.Context(), store.For(tenant).Task(taskA).Meta())
	if err != nil {
		b.Fatal(err)
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	mcp.AddTool(srv, &mcp.Tool{Name: "lazy_read"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, map[string]any, error) {
		var out map[string]any
		err := json.Unmarshal(it.Doc, &out)
		return nil, out, err
	})
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, &mcp.StreamableHTTPOptions{Stateless: true}))
	b.Cleanup(s.Close)
	return s
}
