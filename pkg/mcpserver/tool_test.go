package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/mcpserver"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func TestToolReplyHasTheWireForm(t *testing.T) {
	req.Covers(t, "WF-08")
	r := newRig(t)
	s := r.serve(t)
	resp, body := post(t, s, "/mcp/_/lazy_echo", r.tokens["builder"], `{"arguments":{"message":"hi","secret":"x"}}`)
	want := `{"content":[{"type":"text","text":"{\"message\":\"hi\",\"secret\":\"x\"}"}],"structuredContent":{"message":"hi","secret":"x"},"isError":false}` + "\n"
	if resp.StatusCode != 200 || body != want {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp.Header.Get(names.HeaderOperation) != r.last(t).Operation || r.last(t).Tool != "lazy_echo" {
		t.Errorf("announced %q, the handler got %+v", resp.Header.Get(names.HeaderOperation), r.last(t))
	}
	ran := r.count()
	resp, body = post(t, s, "/mcp/_/lazy_echo", r.tokens["builder"], `{"arguments":{"message":3}}`)
	var rejected struct {
		Error  string       `json:"error"`
		Fields []op.Problem `json:"fields"`
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&rejected); err != nil || resp.StatusCode != 400 || rejected.Error == "" || len(rejected.Fields) == 0 {
		t.Errorf("rejected: %d %s, %v", resp.StatusCode, body, err)
	}
	for _, f := range rejected.Fields {
		if f.Path == "" || f.Problem == "" || !strings.Contains(body, `{"path":"`+f.Path+`","problem":"`) {
			t.Errorf("a field of %s", body)
		}
	}
	if r.count() != ran {
		t.Error("a rejected call ran")
	}
	// And the calling end sends and reads the same form.
	c := client.ToolClient{Base: s.URL, Segment: "_", Token: r.tokens["builder"], NewID: func() string { return "k-form" }}
	got, err := c.Call(t.Context(), client.ToolCall{Tool: "lazy_echo", Arguments: json.RawMessage(`{"message":"hi","secret":"x"}`)})
	if err != nil || got.IsError || string(got.Structured) != `{"message":"hi","secret":"x"}` || len(got.Content) != 1 {
		t.Errorf("the client read %+v, %v", got, err)
	}
}

// malformed are bodies of a tool call that must do nothing, with the fields they
// are wrong in.
func malformed() map[string]struct {
	tool, body string
	paths      []string
} {
	return map[string]struct {
		tool, body string
		paths      []string
	}{
		"no envelope":       {"lazy_commit", `{"message":"m"}`, []string{"arguments"}},
		"beside the object": {"lazy_commit", `{"arguments":{"message":"m"},"actor":"builder"}`, []string{"arguments"}},
		"null":              {"lazy_commit", `{"arguments":null}`, []string{"arguments"}},
		"an array":          {"lazy_commit", `{"arguments":["m"]}`, []string{"arguments"}},
		"no JSON":           {"lazy_commit", `{"arguments":`, []string{"arguments"}},
		"two bodies":        {"lazy_commit", `{"arguments":{"message":"m"}}{}`, []string{"arguments"}},
		"nothing at all":    {"lazy_commit", ``, []string{"message"}},
		"empty arguments":   {"lazy_commit", `{"arguments":{}}`, []string{"message"}},
		"several faults":    {"lazy_commit", `{"arguments":{"files":"x","force":true}}`, []string{"files", "force", "message"}},
		"an item":           {"lazy_commit", `{"arguments":{"message":"m","files":["a",2]}}`, []string{"files[1]"}},
		"no such tool":      {"lazy_frobnicate", echo, []string{"tool"}},
	}
}

