package rpc_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/rpc"
)

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEveryRouteIsServedAsItsClassSays(t *testing.T) {
	req.Covers(t, "RP-001", "RP-002")
	y := newToy()
	c := y.config()
	c.Shutdown = func() {}
	s := httptest.NewServer(rpc.New(c))
	t.Cleanup(s.Close)
	routes := rpc.Routes(c)
	if len(routes) != 3 {
		t.Fatalf("%d routes; add the new one to this test", len(routes))
	}
	for _, r := range routes {
		method, path, ok := strings.Cut(r.Pattern, " ")
		if !ok {
			t.Fatalf("%q has no method", r.Pattern)
		}
		path = strings.ReplaceAll(path, "{command}", "echo")
		plain := do(t, s, method, path, "owner", `{"text":"x"}`)
		framed := do(t, s, method, path, "owner", `{"text":"x"}`, names.HeaderHeartbeat, "1")
		if got := plain.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: a plain answer is %q", r.Pattern, got)
		}
		isFramed := framed.Header.Get("Content-Type") == envelope.ContentType
		switch r.Class {
		case edge.Framed:
			if !isFramed {
				t.Errorf("%s is framed and has no envelope", r.Pattern)
			}
		case edge.Bounded:
			if isFramed {
				t.Errorf("%s is bounded and has an envelope", r.Pattern)
			}
		default:
			t.Errorf("%s has class %q", r.Pattern, r.Class)
		}
		_, _ = body(t, plain), body(t, framed)
	}
}

func TestRouterRefusesARouteWithoutAClass(t *testing.T) {
	req.Covers(t, "RP-001")
	for name, r := range map[string]edge.Route{
		"no class":  {Pattern: "GET /x", Handler: http.NotFoundHandler()},
		"no method": {Pattern: "/x", Class: edge.Bounded, Handler: http.NotFoundHandler()},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was accepted", name)
				}
			}()
			edge.Router(r)
		}()
	}
}

func TestEverythingElseIsAConstant404(t *testing.T) {
	y := newToy()
	c := y.config()
	c.Auth, c.App, c.Ops = nil, nil, nil // any use of them would panic
	s := httptest.NewServer(rpc.New(c))
	t.Cleanup(s.Close)
	want := ""
	for _, a := range [][2]string{
		{"GET", "/"},
		{"GET", "/rpc/echo"},
		{"POST", "/rpc/echo/more"},
		{"POST", "/rpc/"},
		{"DELETE", "/daemon/status"},
		{"POST", "/daemon/shutdown"}, // no process to end here
		{"GET", "/lzy_owner_local_secret"},
		{"GET", "//lzy_owner_local_secret"},
		{"GET", "/x/../lzy_owner_local_secret"},
	} {
		r := do(t, s, a[0], a[1], "owner", "", names.HeaderHeartbeat, "1")
		got := body(t, r)
		if r.StatusCode != 404 || r.Request.URL.Path != a[1] {
			t.Errorf("%s %s: status %d at %s", a[0], a[1], r.StatusCode, r.Request.URL.Path)
		}
		if want == "" {
			want = got
		}
		if got != want || strings.Contains(got, "lzy_") {
			t.Errorf("%s %s: %q", a[0], a[1], got)
		}
	}
	if y.log.String() != "" {
		t.Errorf("it was logged: %s", y.log.String())
	}
}

