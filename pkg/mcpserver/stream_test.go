package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/mcpserver"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// bearer adds a token to every request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// heard collects progress notifications.
type heard struct {
	mu  sync.Mutex
	got []mcp.ProgressNotificationParams // guarded by mu
}

func (h *heard) all() []mcp.ProgressNotificationParams {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// connect is an agent's client of the protocol.
func connect(t *testing.T, s *httptest.Server, segment, token string, h *heard) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if h != nil {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.got = append(h.got, *r.Params)
			}
		},
	})
	ses, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.URL + "/mcp/" + segment, HTTPClient: &http.Client{Transport: bearer{token}}, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ses.Close() })
	return ses
}

func toolNames(t *testing.T, ses *mcp.ClientSession) []string {
	t.Helper()
	l, err := ses.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range l.Tools {
		names = append(names, x.Name)
	}
	return names
}

func TestListsDependOnTheRoleAndTheTurn(t *testing.T) {
	req.Covers(t, "CM-027", "CM-028", "CM-029", "MC-027", "MC-025")
	r := newRig(t)
	s := r.serve(t)
	builder := toolNames(t, connect(t, s, "_", r.tokens["builder"], nil))
	agentSes := connect(t, s, string(taskA), r.tokens["a"], nil)
	agent := toolNames(t, agentSes)
	r.putTask(t, task.Task{ID: taskA, Code: "fix-login", Status: task.Working, Epoch: 4, Claimed: true, TurnKind: "ask"})
	asked := toolNames(t, agentSes)
	reads := []string{"lazy_echo", "lazy_fail", "lazy_slow", "lazy_active"}
	for name, c := range map[string]struct{ got, want []string }{
		"builder":   {builder, append(slices.Clone(reads), "lazy_memory_save", "lazy_accept", "lazy_wait")},
		"agent":     {agent, append(slices.Clone(reads), "lazy_commit", "lazy_accept", "lazy_wait")},
		"read-only": {asked, append(slices.Clone(reads), "lazy_wait")},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s is shown %v, want %v", name, c.got, c.want)
		}
	}
	l, err := agentSes.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(l.Tools[0].InputSchema)
	if err != nil || strings.Contains(string(b), `"secret"`) || !l.Tools[0].Annotations.ReadOnlyHint {
		t.Errorf("an agent's lazy_echo: %s %+v, %v", b, l.Tools[0].Annotations, err)
	}
}

func TestProtocolGivesTheSameAnswersAsTheToolRoute(t *testing.T) {
	req.Covers(t, "MC-025", "OT-022", "RP-011")
	r := newRig(t)
	s := r.serve(t)
	ses := connect(t, s, "_", r.tokens["builder"], nil)
	res, err := ses.CallTool(t.Context(), &mcp.CallToolParams{Name: "lazy_echo", Arguments: map[string]any{"message": "hi"}})
	if err != nil || res.IsError || fmt.Sprint(res.StructuredContent) != "map[message:hi]" || res.Content[0].(*mcp.TextContent).Text != `{"message":"hi"}` {
		t.Errorf("got %+v, %v", res, err)
	}
	for how, want := range failures() {
		res, err := ses.CallTool(t.Context(), &mcp.CallToolParams{Name: "lazy_fail", Arguments: map[string]any{"how": how}})
		if err != nil || !res.IsError {
			t.Errorf("%s: %+v, %v", how, res, err)
			continue
		}
		e := res.StructuredContent.(map[string]any)["error"].(map[string]any)
		text := res.Content[0].(*mcp.TextContent).Text
		if e["code"] != fault.Code(want) || !strings.HasPrefix(text, e["message"].(string)) || strings.Contains(fmt.Sprint(e, text), "secret") {
			t.Errorf("%s: %v %q", how, e, text)
		}
	}
	res, err = ses.CallTool(t.Context(), &mcp.CallToolParams{Name: "lazy_fail", Arguments: map[string]any{"how": "panic"}})
	if err != nil || !res.IsError || strings.Contains(fmt.Sprint(res.StructuredContent), "lzy_") {
		t.Errorf("a panic: %+v, %v", res, err)
	}
	res, err = ses.CallTool(t.Context(), &mcp.CallToolParams{Name: "lazy_commit", Arguments: map[string]any{"message": "m"}})
	if err != nil || !res.IsError || !strings.Contains(fmt.Sprint(res.StructuredContent), "agent_only") {
		t.Errorf("a hidden tool: %+v, %v", res, err)
	}
}

