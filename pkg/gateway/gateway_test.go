package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/gateway"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "sk-canary-credential-4711"
	key    = "lazy-turn-0000"
)

// service is a model service that keeps what it was sent.
type service struct {
	*httptest.Server
	mu  sync.Mutex
	got []*http.Request
}

func (s *service) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// rig is a gateway on a loopback port in front of a service.
type rig struct {
	gateway *gateway.Gateway
	up      *service
	url     string
	log     *bytes.Buffer
	stop    func()
}

func newRig(t *testing.T, wire model.Wire, answer http.HandlerFunc, tune ...func(*gateway.Gateway)) *rig {
	t.Helper()
	up := &service{}
	up.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		kept := r.Clone(context.WithoutCancel(r.Context()))
		kept.Body = io.NopCloser(bytes.NewReader(b))
		up.mu.Lock()
		up.got = append(up.got, kept)
		up.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(up.Close)
	r := &rig{up: up, log: &bytes.Buffer{}}
	r.gateway = &gateway.Gateway{
		Access: model.Access{Provider: "claude", Wire: wire, Upstream: up.URL, Scheme: model.APIKey, Credential: "mine", Secret: secret},
		Key:    key, Permit: func(context.Context) error { return nil }, Now: time.Now,
		Log: slog.New(slog.NewJSONHandler(r.log, nil)),
	}
	for _, f := range tune {
		f(r.gateway)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.gateway.Serve(ctx, l) }()
	r.url = "http://" + l.Addr().String()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// ask sends a call with the placeholder, unless header says otherwise.
func (r *rig) ask(t *testing.T, method, path, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", key)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			q.Header.Del(header[i])
		}
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(q)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, resp.Header, string(b) + "\n" + err.Error()
	}
	return resp.StatusCode, resp.Header, string(b)
}

func sse(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("Request-Id", "req_1")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
}

var anthropicAnswer = []string{
	`{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":11,"output_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":3}}}`,
	`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}`,
	`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`,
	`{"type":"message_stop"}`,
}

func TestTheRealCredentialTakesThePlaceOfThePlaceholderAndNothingElseOfTheAgentsPasses(t *testing.T) {
	req.Covers(t, "AG-030", "CM-031", "P8")
	for _, scheme := range []model.Scheme{model.APIKey, model.Subscription} {
		for _, wire := range []model.Wire{model.Anthropic, model.OpenAI} {
			r := newRig(t, wire, sse(anthropicAnswer...), func(g *gateway.Gateway) { g.Access.Scheme = scheme })
			at := map[model.Wire]string{model.Anthropic: "/v1/messages?beta=true", model.OpenAI: "/v1/responses"}[wire]
			status, head, body := r.ask(t, "POST", at, `{"a":1}`, "X-Api-Key", "", "Authorization", "Bearer "+key,
				"Cookie", "a=b", "Proxy-Authorization", "Basic eDp5", "X-Forwarded-For", "10.0.0.1", "Openai-Organization", "theirs", "Openai-Project", "theirs", "Api-Key", "theirs",
				"Anthropic-Version", "2023-06-01", "Content-Type", "application/json", "Accept-Encoding", "gzip")
			if status != http.StatusOK || !strings.Contains(body, "hi") {
				t.Fatalf("%s %s: %d %s", wire, scheme, status, body)
			}
			got := r.up.requests()[0]
			for _, name := range []string{"Cookie", "Proxy-Authorization", "X-Forwarded-For", "Openai-Organization", "Openai-Project", "Api-Key"} {
				if v := got.Header.Get(name); v != "" {
					t.Errorf("%s reached the service: %q", name, v)
				}
			}
			wantKey, wantAuth := secret, ""
			if wire == model.OpenAI || scheme == model.Subscription {
				wantKey, wantAuth = "", "Bearer "+secret
			}
			if got.Header.Get("X-Api-Key") != wantKey || got.Header.Get("Authorization") != wantAuth {
				t.Errorf("%s %s: sent %q and %q", wire, scheme, got.Header.Get("X-Api-Key"), got.Header.Get("Authorization"))
			}
			if beta := got.Header.Values("Anthropic-Beta"); (wire == model.Anthropic && scheme == model.Subscription) != (len(beta) > 0) {
				t.Errorf("%s %s: beta %q", wire, scheme, beta)
			}
			if b, _ := io.ReadAll(got.Body); string(b) != `{"a":1}` || got.Header.Get("Accept-Encoding") != "identity" || got.Header.Get("Anthropic-Version") != "2023-06-01" {
				t.Errorf("%s: the call was changed: %s %v", wire, b, got.Header)
			}
			if strings.Contains(fmt.Sprint(head, body, r.log), secret) {
				t.Error("the credential came back")
			}
		}
	}
}

