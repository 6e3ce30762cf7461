package runnerapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runnerapi"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// runs records what reached the use cases and fails on demand.
type runs struct {
	got  []any
	who  identity.Caller
	fail error
}

func (r *runs) note(who identity.Caller, in any) error {
	r.got, r.who = append(r.got, in), who
	return r.fail
}

func (r *runs) Hello(_ context.Context, in turn.Hello) (turn.Welcome, error) {
	if in.Nonce == "panic" {
		panic("nonce")
	}
	return turn.Welcome{RunnerToken: "rt", TaskToken: "tt"}, r.note(identity.Caller{}, in)
}

func (r *runs) Beat(_ context.Context, who identity.Caller, in turn.BeatIn) (turn.BeatOut, error) {
	return turn.BeatOut{Stop: "drain", Steer: []string{"be brief"}}, r.note(who, in)
}

func (r *runs) Report(_ context.Context, who identity.Caller, in turn.Response) (turn.Ack, error) {
	return turn.Ack{Stored: true}, r.note(who, in)
}

func (r *runs) Upload(_ context.Context, who identity.Caller, in turn.UploadIn) (turn.UploadOut, error) {
	return turn.UploadOut{Get: make([]turn.Link, len(in.Get))}, r.note(who, in)
}

func (r *runs) Land(_ context.Context, who identity.Caller, in turn.LandIn) (turn.LandOut, error) {
	return turn.LandOut{Landed: in.Commit != "", Next: &turn.Landing{Head: in.Head}}, r.note(who, in)
}

func (r *runs) Git(_ context.Context, who identity.Caller, in turn.GitIn) (turn.GitOut, error) {
	return turn.GitOut{Tip: "abc", Allowed: true}, r.note(who, in)
}

func (r *runs) Token(_ context.Context, who identity.Caller, in turn.TokenIn) (turn.TokenOut, error) {
	return turn.TokenOut{}, r.note(who, in)
}

type everybody struct{}

func (everybody) Authenticate(_ context.Context, bearer, surface string) (identity.Caller, error) {
	for _, k := range identity.Kinds() {
		if bearer != string(k) {
			continue
		}
		who := identity.Caller{Kind: k, Tenant: "local", Project: "p", Subject: "3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10", Turn: "t1", Epoch: 4}
		if k == identity.Runner || k == identity.Owner { // the edge looks again at the owner's
			return who, nil
		}
		return who, refusal.Of(refusal.WrongSurface, bearer, "/"+surface)
	}
	return identity.Caller{}, refusal.Of(refusal.Unauthenticated)
}

func serve(t *testing.T) (*httptest.Server, *runs, *bytes.Buffer) {
	t.Helper()
	r, log := &runs{}, &bytes.Buffer{}
	n := 0
	s := httptest.NewServer(runnerapi.New(runnerapi.Config{
		Base: edge.Base{Log: slog.New(slog.NewJSONHandler(log, nil)), Now: time.Now, NewID: func() string { n++; return strings.Repeat("r", n) }},
		Auth: everybody{}, Runs: r,
	}))
	t.Cleanup(s.Close)
	return s, r, log
}

