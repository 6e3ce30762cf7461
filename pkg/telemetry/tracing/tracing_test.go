package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
	"github.com/lazyplane/lazyplane/pkg/telemetry/tracing"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

const aTurn = id.Turn("0198f3c0-7c2d-7e65-9a1f-0d2c4b6e8f10")

// collector keeps what it is sent.
type collector struct {
	mu     sync.Mutex
	bodies []string // guarded by mu
	status int
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.bodies = append(c.bodies, r.URL.Path+" "+string(b))
	c.mu.Unlock()
	if c.status != 0 {
		w.WriteHeader(c.status)
	}
}

func (c *collector) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.bodies, "\n")
}

type spanned struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	Links                               []struct{ TraceID string }
	Status                              struct{ Code int }
}

func (c *collector) spans(t *testing.T) []spanned {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []spanned
	for _, b := range c.bodies {
		_, body, _ := strings.Cut(b, " ")
		var in struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []spanned }
			}
		}
		if err := json.Unmarshal([]byte(body), &in); err != nil {
			t.Fatal(err)
		}
		for _, r := range in.ResourceSpans {
			for _, s := range r.ScopeSpans {
				all = append(all, s.Spans...)
			}
		}
	}
	return all
}

func start(t *testing.T) (*tracing.Tracer, *collector) {
	t.Helper()
	c := &collector{}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	return tracing.New(tracing.Options{Exporter: tracing.OTLP(srv.URL+"/", srv.Client()), Service: "lazyplane-test", Stage: "prod"}), c
}

func TestWhatIsDoneForATurnHasOneTrace(t *testing.T) {
	tr, c := start(t)
	var lines bytes.Buffer
	log := telemetry.New(&lines, telemetry.Options{})
	// A person begins the turn, and the request says so.
	api := httptest.NewServer(tr.HTTP("rpc", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(names.HeaderOperation, string(aTurn))
		log.InfoContext(r.Context(), "request")
		w.WriteHeader(http.StatusAccepted)
	})))
	defer api.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api.URL+"/rpc/startTask", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := api.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	// Its flow calls a step.
	step := tr.Step(func(ctx context.Context, _ []byte) ([]byte, error) {
		log.InfoContext(ctx, "step")
		return nil, fault.New(fault.Unavailable, "not now")
	})
	if _, err := step(t.Context(), []byte(`{"v":1,"step":"prepare.v1","tenant":"acme","turn":"`+string(aTurn)+`"}`)); err == nil {
		t.Fatal("the step's error is gone")
	}
	// Its supervisor beats.
	runner := httptest.NewServer(tr.HTTP("runner", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.InfoContext(r.Context(), "beat")
		_, _ = w.Write([]byte(`{}`))
	})))
	defer runner.Close()
	rc := &client.RunnerClient{Base: runner.URL, Token: "x", HTTP: runner.Client()}
	if _, err := rc.Beat(t.Context(), turn.BeatIn{Turn: aTurn, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	trace := strings.ReplaceAll(string(aTurn), "-", "")
	got := map[string]spanned{}
	for _, s := range c.spans(t) {
		got[s.Name] = s
	}
	if len(got) != 3 {
		t.Fatalf("spans %v", got)
	}
	if s := got["rpc"]; s.TraceID == trace || len(s.Links) != 1 || s.Links[0].TraceID != trace || s.Kind != 2 {
		t.Errorf("the request that began the turn: %+v", s)
	}
	if s := got["step"]; s.TraceID != trace || s.Status.Code != 2 || s.Kind != 5 {
		t.Errorf("the step: %+v", s)
	}
	if s := got["runner"]; s.TraceID != trace || s.ParentSpanID == "" {
		t.Errorf("the beat: %+v", s)
	}
	in := 0
	for line := range strings.Lines(lines.String()) {
		var m map[string]string
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m["trace"] == trace && m["span"] != "" {
			in++
		}
		if m["msg"] == "step" && (m["tenant"] != "acme" || m["turn"] != string(aTurn)) {
			t.Errorf("the line of the step: %v", m)
		}
	}
	if in != 2 {
		t.Errorf("%d lines name the trace:\n%s", in, lines.String())
	}
}

func TestNoCanaryGetsIntoASpan(t *testing.T) {
	req.Covers(t, "P8")
	tr, c := start(t)
	const secret = "lzy_task_acme_c4n4ryc4n4ryc4n4ry_ab12"
	h := tr.HTTP("mcp", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(names.HeaderOperation, secret)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	r := httptest.NewRequestWithContext(t.Context(), "C4N4RY", "/mcp/"+secret+"/lazy_status?q="+secret, strings.NewReader(secret))
	for _, k := range []string{"Authorization", names.HeaderTurn, names.HeaderTrace, "Tracestate", "Baggage", names.HeaderIdempotency} {
		r.Header.Set(k, secret)
	}
	h.ServeHTTP(httptest.NewRecorder(), r)
	step := tr.Step(func(context.Context, []byte) ([]byte, error) { return nil, errors.New("with " + secret) })
	_, _ = step(t.Context(), []byte(`{"step":"`+secret+`","tenant":"`+secret+`","turn":"`+secret+`"}`))
	_, _ = tr.Batch(t.Context(), func(context.Context) (any, error) { return nil, errors.New(secret) })
	if n := len(c.spans(t)); n != 3 {
		t.Fatalf("%d spans", n)
	}
	if strings.Contains(strings.ToLower(c.all()), "c4n4ry") {
		t.Errorf("a secret got out:\n%s", c.all())
	}
}

func TestACollectorThatFailsIsNobodysFailure(t *testing.T) {
	tr, c := start(t)
	c.status = http.StatusServiceUnavailable
	w := httptest.NewRecorder()
	tr.HTTP("rpc", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("fine"))
		w.(http.Flusher).Flush()
	})).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/rpc/x", nil))
	if w.Code != http.StatusOK || w.Body.String() != "fine" || !w.Flushed {
		t.Errorf("answered %d %q", w.Code, w.Body)
	}
}

func TestWithoutACollectorALineStillNamesTheTrace(t *testing.T) {
	tr := tracing.New(tracing.Options{Exporter: tracing.OTLP("", nil)})
	var b bytes.Buffer
	log := telemetry.New(&b, telemetry.Options{})
	step := tr.Step(func(ctx context.Context, _ []byte) ([]byte, error) {
		log.InfoContext(ctx, "step")
		return []byte("{}"), nil
	})
	if out, err := step(t.Context(), []byte(`{"turn":"`+string(aTurn)+`"}`)); err != nil || string(out) != "{}" {
		t.Fatalf("%s, %v", out, err)
	}
	if !strings.Contains(b.String(), strings.ReplaceAll(string(aTurn), "-", "")) {
		t.Errorf("got %s", b.String())
	}
}