func TestArgumentFaultsAreInvalidParamsByProtocol(t *testing.T) {
	req.Covers(t, "RP-013", "RP-016", "OT-021")
	r := newRig(t)
	s := r.serve(t)
	ses := connect(t, s, string(taskA), r.tokens["a"], nil)
	before := r.count()
	for name, p := range map[string]*mcp.CallToolParams{
		"missing":      {Name: "lazy_commit"},
		"null":         {Name: "lazy_commit", Arguments: json.RawMessage("null")},
		"wrong type":   {Name: "lazy_commit", Arguments: map[string]any{"message": 1}},
		"unlisted":     {Name: "lazy_commit", Arguments: map[string]any{"message": "m", "force": true}},
		"no such tool": {Name: "lazy_frobnicate"},
		"reserved":     {Name: "lazy_internal_git", Arguments: map[string]any{"op": "merge"}},
	} {
		_, err := ses.CallTool(t.Context(), p)
		e, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		var data struct {
			Code    string
			Details map[string]any
		}
		if err := json.Unmarshal(e.Data, &data); err != nil || data.Code == "" {
			t.Errorf("%s: data %s, %v", name, e.Data, err)
		}
		if data.Code == "invalid_arguments" && data.Details["fields"] == nil {
			t.Errorf("%s lists no field: %s", name, e.Data)
		}
	}
	if r.count() != before {
		t.Errorf("%d handlers ran", r.count()-before)
	}
	if resp, body := post(t, s, "/mcp/_", r.tokens["builder"], "["+echoRPC+","+echoRPC+"]"); resp.StatusCode != 400 {
		t.Errorf("a batch: %d %s", resp.StatusCode, body)
	}
	if resp, _ := post(t, s, "/mcp/_", r.tokens["builder"], "{"); resp.StatusCode != 400 {
		t.Errorf("no JSON: %d", resp.StatusCode)
	}
}

func TestProgressCountsFromOneAndEndsBeforeTheResult(t *testing.T) {
	req.Covers(t, "MC-022")
	r := newRig(t)
	s := r.serve(t)
	r.tells(accepted("merged"))
	for _, token := range []any{nil, "tok", 7} {
		var h heard
		ses := connect(t, s, "_", r.tokens["builder"], &h)
		p := &mcp.CallToolParams{Name: "lazy_accept", Arguments: map[string]any{"confirmation_code": "c"}}
		if token != nil {
			p.Meta = mcp.Meta{}
			p.SetProgressToken(token)
		}
		res, err := ses.CallTool(t.Context(), p)
		if err != nil || res.IsError || fmt.Sprint(res.StructuredContent) != "map[merge_sha:abc]" {
			t.Fatalf("got %+v, %v", res, err)
		}
		if _, err := ses.CallTool(t.Context(), &mcp.CallToolParams{Name: "lazy_active"}); err != nil { // whatever came late would be here by now
			t.Fatal(err)
		}
		got := h.all()
		if token == nil {
			if len(got) != 0 {
				t.Errorf("progress without a token: %+v", got)
			}
			continue
		}
		if len(got) < 3 {
			t.Fatalf("token %v: heard %+v", token, got)
		}
		var said []string
		for i, n := range got {
			if n.Progress != float64(i+1) || fmt.Sprint(n.ProgressToken) != fmt.Sprint(token) {
				t.Errorf("token %v: notification %d is %+v", token, i, n)
			}
			said = append(said, n.Message)
		}
		if fmt.Sprint(said) != "[ 1/2 merge: done 2/2 clean up: started]" {
			t.Errorf("said %q", said)
		}
	}
}

// events reads a stream of events as they were timed.
func events(w *timed) (comments int, progress []time.Duration, result time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, line := range w.lines {
		switch {
		case strings.HasPrefix(line, ":"):
			comments++
		case strings.Contains(line, "notifications/progress"):
			progress = append(progress, w.at[i])
		case strings.Contains(line, `"result"`):
			result = w.at[i]
		}
	}
	return comments, progress, result
}

func TestProgressFlowsEveryFiveSecondsFromTheFirstByteOn(t *testing.T) {
	req.Covers(t, "MC-022", "MC-023")
	r := newRig(t)
	who, err := r.app.Authenticate(t.Context(), r.tokens["builder"], "mcp")
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.Auth = fixed{who}
	run := func(meta string) (int, []time.Duration, time.Duration) {
		w := &timed{header: http.Header{}}
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			r.release, r.started, r.ended = release, make(chan struct{}, 1), make(chan error, 1)
			w.began = time.Now()
			q := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp/_", strings.NewReader(
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lazy_slow","arguments":{}`+meta+`}}`))
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Accept", "application/json, text/event-stream")
			go func() {
				time.Sleep(12 * time.Second)
				close(release)
			}()
			mcpserver.New(r.cfg).ServeHTTP(w, q)
		})
		return events(w)
	}
	comments, progress, result := run(`,"_meta":{"progressToken":"p"}`)
	if comments != 1 || fmt.Sprint(progress) != "[0s 5s 10s]" || result != 12*time.Second {
		t.Errorf("with a token: %d comments, progress at %v, result at %s", comments, progress, result)
	}
	comments, progress, result = run("")
	if comments != 3 || len(progress) != 0 || result != 12*time.Second {
		t.Errorf("without a token: %d comments, progress at %v, result at %s", comments, progress, result)
	}
}