func post(t *testing.T, s *httptest.Server, op, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/runner/"+op, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(names.HeaderHeartbeat, "1")
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestClientAndSurfaceSpeakTheSameForms(t *testing.T) {
	s, r, _ := serve(t)
	c := client.RunnerClient{Base: s.URL}
	w, err := c.Hello(t.Context(), turn.Hello{Nonce: "n", PID: 7, Version: "1"})
	if err != nil || w.RunnerToken != "rt" || w.TaskToken != "tt" {
		t.Fatalf("hello: %+v, %v", w, err)
	}
	c.Token = "runner"
	b, err := c.Beat(t.Context(), turn.BeatIn{Turn: "t1", Epoch: 4, State: "running", Progress: 3})
	if err != nil || b.Stop != "drain" || len(b.Steer) != 1 {
		t.Errorf("beat: %+v, %v", b, err)
	}
	a, err := c.Report(t.Context(), turn.Response{Turn: "t1", Epoch: 4, Outcome: "ok", Handoff: []turn.Handoff{{Kind: "journal", Content: "x"}}})
	if err != nil || !a.Stored {
		t.Errorf("report: %+v, %v", a, err)
	}
	g, err := c.Git(t.Context(), turn.GitIn{Op: "merge", Target: "x"})
	if err != nil || g.Tip != "abc" {
		t.Errorf("git: %+v, %v", g, err)
	}
	u, err := c.Upload(t.Context(), turn.UploadIn{Get: []string{"a", "b"}, Put: []turn.Parcel{{Name: "c", Size: 1, SHA256: []byte{1}}}})
	if err != nil || len(u.Get) != 2 {
		t.Errorf("upload: %+v, %v", u, err)
	}
	l, err := c.Land(t.Context(), turn.LandIn{Turn: "t1", Epoch: 4, Head: "h", Commit: "c"})
	if err != nil || !l.Landed || l.Next == nil || l.Next.Head != "h" {
		t.Errorf("land: %+v, %v", l, err)
	}
	if len(r.got) != 6 || r.who.Epoch != 4 || r.got[1].(turn.BeatIn).Progress != 3 {
		t.Errorf("got %+v by %+v", r.got, r.who)
	}
}

func TestOnlyARunnerIsHeardAndOnlyForItsOwnTurn(t *testing.T) {
	req.Covers(t, "CM-004")
	s, r, _ := serve(t)
	for _, op := range []string{"beat", "report", "git", "land"} {
		for _, k := range identity.Kinds() {
			status, body := post(t, s, op, string(k), `{}`)
			if k == identity.Runner {
				if status != 200 {
					t.Errorf("%s by a runner: %d %s", op, status, body)
				}
				continue
			}
			if status != 401 || !strings.Contains(body, `"wrong_surface"`) {
				t.Errorf("%s by %s: %d %s", op, k, status, body)
			}
		}
		if status, body := post(t, s, op, "", `{}`); status != 401 || !strings.Contains(body, `"unauthenticated"`) {
			t.Errorf("%s by nobody: %d %s", op, status, body)
		}
	}
	before := len(r.got)
	for _, c := range [][2]string{
		{"beat", `{"turn_id":"t2","epoch":4}`},
		{"beat", `{"turn_id":"t1","epoch":3}`},
		{"report", `{"turn_id":"t1","epoch":5}`},
		{"report", `{"turn_id":"t2"}`},
		{"land", `{"turn_id":"t2"}`},
	} {
		if status, body := post(t, s, c[0], "runner", c[1]); status != 403 || !strings.Contains(body, `"identity_mismatch"`) {
			t.Errorf("%s %s: %d %s", c[0], c[1], status, body)
		}
	}
	if len(r.got) != before {
		t.Errorf("a refused request reached a use case")
	}
}

// A supervisor of a later version works with the functions from before: what it
// says beyond what they know is passed over, in every operation.
func TestASupervisorOfALaterVersionIsUnderstood(t *testing.T) {
	s, r, _ := serve(t)
	for n, op := range []string{"hello", "beat", "report", "git", "upload", "token", "land"} {
		body := `{"op":"merge","nonce":"n","later":{"field":[1]}}`
		if status, out := post(t, s, op, "runner", body); status != 200 || len(r.got) != n+1 {
			t.Errorf("%s: %d %s", op, status, out)
		}
	}
}

func TestBodiesAreReadWholeAndUpToTheirLimit(t *testing.T) {
	s, r, _ := serve(t)
	for name, c := range map[string]struct {
		op, body string
		status   int
		code     string
	}{
		"no JSON":          {"beat", `{`, 400, "invalid_arguments"},
		"empty":            {"beat", ``, 400, "invalid_arguments"},
		"two objects":      {"beat", `{}{}`, 400, "invalid_arguments"},
		"wrong type":       {"beat", `{"epoch":"four"}`, 400, "invalid_arguments"},
		"long hello":       {"hello", `{"nonce":"` + strings.Repeat("x", 5<<10) + `"}`, 413, "body_too_large"},
		"long beat":        {"beat", `{"phase":"` + strings.Repeat("x", 17<<10) + `"}`, 413, "body_too_large"},
		"report over 5 MB": {"report", `{"text":"` + strings.Repeat("x", names.BodyMax) + `"}`, 413, "body_too_large"},
	} {
		status, body := post(t, s, c.op, "runner", c.body)
		if status != c.status || !strings.Contains(body, `"`+c.code+`"`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if len(r.got) != 0 {
		t.Errorf("reached the use cases: %+v", r.got)
	}
	if status, _ := post(t, s, "report", "runner", `{"text":"`+strings.Repeat("x", 1<<20)+`"}`); status != 200 {
		t.Errorf("a report of 1 MB: %d", status)
	}
}

func TestUseCaseErrorsKeepTheirStatus(t *testing.T) {
	s, r, _ := serve(t)
	for _, c := range []struct {
		err    error
		status int
	}{
		{refusal.Of(refusal.Fenced, 4, "t", 5), 409},
		{refusal.Of(refusal.Unauthenticated), 401},
		{fault.New(fault.Unavailable, "away"), 503},
		{errors.New("disk /secret"), 500},
	} {
		r.fail = c.err
		status, body := post(t, s, "beat", "runner", `{}`)
		if status != c.status || strings.Contains(body, "secret") {
			t.Errorf("%v: %d %s", c.err, status, body)
		}
	}
}

func TestInternalGitHasNoOtherDoor(t *testing.T) {
	req.Covers(t, "OT-019")
	s, r, _ := serve(t)
	for _, token := range []string{"task", "builder", "owner", "user", "operator", "session", ""} {
		if status, _ := post(t, s, "git", token, `{"op":"merge"}`); status != 401 {
			t.Errorf("%q: %d", token, status)
		}
	}
	if len(r.got) != 0 {
		t.Error("it was done")
	}
	if status, _ := post(t, s, "download", "runner", `{}`); status != 404 {
		t.Errorf("an operation that does not exist: %d", status)
	}
}

func TestSecretsOfAHelloAreNotLogged(t *testing.T) {
	s, _, log := serve(t)
	post(t, s, "hello", "", `{"nonce":"canary","version":"1"}`)
	status, body := post(t, s, "hello", "", `{"nonce":"panic","version":"1"}`)
	if status != 500 || !strings.Contains(body, "internal error") {
		t.Errorf("%d %s", status, body)
	}
	s.Close()
	if strings.Contains(log.String(), "canary") || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("logged %s", log)
	}
}

func TestEveryRunnerRouteIsBounded(t *testing.T) {
	req.Covers(t, "RP-001")
	routes := runnerapi.Routes(runnerapi.Config{Runs: &runs{}})
	if len(routes) != 7 {
		t.Fatalf("%d routes", len(routes))
	}
	for _, r := range routes {
		if r.Class != edge.Bounded {
			t.Errorf("%s is %s", r.Pattern, r.Class)
		}
	}
	s, _, _ := serve(t)
	if _, body := post(t, s, "beat", "runner", `{}`); strings.Contains(body, "lazyEnvelope") {
		t.Error("a bounded route was framed")
	}
}