func TestOnlyThePlaceholderOfThisTurnOpensTheGateway(t *testing.T) {
	req.Covers(t, "CM-032", "ID-026")
	r := newRig(t, model.Anthropic, sse(anthropicAnswer...))
	for _, k := range []string{"", "lazy-turn-0001", secret, "lazy-turn-000", "Bearer " + key} {
		if status, _, _ := r.ask(t, "POST", "/v1/messages", "{}", "X-Api-Key", k); status != http.StatusUnauthorized {
			t.Errorf("key %q: %d", k, status)
		}
	}
	if n := len(r.up.requests()); n != 0 {
		t.Errorf("%d refused calls reached the service", n)
	}
	if status, _, _ := r.ask(t, "POST", "/v1/messages", "{}"); status != http.StatusOK {
		t.Errorf("the right key: %d", status)
	}
	r.stop()
	if status, _, what := r.ask(t, "POST", "/v1/messages", "{}"); status != 0 {
		t.Errorf("after the turn: %d %s", status, what)
	}
}

func TestNothingButModelCallsToThePinnedServiceIsForwarded(t *testing.T) {
	req.Covers(t, "AG-030", "CM-031")
	r := newRig(t, model.Anthropic, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
	})
	for _, c := range [][2]string{
		{"GET", "/v1/files"},
		{"POST", "/v1/messages/batches"},
		{"DELETE", "/v1/messages"},
		{"GET", "/v1/organizations/api_keys"},
		{"POST", "/v1/messages/../files"},
		{"POST", "/v1/responses"},
		{"GET", "/v1/models/a/b"},
		{"POST", "//evil.example/v1/messages"},
	} {
		if status, _, _ := r.ask(t, c[0], c[1], "{}"); status != http.StatusNotFound {
			t.Errorf("%s %s: %d", c[0], c[1], status)
		}
	}
	if n := len(r.up.requests()); n != 0 {
		t.Fatalf("%d of them reached the service", n)
	}
	status, head, _ := r.ask(t, "POST", "/v1/messages", "{}")
	if status != http.StatusBadGateway || head.Get("Location") != "" || len(r.up.requests()) != 1 {
		t.Errorf("a redirection: %d %v, %d calls", status, head, len(r.up.requests()))
	}
	for _, raw := range []string{
		"POST http://127.0.0.1:1/v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + key + "\r\nContent-Length: 0\r\n\r\n",
		"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\nX-Api-Key: " + key + "\r\n\r\n",
	} {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, raw)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%.20s: %v %v", raw, resp, err)
		}
		_ = conn.Close()
	}
	if n := len(r.up.requests()); n != 1 {
		t.Errorf("%d calls reached the service", n)
	}
}

func TestUpstreamAddressesHaveOneForm(t *testing.T) {
	for in, want := range map[string]string{
		"https://api.openai.com/v1/": "https://api.openai.com", "https://x.example/api/v1": "https://x.example/api",
		"http://127.0.0.1:9/v1": "http://127.0.0.1:9", " https://h ": "https://h",
	} {
		if u, err := gateway.Upstream(in); err != nil || u.String() != want {
			t.Errorf("%q: %v, %v", in, u, err)
		}
	}
	for _, in := range []string{"", "api.openai.com", "http://api.openai.com", "https://u:p@h", "https://h?x=1", "https://h#f", "file:///etc", "https:opaque"} {
		if u, err := gateway.Upstream(in); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q is taken as %v", in, u)
		}
	}
}