func TestFirstByteLeavesBeforeTheFirstEvent(t *testing.T) {
	req.Covers(t, "B40")
	r := newRig(t)
	s := httptest.NewUnstartedServer(mcpserver.New(r.cfg))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	q, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/mcp/_", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lazy_slow","arguments":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.tokens["builder"])
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := s.Client().Do(q) // comes back with the header, while the tool still works
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, ":") || resp.ProtoMajor != 2 || resp.Header.Get("Content-Type") != openedAs {
		t.Errorf("first line %q, %v over HTTP/%d, %v", line, err, resp.ProtoMajor, resp.Header)
	}
	<-r.started
	if len(r.ended) != 0 {
		t.Error("the tool had ended")
	}
	close(r.release)
}

func TestNeitherCancellingNorHangingUpStopsATool(t *testing.T) {
	req.Covers(t, "MC-024", "RP-006", "OT-025")
	r := newRig(t)
	s := r.serve(t)
	ses := connect(t, s, "_", r.tokens["builder"], nil)
	ctx, cancel := context.WithCancel(t.Context()) // the client sends notifications/cancelled and closes its response
	gone := make(chan error, 1)
	go func() {
		_, err := ses.CallTool(ctx, &mcp.CallToolParams{Name: "lazy_slow"})
		gone <- err
	}()
	<-r.started
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("the client got %v", err)
	}
	if resp, _ := post(t, s, "/mcp/_", r.tokens["builder"], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"no"}}`); resp.StatusCode != 202 {
		t.Errorf("the notification: %d", resp.StatusCode)
	}
	r.release <- struct{}{}
	if err := <-r.ended; err != nil {
		t.Errorf("the work saw %v", err)
	}
	s.Close()
	if !strings.Contains(r.log.String(), `"method":"notifications/cancelled"`) {
		t.Errorf("it was not logged: %s", r.log.String())
	}
}

func TestLongCallByProtocolDelaysNoOther(t *testing.T) {
	req.Covers(t, "MC-003")
	r := newRig(t)
	s := r.serve(t)
	ses := connect(t, s, "_", r.tokens["builder"], nil)
	done := make(chan error, 8)
	for range 8 {
		go func() {
			_, err := ses.CallTool(t.Context(), &mcp.CallToolParams{Name: "lazy_slow"})
			done <- err
		}()
	}
	for range 8 {
		<-r.started
	}
	for range 16 {
		if _, err := ses.CallTool(t.Context(), &mcp.CallToolParams{Name: "lazy_active"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(done) != 0 {
		t.Fatalf("%d long calls ended early", len(done))
	}
	close(r.release)
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestDirectCallIsHeldToItsOwnHop(t *testing.T) {
	req.Covers(t, "MC-025", "OT-023")
	r := newRig(t)
	r.tells(func(cursor string) app.Progress { return app.Progress{Operation: "o", Cursor: cursor + "x"} })
	var mu sync.Mutex
	clock := time.Unix(0, 0)
	r.cfg.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); clock = clock.Add(20 * time.Second); return clock }
	r.cfg.Hop, r.cfg.HopDirect = 25*time.Second, 50*time.Second
	s := r.serve(t)
	_, body := post(t, s, "/mcp/_", r.tokens["builder"], `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lazy_accept","arguments":{"confirmation_code":"c"}}}`)
	if r.last(t).Hold != 50*time.Second || !strings.Contains(body, `"pending":true`) || len(r.awoke) != 2 {
		t.Errorf("held %s, awaited %d times: %s", r.last(t).Hold, len(r.awoke), body)
	}
}

func TestProtocolRequestIsLoggedOnceWithoutSecrets(t *testing.T) {
	r := newRig(t)
	s := r.serve(t)
	post(t, s, "/mcp/_", r.tokens["builder"], strings.ReplaceAll(echoRPC, "hi", "canary-in-body"))
	post(t, s, "/mcp/_", r.tokens["builder"], strings.ReplaceAll(echoRPC, "lazy_echo", "lazy_fail"))
	s.Close()
	lines := strings.Split(strings.TrimSpace(r.log.String()), "\n")
	if len(lines) != 2 || strings.Contains(r.log.String(), "canary") || strings.Contains(r.log.String(), "lzy_") {
		t.Fatalf("logged %q", lines)
	}
	if !strings.Contains(lines[0], `"tool":"lazy_echo"`) || !strings.Contains(lines[0], `"method":"tools/call"`) || !strings.Contains(lines[1], "invalid_arguments") {
		t.Errorf("logged %q", lines)
	}
}

func TestSubscriptionHoldsNothing(t *testing.T) {
	r := newRig(t)
	s := r.serve(t)
	resp, body := post(t, s, "/mcp/_", r.tokens["builder"], `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},
		"io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	if resp.StatusCode != 200 || !strings.Contains(body, `"result"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