func TestCallsOutOfFormAre400AndDoNothing(t *testing.T) {
	req.Covers(t, "RP-013", "RP-014", "RP-016", "OT-021")
	r := newRig(t)
	s := r.serve(t)
	_, puts := r.store.seen()
	for name, c := range malformed() {
		resp, body := post(t, s, "/mcp/"+string(taskA)+"/"+c.tool, r.tokens["a"], c.body, names.HeaderHeartbeat, "1")
		var m struct {
			Error  string
			Fields []op.Problem
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil || resp.StatusCode != 400 || m.Error == "" {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
			continue
		}
		got := map[string]bool{}
		for _, p := range m.Fields {
			got[p.Path] = p.Problem != ""
		}
		for _, want := range c.paths {
			if !got[want] {
				t.Errorf("%s: %q is not listed in %s", name, want, body)
			}
		}
	}
	if _, after := r.store.seen(); r.count() != 0 || after != puts {
		t.Errorf("%d handlers ran, %d transactions", r.count(), after-puts)
	}
	if resp, body := post(t, s, "/mcp/_/lazy_active", r.tokens["builder"], ""); resp.StatusCode != 200 {
		t.Errorf("an empty body for a tool without required fields: %d %s", resp.StatusCode, body)
	}
}

func TestRefusalsKeepTheirStatusPlainAndFramed(t *testing.T) {
	req.Covers(t, "RP-011", "OT-022")
	r := newRig(t)
	s := r.serve(t)
	for how, err := range failures() {
		body := `{"arguments":{"how":"` + how + `"}}`
		plain, text := post(t, s, "/mcp/_/lazy_fail", r.tokens["builder"], body)
		framed, lines := post(t, s, "/mcp/_/lazy_fail", r.tokens["builder"], body, names.HeaderHeartbeat, "1")
		reply, rerr := envelope.Read(strings.NewReader(lines), nil)
		if plain.StatusCode != fault.HTTP(err) || framed.StatusCode != 200 || rerr != nil || reply.Status != fault.HTTP(err) {
			t.Errorf("%s: plain %d, framed %d with %d, %v", how, plain.StatusCode, framed.StatusCode, reply.Status, rerr)
		}
		if codeOf(t, text) != fault.Code(err) || codeOf(t, string(reply.Body)) != fault.Code(err) || !strings.Contains(text, `"isError":true`) {
			t.Errorf("%s: %s", how, text)
		}
		if strings.Contains(text+lines, "secret") {
			t.Errorf("%s: the cause leaked: %s", how, text)
		}
	}
	resp, body := post(t, s, "/mcp/_/lazy_fail", r.tokens["builder"], `{"arguments":{"how":"panic"}}`)
	if resp.StatusCode != 500 || strings.Contains(body, "lzy_") || !strings.Contains(body, resp.Header.Get(names.HeaderRequest)) {
		t.Errorf("a panic: %d %s", resp.StatusCode, body)
	}
}

func TestRefusedToolSpeaksToItsReader(t *testing.T) {
	req.Covers(t, "OT-030")
	r := newRig(t)
	s := r.serve(t)
	_, body := post(t, s, "/mcp/"+string(taskA)+"/lazy_fail", r.tokens["a"], `{"arguments":{"how":"busy"}}`)
	var m struct {
		Content    []struct{ Text string }
		Structured struct {
			Error envelope.Error
		} `json:"structuredContent"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	e := m.Structured.Error
	if len(e.Next) != 1 || e.Next[0] != "lazy_wait" || m.Content[0].Text != e.Message+"\nlazy_wait" {
		t.Errorf("got %s", body)
	}
}

func TestHiddenToolsRefuseForThemselves(t *testing.T) {
	req.Covers(t, "CM-026", "AA-012", "MC-027")
	r := newRig(t)
	s := r.serve(t)
	resp, body := post(t, s, "/mcp/_/lazy_commit", r.tokens["builder"], commit)
	if resp.StatusCode != 403 || codeOf(t, body) != "agent_only" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	resp, body = post(t, s, "/mcp/"+string(taskA)+"/lazy_memory_save", r.tokens["a"], commit)
	if resp.StatusCode != 403 || codeOf(t, body) != "builder_only" || !strings.Contains(body, "Every later launch reads it.") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if r.count() != 0 {
		t.Error("a handler ran")
	}
}

func TestReservedNamesAnswerTheirLine(t *testing.T) {
	req.Covers(t, "MC-005", "OT-019")
	r := newRig(t)
	s := r.serve(t)
	for _, name := range op.ReservedNames() {
		for token, segment := range map[string]string{"builder": "_", "a": string(taskA)} {
			resp, body := post(t, s, "/mcp/"+segment+"/"+name, r.tokens[token], `{"arguments":{"x":1}}`)
			if resp.StatusCode != 400 || codeOf(t, body) != "reserved_tool" || !strings.Contains(body, "There is no "+name) {
				t.Errorf("%s: %d %s", name, resp.StatusCode, body)
			}
			_, body = post(t, s, "/mcp/"+segment, r.tokens[token], fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, name))
			if !strings.Contains(body, "-32602") || !strings.Contains(body, "There is no "+name) {
				t.Errorf("%s by protocol: %s", name, body)
			}
		}
	}
	_, body := post(t, s, "/mcp/_/lazy_propose", r.tokens["builder"], echo)
	if !strings.Contains(body, "lazy_raise") {
		t.Errorf("lazy_propose: %s", body)
	}
}

func TestArgumentOfAnotherRoleGetsItsOwnRefusal(t *testing.T) {
	req.Covers(t, "CM-029")
	r := newRig(t)
	s := r.serve(t)
	with := `{"arguments":{"message":"m","secret":"x"}}`
	if resp, body := post(t, s, "/mcp/_/lazy_echo", r.tokens["builder"], with); resp.StatusCode != 200 {
		t.Errorf("the builder's own: %d %s", resp.StatusCode, body)
	}
	resp, body := post(t, s, "/mcp/"+string(taskA)+"/lazy_echo", r.tokens["a"], with)
	if resp.StatusCode != 403 || codeOf(t, body) != "usage_pass_denied" {
		t.Errorf("an agent: %d %s", resp.StatusCode, body)
	}
	resp, body = post(t, s, "/mcp/_/lazy_echo", r.tokens["builder"], `{"arguments":{"message":"m","image":"x"}}`)
	if resp.StatusCode != 403 || codeOf(t, body) != "human_only" {
		t.Errorf("a person's argument: %d %s", resp.StatusCode, body)
	}
}

func TestReadOnlyTurnIsServedReadsAlone(t *testing.T) {
	req.Covers(t, "OT-016", "OT-017")
	r := newRig(t)
	s := r.serve(t)
	r.putTask(t, task.Task{ID: taskA, Code: "fix-login", Status: task.Working, Epoch: 4, Claimed: true, TurnKind: "ask"})
	resp, body := post(t, s, "/mcp/"+string(taskA)+"/lazy_commit", r.tokens["a"], commit, names.HeaderTurn, "a-work-turn", names.HeaderEpoch, "4")
	if resp.StatusCode != 403 || codeOf(t, body) != "read_only_turn" {
		t.Errorf("a write: %d %s", resp.StatusCode, body)
	}
	if resp, body := post(t, s, "/mcp/"+string(taskA)+"/lazy_echo", r.tokens["a"], echo); resp.StatusCode != 200 {
		t.Errorf("a read: %d %s", resp.StatusCode, body)
	}
}

func accepted(how string) func(string) app.Progress {
	return func(cursor string) app.Progress {
		p := app.Progress{Operation: "o", Cursor: cursor + "x", Phases: []app.Phase{
			{N: 1, Of: 2, Name: "merge", State: "done"}, {N: 2, Of: 2, Name: "clean up", State: "started"},
		}}
		if len(p.Cursor) < 3 {
			return p
		}
		p.Done = true
		switch how {
		case "merged":
			p.Result = json.RawMessage(`{"merge_sha":"abc"}`)
		case "broken":
			p.Error = refusal.Of(refusal.AcceptCheckFailed, "failed", "make test", "t", "blocked")
		}
		return p
	}
}

func TestOperationIsFollowedToItsAnswer(t *testing.T) {
	req.Covers(t, "OT-048")
	r := newRig(t)
	s := r.serve(t)
	confirmed := `{"arguments":{"confirmation_code":"c"}}`
	r.tells(accepted("merged"))
	resp, body := post(t, s, "/mcp/_/lazy_accept", r.tokens["builder"], confirmed)
	if resp.StatusCode != 200 || !strings.Contains(body, `"structuredContent":{"merge_sha":"abc"}`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	r.tells(accepted("broken"))
	resp, body = post(t, s, "/mcp/_/lazy_accept", r.tokens["builder"], confirmed)
	if resp.StatusCode != 409 || codeOf(t, body) != "accept_check_failed" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	r.tells(accepted("silent"))
	resp, body = post(t, s, "/mcp/_/lazy_accept", r.tokens["builder"], confirmed)
	if resp.StatusCode != 200 || !strings.Contains(body, `"task_id":"t"`) {
		t.Errorf("an operation without a result of its own: %d %s", resp.StatusCode, body)
	}
	resp, body = post(t, s, "/mcp/_/lazy_accept", r.tokens["builder"], `{"arguments":{}}`)
	if resp.StatusCode != 200 || !strings.Contains(body, `"confirmation_required":true`) {
		t.Errorf("a question for a code: %d %s", resp.StatusCode, body)
	}
}

func TestHopsEndIsPendingWithTheCallToMakeNext(t *testing.T) {
	req.Covers(t, "RP-007", "OT-023", "OT-048", "B39")
	r := newRig(t)
	// Never done; a clock that jumps makes each look the last of its hop.
	r.tells(func(cursor string) app.Progress { return app.Progress{Operation: "o", Cursor: cursor + "x"} })
	clock := time.Unix(0, 0)
	r.cfg.Now = func() time.Time { clock = clock.Add(25 * time.Second); return clock }
	r.cfg.Hop = names.HopHosted * 2
	s := r.serve(t)
	resp, body := post(t, s, "/mcp/_/lazy_accept", r.tokens["builder"], `{"arguments":{"confirmation_code":"c"}}`)
	var m struct {
		Structured struct {
			Pending   bool
			Operation string `json:"operation_id"`
			Cursor    string
			Next      string
		} `json:"structuredContent"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	got := m.Structured
	if resp.StatusCode != 202 || !got.Pending || got.Operation != r.last(t).Operation || got.Cursor == "" || !strings.Contains(got.Next, "lazy_wait") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	resp, body = post(t, s, "/mcp/_/lazy_wait", r.tokens["builder"], "")
	if resp.StatusCode != 202 || !strings.Contains(body, `"cursor":"77"`) {
		t.Errorf("a wait that says it is pending: %d %s", resp.StatusCode, body)
	}
}

func TestHoldOfARelayIsBoundedByTheHop(t *testing.T) {
	r := newRig(t)
	s := r.serve(t)
	for v, want := range map[string]time.Duration{"": time.Minute, "2000": 2 * time.Second, "999999999": time.Minute} {
		post(t, s, "/mcp/_/lazy_echo", r.tokens["builder"], echo, names.HeaderHold, v)
		if got := r.last(t).Hold; got != want {
			t.Errorf("%q: held %s, want %s", v, got, want)
		}
	}
}

func TestToolHeartbeatsComeEveryFiveSeconds(t *testing.T) {
	req.Covers(t, "RP-003", "MC-023")
	r := newRig(t) // its store's writer must not live in the bubble
	token := r.tokens["builder"]
	who, err := r.app.Authenticate(t.Context(), token, "mcp")
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.Auth = fixed{who}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r.release, r.started, r.ended = release, make(chan struct{}, 1), make(chan error, 1)
		w := &timed{header: http.Header{}, began: time.Now()}
		q := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp/_/lazy_slow", nil)
		q.Header.Set(names.HeaderHeartbeat, "1")
		go func() {
			time.Sleep(11 * time.Second)
			close(release)
		}()
		mcpserver.New(r.cfg).ServeHTTP(w, q)
		want := []time.Duration{0, 5 * time.Second, 10 * time.Second, 11 * time.Second}
		if fmt.Sprint(w.at) != fmt.Sprint(want) || !strings.Contains(w.lines[len(w.lines)-1], `"status":200`) {
			t.Errorf("lines %q at %v", w.lines, w.at)
		}
	})
}