func TestTokensAreCountedFromEveryWireFormat(t *testing.T) {
	req.Covers(t, "AG-030")
	object := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, s)
		}
	}
	for name, c := range map[string]struct {
		wire   model.Wire
		path   string
		answer http.HandlerFunc
		want   model.Usage
	}{
		"messages":        {model.Anthropic, "/v1/messages", sse(anthropicAnswer...), model.Usage{Model: "claude-x", Input: 11, Output: 7, CacheRead: 5, CacheWrite: 3}},
		"messages object": {model.Anthropic, "/v1/messages", object(`{"type":"message","model":"claude-x","usage":{"input_tokens":2,"output_tokens":4}}`), model.Usage{Model: "claude-x", Input: 2, Output: 4}},
		"responses": {
			model.OpenAI, "/v1/responses", sse(`{"type":"response.created","response":{"model":"gpt-x","usage":null}}`,
				`{"type":"response.output_text.delta","delta":"hi"}`,
				`{"type":"response.completed","response":{"model":"gpt-x","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":9}}}`),
			model.Usage{Model: "gpt-x", Input: 40, CacheRead: 60, Output: 9},
		},
		"chat": {
			model.OpenAI, "/v1/chat/completions", sse(`{"model":"gpt-y","choices":[{"delta":{"content":"x"}}]}`,
				`{"model":"gpt-y","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}`, `[DONE]`),
			model.Usage{Model: "gpt-y", Input: 6, CacheRead: 2, Output: 3},
		},
		"chat object": {model.OpenAI, "/v1/chat/completions", object(`{"model":"gpt-y","usage":{"prompt_tokens":1,"completion_tokens":2}}`), model.Usage{Model: "gpt-y", Input: 1, Output: 2}},
	} {
		r := newRig(t, c.wire, c.answer)
		for range 2 {
			if status, _, body := r.ask(t, "POST", c.path, "{}"); status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, status, body)
			}
		}
		one := c.want
		one.Credential, one.Requests = "mine", 1
		want := one.Add(one)
		if got := r.gateway.Usage(); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if f := r.gateway.Last(); f != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestAChunkIsWithTheAgentBeforeTheNextIsSent(t *testing.T) {
	next := make(chan struct{})
	r := newRig(t, model.Anthropic, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": first\n\n")
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, "data: {\"type\":\"message_stop\"}\n\n")
	})
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/messages", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", key)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	if line, err := in.ReadString('\n'); err != nil || line != ": first\n" {
		t.Fatalf("%q %v", line, err)
	}
	close(next) // the service goes on only after the agent has read
	rest, err := io.ReadAll(in)
	if err != nil || !strings.Contains(string(rest), "message_stop") {
		t.Errorf("%q %v", rest, err)
	}
}

