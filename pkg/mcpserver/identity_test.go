package mcpserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/mcpserver"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

const (
	echo     = `{"arguments":{"message":"hi"}}`
	echoRPC  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lazy_echo","arguments":{"message":"hi"}}}`
	commit   = `{"arguments":{"message":"m"}}`
	listRPC  = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	openedAs = "text/event-stream"
)

// codeOf reads the refusal code out of either route's answer.
func codeOf(t *testing.T, body string) string {
	t.Helper()
	var m struct {
		Structured struct {
			Error envelope.Error `json:"error"`
		} `json:"structuredContent"`
		Error  json.RawMessage `json:"error"`
		Fields json.RawMessage `json:"fields"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if m.Structured.Error.Code != "" {
		return m.Structured.Error.Code
	}
	if m.Fields != nil {
		return "invalid_arguments"
	}
	var e struct {
		Data envelope.Error `json:"data"`
	}
	_ = json.Unmarshal(m.Error, &e)
	return e.Data.Code
}

func TestTokenAndSegmentMustAgreeOnBothRoutes(t *testing.T) {
	req.Covers(t, "CM-002", "ID-001", "ID-002", "MC-025")
	r := newRig(t)
	s := r.serve(t)
	for _, c := range []struct {
		token, segment string
		status         int
		code           string
	}{
		{"a", string(taskA), 200, ""},
		{"a", strings.ToUpper(string(taskA)), 200, ""},
		{"a", taskA.Short(), 200, ""},
		{"a", string(taskA[:13]), 200, ""},
		{"a", "fix-login", 200, ""},
		{"a", string(taskB), 403, "identity_mismatch"},
		{"a", taskB.Short(), 403, "identity_mismatch"},
		{"a", "add-tests", 403, "identity_mismatch"},
		{"a", string(absent), 403, "identity_mismatch"},
		{"a", "no-such-code", 403, "identity_mismatch"},
		{"a", "_", 403, "identity_mismatch"},
		{"builder", "_", 200, ""},
		{"builder", string(taskA), 403, "identity_mismatch"},
		{"builder", "fix-login", 403, "identity_mismatch"},
		{"builder", string(absent), 403, "identity_mismatch"},
	} {
		before := r.count()
		resp, body := post(t, s, "/mcp/"+c.segment+"/lazy_echo", r.tokens[c.token], echo)
		rpc, rpcBody := post(t, s, "/mcp/"+c.segment, r.tokens[c.token], echoRPC)
		if resp.StatusCode != c.status || rpc.StatusCode != c.status {
			t.Errorf("%s at %s: %d and %d, want %d", c.token, c.segment, resp.StatusCode, rpc.StatusCode, c.status)
			continue
		}
		if c.code == "" {
			if who := r.last(t).Who; r.count() != before+2 || who.Kind == identity.Task && who.Task() != taskA {
				t.Errorf("%s at %s ran as %+v", c.token, c.segment, who)
			}
			continue
		}
		if codeOf(t, body) != c.code || codeOf(t, rpcBody) != c.code || r.count() != before {
			t.Errorf("%s at %s: %s and %s", c.token, c.segment, body, rpcBody)
		}
		if !strings.Contains(body, strings.ToLower(c.segment)) {
			t.Errorf("%s at %s does not name what was addressed: %s", c.token, c.segment, body)
		}
	}
}

func TestMismatchIsTheSameWhetherTheOtherTaskExists(t *testing.T) {
	req.Covers(t, "CM-002", "CM-003")
	r := newRig(t)
	s := r.serve(t)
	ask := func(segment string) (string, int) {
		before, puts := r.store.seen()
		_, body := post(t, s, "/mcp/"+segment+"/lazy_commit", r.tokens["a"], commit)
		reads, after := r.store.seen()
		if after != puts {
			t.Errorf("%s wrote something", segment)
		}
		var m struct {
			Content []struct{ Text string } `json:"content"`
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil || len(m.Content) != 1 {
			t.Fatalf("%s: %s %v", segment, body, err)
		}
		return strings.ReplaceAll(m.Content[0].Text, segment, "X"), reads - before
	}
	for _, pair := range [][2]string{
		{string(taskB), string(absent)},
		{taskB.Short(), absent.Short()},
		{"add-tests", "add-toads"},
	} {
		there, n := ask(pair[0])
		missing, m := ask(pair[1])
		if there != missing || n != m {
			t.Errorf("%s: %q with %d reads; %s: %q with %d", pair[0], there, n, pair[1], missing, m)
		}
	}
}

func TestOnlyTasksAndBuildersAreHeard(t *testing.T) {
	req.Covers(t, "ID-003", "CM-004", "OT-049")
	r := newRig(t)
	s := r.serve(t)
	for token, code := range map[string]string{
		"owner": "wrong_surface", "user": "wrong_surface", "operator": "wrong_surface", "session": "wrong_surface", "runner": "wrong_surface",
		"unknown": "unauthenticated", "none": "unauthenticated", "ended": "session_ended",
	} {
		for _, segment := range []string{"_", string(taskA), string(absent)} {
			resp, body := post(t, s, "/mcp/"+segment+"/lazy_echo", r.tokens[token], echo, names.HeaderHeartbeat, "1")
			if resp.StatusCode != 401 || codeOf(t, body) != code || resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s at %s: %d %s", token, segment, resp.StatusCode, body)
			}
			resp, body = post(t, s, "/mcp/"+segment, r.tokens[token], echoRPC)
			if resp.StatusCode != 401 || codeOf(t, body) != code || resp.Header.Get("Content-Type") == openedAs {
				t.Errorf("%s at %s by protocol: %d %s", token, segment, resp.StatusCode, body)
			}
			if strings.Contains(body, "`lazy ") {
				t.Errorf("%s is told to run a command: %s", token, body)
			}
		}
	}
	if r.count() != 0 {
		t.Errorf("%d calls ran", r.count())
	}
}