func TestRefusalsBeforeTheFirstByteAreRealStatuses(t *testing.T) {
	req.Covers(t, "RP-003", "OT-049", "ID-003", "CM-004")
	y := newToy()
	s := y.serve(t)
	big := `{"text":"` + strings.Repeat("x", names.BodyMax-len(`{"text":""}`)) + `"}`
	for name, c := range map[string]struct {
		command, token, body string
		header               []string
		status               int
		code                 string
	}{
		"no token":               {"echo", "", `{"text":"x"}`, nil, 401, "unauthenticated"},
		"unknown token":          {"echo", "nobody", `{"text":"x"}`, nil, 401, "unauthenticated"},
		"task token":             {"echo", "task", `{"text":"x"}`, nil, 401, "wrong_surface"},
		"builder token":          {"echo", "builder", `{"text":"x"}`, nil, 401, "wrong_surface"},
		"runner token":           {"echo", "runner", `{"text":"x"}`, nil, 401, "wrong_surface"},
		"unknown command":        {"nope", "owner", `{}`, nil, 404, "not_found"},
		"no JSON":                {"echo", "owner", `{"text":`, nil, 400, "invalid_arguments"},
		"two values":             {"echo", "owner", `{"text":"x"}]`, nil, 400, "invalid_arguments"},
		"an array":               {"echo", "owner", `[]`, nil, 400, "invalid_arguments"},
		"missing field":          {"echo", "owner", ``, nil, 400, "invalid_arguments"},
		"wrong type":             {"echo", "owner", `{"text":1}`, nil, 400, "invalid_arguments"},
		"unlisted field":         {"echo", "owner", `{"text":"x","force":true}`, nil, 400, "invalid_arguments"},
		"unreadable hold":        {"echo", "owner", `{"text":"x"}`, []string{names.HeaderHold, "soon"}, 400, "invalid_arguments"},
		"unreadable key":         {"echo", "owner", `{"text":"x"}`, []string{names.HeaderIdempotency, "a b"}, 400, "invalid_arguments"},
		"operator on a person's": {"decide", "operator", `{}`, nil, 403, "operator_not_a_person"},
		"person on operator's":   {"provision", "user", `{}`, nil, 403, "control_only"},
		"body over the limit":    {"echo", "owner", big + " ", nil, 413, "body_too_large"},
	} {
		h := append([]string{names.HeaderHeartbeat, "1"}, c.header...)
		r := do(t, s, "POST", "/rpc/"+c.command, c.token, c.body, h...)
		got := body(t, r)
		f := envelope.Reply{Status: r.StatusCode, Body: []byte(got)}.Fault()
		if r.StatusCode != c.status || f == nil || f.Code != c.code {
			t.Errorf("%s: %d %.200s", name, r.StatusCode, got)
		}
		if strings.Contains(got, "lazyEnvelope") {
			t.Errorf("%s: an envelope was opened", name)
		}
		if id := r.Header.Get(names.HeaderRequest); id == "" {
			t.Errorf("%s: no request id", name)
		}
	}
	if n := y.count(); n != 0 {
		t.Errorf("%d refused requests reached a handler", n)
	}
	if r := do(t, s, "POST", "/rpc/echo", "owner", big); r.StatusCode != 200 {
		t.Errorf("a body of exactly the limit: %d", r.StatusCode)
	}
}

func TestErrorsKeepTheirStatusPlainAndFramed(t *testing.T) {
	req.Covers(t, "RP-004", "RP-011", "OT-022")
	y := newToy()
	s := y.serve(t)
	for how, err := range failures() {
		in := `{"how":"` + how + `"}`
		plain := do(t, s, "POST", "/rpc/fail", "owner", in)
		if plain.StatusCode != fault.HTTP(err) {
			t.Errorf("%s: plain status %d, want %d", how, plain.StatusCode, fault.HTTP(err))
		}
		framed := do(t, s, "POST", "/rpc/fail", "owner", in, names.HeaderHeartbeat, "1")
		if framed.StatusCode != 200 {
			t.Errorf("%s: a framed reply has status %d of its own", how, framed.StatusCode)
		}
		reply, rerr := envelope.Read(framed.Body, nil)
		if rerr != nil || reply.Status != plain.StatusCode {
			t.Errorf("%s: framed %d %v, plain %d", how, reply.Status, rerr, plain.StatusCode)
		}
		a := envelope.Reply{Status: plain.StatusCode, Body: []byte(body(t, plain))}.Fault()
		b := reply.Fault()
		if a.Code != b.Code || a.Public != b.Public || a.Kind != b.Kind || a.Kind != fault.KindOf(err) {
			t.Errorf("%s: plain %+v, framed %+v", how, a, b)
		}
		if strings.Contains(a.Public, "secret") || strings.Contains(string(reply.Body), "secret") {
			t.Errorf("%s: the cause leaked", how)
		}
	}
}

func TestPanicIsA500ThatSaysOnlyTheRequest(t *testing.T) {
	y := newToy()
	s := y.serve(t)
	for _, h := range [][]string{nil, {names.HeaderHeartbeat, "1"}} {
		before := strings.Count(y.log.String(), "\n")
		r := do(t, s, "POST", "/rpc/fail", "owner", `{"how":"panic"}`, h...)
		got := body(t, r)
		if !strings.Contains(got, `"internal error"`) || !strings.Contains(got, r.Header.Get(names.HeaderRequest)) || strings.Contains(got, "lzy_") {
			t.Errorf("%s", got)
		}
		lines := strings.Split(y.log.String(), "\n")[before:]
		if len(lines) != 2 || !strings.Contains(lines[0], "panic: ") || !strings.Contains(lines[0], `"level":"ERROR"`) {
			t.Errorf("logged %q", lines)
		}
	}
}