func TestAFailedCallLeavesTypedEvidence(t *testing.T) {
	req.Covers(t, "FC-001", "FC-002")
	status := func(code int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	hang := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  turn.Class
		after  time.Duration
		says   string
	}{
		"429 with a delay":       {status(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`, "Retry-After", "17"), turn.Overload, 17 * time.Second, "slow"},
		"429 without":            {status(429, `junk`), turn.Overload, 0, "429"},
		"529":                    {status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, "Request-Id", "req_9"), turn.Overload, 0, "req_9"},
		"500":                    {status(500, ``), turn.Overload, 0, "500"},
		"401":                    {status(401, `{"error":{"message":"Incorrect API key provided: sk-can*****4711"}}`), turn.FatalAuth, 0, "mine"},
		"spent":                  {status(429, `{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your quota"}}`), turn.FatalAuth, 0, "quota"},
		"400":                    {status(400, `{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}`), turn.FatalConfig, 0, "bad"},
		"404":                    {status(404, `{"error":{"type":"not_found_error","message":"model: nope"}}`), turn.FatalConfig, 0, "nope"},
		"overload in mid-stream": {sse(anthropicAnswer[0], `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), turn.Overload, 0, "overloaded_error"},
		"cut off":                {hang, turn.Network, 0, "cut off"},
		"ended early":            {sse(anthropicAnswer[:2]...), turn.Network, 0, "before it was complete"},
	} {
		r := newRig(t, model.Anthropic, c.answer)
		_, _, body := r.ask(t, "POST", "/v1/messages", "{}")
		f := r.gateway.Last()
		if f == nil {
			t.Errorf("%s: no evidence; the agent read %q", name, body)
			continue
		}
		if f.Class != c.class || f.RetryAfter != c.after || !strings.Contains(f.Reason, c.says) {
			t.Errorf("%s: %+v", name, f)
		}
		if strings.Contains(f.Reason+body, "sk-can") {
			t.Errorf("%s: part of the credential is repeated: %s %s", name, f.Reason, body)
		}
		r.gateway.Begin()
		if r.gateway.Last() != nil {
			t.Errorf("%s: evidence of an earlier run stays", name)
		}
	}
	r := newRig(t, model.OpenAI, sse(`{"type":"response.failed","response":{"error":{"code":"server_is_overloaded","message":"later"}}}`))
	r.ask(t, "POST", "/v1/responses", "{}")
	if f := r.gateway.Last(); f == nil || f.Class != turn.Overload {
		t.Errorf("responses: %+v", f)
	}
	r.up.Close()
	r.ask(t, "POST", "/v1/responses", "{}")
	if f := r.gateway.Last(); f == nil || f.Class != turn.Network {
		t.Errorf("nobody listens: %+v", f)
	}
}

func TestACallWithoutPermissionIsNotSent(t *testing.T) {
	req.Covers(t, "AG-030")
	var no error
	r := newRig(t, model.Anthropic, sse(anthropicAnswer...), func(g *gateway.Gateway) {
		g.Permit = func(context.Context) error { return no }
	})
	for _, c := range []struct {
		err    error
		status int
		class  turn.Class
	}{
		{fault.New(fault.Unavailable, "nobody answers"), http.StatusServiceUnavailable, turn.Unreachable},
		{fault.New(fault.Denied, "a ground stop is in force"), http.StatusForbidden, turn.FatalConfig},
	} {
		no = c.err
		status, _, body := r.ask(t, "POST", "/v1/messages", "{}")
		if f := r.gateway.Last(); status != c.status || f == nil || f.Class != c.class || !strings.Contains(body, fault.Of(c.err).Public) {
			t.Errorf("%v: %d %s %+v", c.err, status, body, f)
		}
	}
	if n := len(r.up.requests()); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
}

func TestWhatAServiceSaysOfLimitsIsKeptAsReceived(t *testing.T) {
	r := newRig(t, model.Anthropic, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Anthropic-Ratelimit-Unified-5h-Utilization", "0.91")
		w.Header().Set("Set-Cookie", "a=b")
		sse(anthropicAnswer...)(w, r)
	})
	_, head, _ := r.ask(t, "POST", "/v1/messages", "{}")
	got := r.gateway.Readings()
	if len(got) != 1 || got[0].Credential != "mine" || got[0].Headers["anthropic-ratelimit-unified-5h-utilization"] != "0.91" || len(got[0].Headers) != 1 {
		t.Errorf("%+v", got)
	}
	if head.Get("Set-Cookie") != "" || head.Get("Request-Id") != "req_1" {
		t.Errorf("headers for the agent: %v", head)
	}
}

func TestNothingOfABodyIsLogged(t *testing.T) {
	req.Covers(t, "P8")
	r := newRig(t, model.Anthropic, sse(append(anthropicAnswer, `{"type":"content_block_delta","delta":{"text":"canary-answer"}}`)...))
	if status, _, _ := r.ask(t, "POST", "/v1/messages", `{"prompt":"canary-question"}`); status != http.StatusOK {
		t.Fatal(status)
	}
	r.stop()
	if s := r.log.String(); strings.Contains(s, "canary") || !strings.Contains(s, `"output":7`) {
		t.Errorf("log: %s", s)
	}
}