func TestSecretInThePathIsSaidSoAndTouchesNothing(t *testing.T) {
	req.Covers(t, "RP-012", "CM-005")
	r := newRig(t)
	s := r.serve(t)
	before, _ := r.store.seen()
	for _, path := range []string{"/mcp/" + r.tokens["a"] + "/lazy_echo", "/mcp/" + r.tokens["a"], "/mcp/" + r.tokens["a"][:40] + "/lazy_echo"} {
		resp, body := post(t, s, path, r.tokens["a"], echo)
		if resp.StatusCode != 400 || codeOf(t, body) != "bad_segment" || !strings.Contains(body, "looks like a secret") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		if strings.Contains(body, "lzy_") {
			t.Errorf("the secret is repeated: %s", body)
		}
	}
	resp, body := post(t, s, "/mcp/a%20b/lazy_echo", r.tokens["a"], echo)
	if resp.StatusCode != 400 || codeOf(t, body) != "bad_segment" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if after, _ := r.store.seen(); after != before {
		t.Errorf("%d reads for segments that are no segment", after-before)
	}
	post(t, s, "/mcp/_/"+r.tokens["a"], r.tokens["builder"], echo) // one in the tool's place
	s.Close()
	if strings.Contains(r.log.String(), "lzy_") {
		t.Errorf("a secret was logged: %s", r.log.String())
	}
}