func TestOnlyAnOwnerSaysInWhichRoleAndNobodySaysWho(t *testing.T) {
	req.Covers(t, "ID-014", "CM-001", "ID-002")
	y := newToy()
	s := y.serve(t)
	for _, c := range []struct {
		token, as, body string
		status          int
		want            identity.Actor
	}{
		{"owner", "", `{"text":"x"}`, 200, identity.Actor{Role: identity.Human, Email: "ada@x.org", Name: "Ada"}},
		{"owner", "builder", `{"text":"x"}`, 200, identity.Actor{Role: identity.BuilderRole}},
		{"owner", "human", `{"text":"x"}`, 200, identity.Actor{Role: identity.Human, Email: "ada@x.org", Name: "Ada"}},
		{"owner", "bob@x.org", `{"text":"x"}`, 403, identity.Actor{}},
		{"owner", "", `{"text":"x","actor":"builder"}`, 403, identity.Actor{}},
		{"owner", "", `{"text":"x","actor_email":"bob@x.org"}`, 403, identity.Actor{}},
		{"user", "builder", `{"text":"x"}`, 403, identity.Actor{}},
		{"user", "", `{"text":"x","actor_name":"Ada"}`, 403, identity.Actor{}},
		{"user", "", `{"text":"x","tenant":"other"}`, 403, identity.Actor{}},
		{"operator", "human", `{"text":"x"}`, 403, identity.Actor{}},
		{"operator", "", `{"actor_email":"ada@x.org"}`, 403, identity.Actor{}},
	} {
		before := y.count()
		r := do(t, s, "POST", "/rpc/echo", c.token, c.body, names.HeaderActor, c.as)
		got := body(t, r)
		if r.StatusCode != c.status {
			t.Errorf("%s as %q %s: %d %s", c.token, c.as, c.body, r.StatusCode, got)
			continue
		}
		if c.status != 200 {
			if !strings.Contains(got, `"actor_named"`) || y.count() != before {
				t.Errorf("%s as %q %s: %s", c.token, c.as, c.body, got)
			}
			continue
		}
		if a := y.last(t).Actor(); a != c.want {
			t.Errorf("%s as %q: recorded as %+v", c.token, c.as, a)
		}
	}
}

func TestStatusNeedsNothing(t *testing.T) {
	req.Covers(t, "RP-018", "RP-019")
	y := newToy()
	c := y.config()
	c.Base, c.Auth, c.App, c.Ops = edge.Base{}, nil, nil, nil // neither store, clock, log nor ids
	s := httptest.NewServer(rpc.New(c))
	t.Cleanup(s.Close)
	for range 2 {
		r := do(t, s, "GET", "/daemon/status", "", "", names.HeaderHeartbeat, "1")
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%d %s", r.StatusCode, r.Header.Get("Content-Type"))
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(body(t, r)), &got); err != nil {
			t.Fatal(err)
		}
		url, has := got["dashboardUrl"]
		if got["version"] != "1.2.3" || got["sourceId"] != "s" || got["codeSha"] != "c" || got["generation"] != "g" || got["projectRoot"] != "/r" || !has || url != nil {
			t.Errorf("got %v", got)
		}
	}
}

func TestShutdownIsTheOwnersAndAnswersFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToy()
		c := y.config()
		stopped := make(chan time.Time, 1)
		c.Shutdown = func() { stopped <- time.Now() }
		h := rpc.New(c)
		for token, want := range map[string]int{"": 401, "task": 401, "user": 403, "operator": 403, "owner": 200} {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/daemon/shutdown", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			h.ServeHTTP(w, r)
			if w.Code != want || len(stopped) != 0 {
				t.Errorf("%q: %d, stopped %d times", token, w.Code, len(stopped))
			}
			if want == 200 {
				at := time.Now()
				if after := (<-stopped).Sub(at); after != names.ShutdownTimer {
					t.Errorf("stopped after %s", after)
				}
			}
			time.Sleep(time.Second)
		}
	})
}

func TestOneLogLineARequestWithoutBodiesAndTokens(t *testing.T) {
	y := newToy()
	s := y.serve(t)
	do(t, s, "POST", "/rpc/echo", "owner", `{"text":"canary-in-body"}`, names.HeaderHeartbeat, "1")
	do(t, s, "POST", "/rpc/echo", "lzy_owner_local_canary", `{"text":"x"}`)
	do(t, s, "POST", "/rpc/lzy_owner_local_canary", "owner", `{}`)
	s.Close()
	out := y.log.String()
	if n := strings.Count(out, "\n"); n != 3 {
		t.Errorf("%d lines: %s", n, out)
	}
	if strings.Contains(out, "canary") {
		t.Errorf("leaked: %s", out)
	}
	// A request is logged after its answer has left, so lines come in any order.
	var line map[string]any
	for text := range strings.Lines(out) {
		if strings.Contains(text, `"status":200`) {
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, k := range []string{"surface", "request", "status", "took", "command", "operation", "caller", "tenant", "project"} {
		if _, ok := line[k]; !ok {
			t.Errorf("no %s in %v", k, line)
		}
	}
}