func TestToolFinishesWhenTheRelayHangsUp(t *testing.T) {
	req.Covers(t, "RP-006", "OT-025")
	r := newRig(t)
	s := r.serve(t)
	ctx, hangUp := context.WithCancel(t.Context())
	c := client.ToolClient{Base: s.URL, Token: r.tokens["builder"], Segment: "_"}
	gone := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, client.ToolCall{Tool: "lazy_slow"})
		gone <- err
	}()
	<-r.started
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("the relay got %v", err)
	}
	r.release <- struct{}{}
	if err := <-r.ended; err != nil {
		t.Errorf("the work saw %v", err)
	}
}

func TestLongToolDelaysNoOther(t *testing.T) {
	req.Covers(t, "MC-003", "RP-008")
	r := newRig(t)
	s := r.serve(t)
	const long = 16
	done := make(chan error, long)
	for range long {
		go func() {
			c := client.ToolClient{Base: s.URL, Token: r.tokens["builder"], Segment: "_"}
			_, err := c.Call(t.Context(), client.ToolCall{Tool: "lazy_slow"})
			done <- err
		}()
	}
	for range long {
		<-r.started
	}
	for range 32 {
		if resp, body := post(t, s, "/mcp/_/lazy_echo", r.tokens["builder"], echo); resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
	if len(done) != 0 {
		t.Fatalf("%d long calls ended early", len(done))
	}
	close(r.release)
	for range long {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestBodyOverTheLimitIs413(t *testing.T) {
	req.Covers(t, "OT-049")
	r := newRig(t)
	s := r.serve(t)
	big := `{"arguments":{"message":"` + strings.Repeat("x", names.BodyMax) + `"}}`
	for _, path := range []string{"/mcp/_/lazy_echo", "/mcp/_"} {
		resp, body := post(t, s, path, r.tokens["builder"], big, names.HeaderHeartbeat, "1")
		if resp.StatusCode != 413 || codeOf(t, body) != "body_too_large" || !strings.Contains(body, "limit") {
			t.Errorf("%s: %d %.300s", path, resp.StatusCode, body)
		}
	}
	if r.count() != 0 {
		t.Error("a handler ran")
	}
}