func TestStampsAreTheSupervisorsAndMeanNothingFromABuilder(t *testing.T) {
	req.Covers(t, "OT-017")
	r := newRig(t)
	s := r.serve(t)
	stamps := []string{names.HeaderTurn, "t9", names.HeaderEpoch, "4", names.HeaderCommit, `{"Parent":"p","Commit":"c","Tree":"t"}`}
	for _, path := range []string{"/mcp/" + string(taskA) + "/lazy_echo", "/mcp/" + string(taskA)} {
		body := echo
		if !strings.HasSuffix(path, "echo") {
			body = echoRPC
		}
		post(t, s, path, r.tokens["a"], body, stamps...)
		who := r.last(t).Who
		if who.Turn != "t9" || who.Epoch != 4 || who.Commit == nil || who.Commit.Parent != "p" || who.Task() != taskA {
			t.Errorf("%s: ran as %+v", path, who)
		}
	}
	post(t, s, "/mcp/_/lazy_echo", r.tokens["builder"], echo, stamps...)
	if who := r.last(t).Who; who.Turn != "" || who.Epoch != 0 || who.Commit != nil {
		t.Errorf("a builder ran as %+v", who)
	}
	for _, h := range [][]string{{names.HeaderEpoch, "four"}, {names.HeaderEpoch, "-1"}, {names.HeaderCommit, "{"}} {
		resp, body := post(t, s, "/mcp/"+string(taskA)+"/lazy_echo", r.tokens["a"], echo, h...)
		if resp.StatusCode != 400 || codeOf(t, body) != "invalid_arguments" {
			t.Errorf("%v: %d %s", h, resp.StatusCode, body)
		}
	}
	// A run that has been succeeded writes nothing, whatever it claims.
	resp, body := post(t, s, "/mcp/"+string(taskA)+"/lazy_commit", r.tokens["a"], commit, names.HeaderEpoch, "3")
	if resp.StatusCode != 409 || codeOf(t, body) != "fenced" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestEveryToolRouteHasItsClass(t *testing.T) {
	req.Covers(t, "RP-001", "RP-002")
	r := newRig(t)
	want := map[string]edge.Class{
		"POST /mcp/{segment}/{tool}": edge.Framed, "POST /mcp/{segment}": edge.Framed,
		"GET /mcp/{segment}": edge.Bounded, "DELETE /mcp/{segment}": edge.Bounded,
		"POST /{$}": edge.Framed, "GET /{$}": edge.Bounded, "DELETE /{$}": edge.Bounded,
	}
	routes := mcpserver.Routes(r.cfg)
	if len(routes) != len(want) {
		t.Fatalf("%d routes, want %d", len(routes), len(want))
	}
	for _, x := range routes {
		if x.Class != want[x.Pattern] {
			t.Errorf("%s is %q", x.Pattern, x.Class)
		}
	}
	s := r.serve(t)
	plain, body := post(t, s, "/mcp/_/lazy_echo", r.tokens["builder"], echo)
	framed, lines := post(t, s, "/mcp/_/lazy_echo", r.tokens["builder"], echo, names.HeaderHeartbeat, "1")
	if plain.Header.Get("Content-Type") != "application/json" || framed.Header.Get("Content-Type") != envelope.ContentType {
		t.Errorf("plain %v, framed %v", plain.Header, framed.Header)
	}
	reply, err := envelope.Read(strings.NewReader(lines), nil)
	if err != nil || string(reply.Body)+"\n" != body {
		t.Errorf("framed %s, %v; plain %s", reply.Body, err, body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		q, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/mcp/_", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %d %v", method, resp.StatusCode, resp.Header)
		}
	}
}

func TestEveryCallReadsFreshState(t *testing.T) {
	req.Covers(t, "MC-002", "ID-005")
	r := newRig(t)
	s := r.serve(t)
	at := func(segment string) (int, string) {
		resp, body := post(t, s, "/mcp/"+segment+"/lazy_commit", r.tokens["a"], commit)
		return resp.StatusCode, body
	}
	a := task.Task{ID: taskA, Code: "fix-login", Status: task.Working, Epoch: 4, Claimed: true, TurnKind: "work"}
	if status, body := at("fix-login"); status != 200 {
		t.Fatalf("at first: %d %s", status, body)
	}
	a.Code = "mend-login"
	r.putTask(t, a)
	if status, body := at("mend-login"); status != 200 {
		t.Errorf("by the code it has now: %d %s", status, body)
	}
	if status, body := at("fix-login"); status != 403 {
		t.Errorf("by the code it had: %d %s", status, body)
	}
	a.TurnKind = "ask"
	r.putTask(t, a)
	if status, body := at(string(taskA)); status != 403 || codeOf(t, body) != "read_only_turn" {
		t.Errorf("once its turn only reads: %d %s", status, body)
	}
	r.putToken(t, identity.Token{Kind: identity.Task, Subject: string(taskA), Revoked: time.Now(), Why: "accepted"})
	if status, body := at(string(taskA)); status != 401 || codeOf(t, body) != "session_ended" {
		t.Errorf("once its token is withdrawn: %d %s", status, body)
	}
}
