package agentcli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const task = "3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10"

// supervisorAt serves h on a unix socket.
func supervisorAt(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mcp") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(dir, "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done; _ = os.RemoveAll(dir) })
	return sock
}

// session is an MCP client on the other end of the pipes.
type session struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *bufio.Scanner
	errs *bytes.Buffer
	done chan int
}

func program() Program {
	return Program{Version: "1.2.3", Revision: "abc", Catalogue: op.Default, Now: time.Now, NewID: func() string { return "k" }}
}

func start(t *testing.T, socket string, args ...string) *session {
	t.Helper()
	in, toIn := io.Pipe()
	fromOut, out := io.Pipe()
	s := &session{t: t, in: toIn, out: bufio.NewScanner(fromOut), errs: &bytes.Buffer{}, done: make(chan int, 1)}
	s.out.Buffer(nil, 16<<20)
	env := func(name string) string {
		return map[string]string{names.EnvSocket: socket}[name]
	}
	go func() {
		code := program().Main(t.Context(), append([]string{"mcp", "--task-id", task, "--worktree", "/x"}, args...), env, Stdio{In: in, Out: out, Err: s.errs})
		_ = out.Close()
		s.done <- code
	}()
	t.Cleanup(func() {
		_ = toIn.Close()
		for s.out.Scan() {
		}
		<-s.done
	})
	return s
}

func (s *session) send(lines ...string) {
	s.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(s.in, l+"\n"); err != nil {
			s.t.Fatal(err)
		}
	}
}

type answer struct {
	ID     any
	Method string
	Params map[string]any
	Result map[string]any
	Error  *struct {
		Code    int
		Message string
		Data    map[string]any
	}
}

func (s *session) next() answer {
	s.t.Helper()
	if !s.out.Scan() {
		s.t.Fatalf("no further message: %v", s.out.Err())
	}
	var a answer
	var v struct {
		JSONRPC string `json:"jsonrpc"`
	}
	if err := json.Unmarshal(s.out.Bytes(), &v); err != nil || v.JSONRPC != "2.0" {
		s.t.Fatalf("message %s", s.out.Bytes())
	}
	if err := json.Unmarshal(s.out.Bytes(), &a); err != nil {
		s.t.Fatal(err)
	}
	return a
}

func call(id, tool, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

func ok(w http.ResponseWriter, structured string) {
	fmt.Fprintf(w, `{"content":[{"type":"text","text":"fine"}],"structuredContent":%s,"isError":false}`, structured)
}

func TestTheProtocolIsSpokenWhileStdinIsOpen(t *testing.T) {
	req.Covers(t, "MC-001", "WF-19")
	s := start(t, supervisorAt(t, func(w http.ResponseWriter, _ *http.Request) { ok(w, `{}`) }))
	for _, c := range []struct{ asked, want string }{
		{"2025-11-25", "2025-11-25"}, {"2025-06-18", "2025-06-18"}, {"2024-11-05", "2024-11-05"}, {"2026-07-28", "2025-11-25"}, {"", "2025-11-25"},
	} {
		s.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"` + c.asked + `","capabilities":{}}}`)
		a := s.next()
		if a.ID != "i" || a.Result["protocolVersion"] != c.want || a.Result["capabilities"].(map[string]any)["tools"] == nil {
			t.Errorf("initialize %q: %+v", c.asked, a)
		}
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for _, c := range []struct {
		line string
		code int
	}{
		{`{"jsonrpc":"2.0","id":7,"method":"ping"}`, 0},
		{`{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, codeMethod},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}`, codeParams},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}`, codeParams},
		{`{not json`, codeParse},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, codeRequest},
		{`{"id":1,"method":"ping"}`, codeRequest},
		{`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, codeRequest},
		{`{"jsonrpc":"2.0","id":1,"method":5}`, codeRequest},
		{strings.Repeat("x", lineMost+10), codeRequest},
		{`{"jsonrpc":"2.0","id":7,"method":"ping"}`, 0},
	} {
		s.send(c.line)
		a := s.next()
		if c.code == 0 && (a.Error != nil || a.ID != float64(7)) || c.code != 0 && (a.Error == nil || a.Error.Code != c.code) {
			t.Errorf("%.60s: %+v %+v", c.line, a, a.Error)
		}
	}
	_ = s.in.Close()
	if s.out.Scan() {
		t.Errorf("after stdin ended: %s", s.out.Bytes())
	}
	if code := <-s.done; code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.done <- 0
}

func TestTaskAgentsAreOfferedTheirOwnSet(t *testing.T) {
	req.Covers(t, "MC-004", "MC-006", "MC-027", "AG-010")
	sock := supervisorAt(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(403)
		_, _ = io.WriteString(w, `{"error":{"code":"builder_only","message":"not for `+r.URL.Path+`","next":["do that"],"details":{}}}`)
	})
	names := func(s *session) []string {
		s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		var got []string
		for _, v := range s.next().Result["tools"].([]any) {
			tool := v.(map[string]any)
			if tool["description"] == "" || tool["inputSchema"].(map[string]any)["type"] != "object" {
				t.Errorf("tool %v", tool)
			}
			got = append(got, tool["name"].(string))
		}
		return got
	}
	var all, reads []string
	for _, o := range op.Default().All() {
		if o.Tool != "" && o.Agent {
			all = append(all, o.Tool)
			if o.Effect == op.Read {
				reads = append(reads, o.Tool)
			}
		}
	}
	full := start(t, sock)
	if got := names(full); !slices.Equal(got, all) {
		t.Errorf("offered %v, want %v", got, all)
	}
	narrow := start(t, sock, "--read-only")
	if got := names(narrow); !slices.Equal(got, reads) || len(reads) == 0 || slices.Contains(got, "lazy_commit") {
		t.Errorf("offered %v, want %v", got, reads)
	}
	narrow.send(call("2", "lazy_commit", `{"message":"m"}`), call("3", "lazy_never_heard", `{}`))
	for range 2 {
		if a := narrow.next(); a.Result["isError"] != true || !strings.Contains(fmt.Sprint(a.Result), "read_only_turn") {
			t.Errorf("a write: %+v", a)
		}
	}
	full.send(call("4", "lazy_internal_git", `{}`)) // hidden, and its refusal explains
	if a := full.next(); a.Result["isError"] != true || !strings.Contains(fmt.Sprint(a.Result["content"]), "do that") {
		t.Errorf("a hidden tool: %+v", a)
	}
}

func TestASlowCallDelaysNoOther(t *testing.T) {
	req.Covers(t, "MC-003", "MC-002")
	release := make(chan struct{})
	n := 0
	var mu sync.Mutex
	s := start(t, supervisorAt(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/lazy_list") {
			<-release
		}
		mu.Lock()
		n++
		v := n
		mu.Unlock()
		ok(w, fmt.Sprintf(`{"n":%d}`, v))
	}))
	s.send(call("1", "lazy_list", `{}`), call("2", "lazy_status", `{}`), call("3", "lazy_status", `{}`))
	seen := map[any]any{}
	for range 2 {
		a := s.next()
		seen[a.ID] = a.Result["structuredContent"].(map[string]any)["n"]
	}
	if len(seen) != 2 || seen[float64(1)] != nil || seen[float64(2)] == seen[float64(3)] {
		t.Errorf("answered %v", seen) // two fresh reads, and the slow call not yet
	}
	close(release)
	if a := s.next(); a.ID != float64(1) {
		t.Errorf("the slow call: %+v", a)
	}
}

func TestResultsAndErrorDataPassUnchanged(t *testing.T) {
	req.Covers(t, "AG-024", "RP-016")
	var sent atomic.Value
	s := start(t, supervisorAt(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		sent.Store(r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(b))
		switch {
		case strings.HasSuffix(r.URL.Path, "lazy_show"):
			ok(w, `{"deep":{"n":9007199254740993},"s":"\u0000é"}`)
		case strings.HasSuffix(r.URL.Path, "lazy_diff"):
			w.WriteHeader(409)
			_, _ = io.WriteString(w, `{"content":[{"type":"text","text":"busy"}],"structuredContent":{"error":{"code":"task_busy","message":"busy","next":[],"details":{"who":"ada"}}},"isError":true}`)
		default:
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"error":"x: expected a string, got 1","fields":[{"path":"x","problem":"expected a string"}]}`)
		}
	}))
	s.send(call("1", "lazy_show", `{"task_id":"t"}`))
	s.next()
	if line := s.out.Text(); !strings.Contains(line, `"n":9007199254740993`) || !strings.Contains(line, `"s":"\u0000é"`) {
		t.Errorf("result: %s", line)
	}
	if want := "/mcp/" + task + `/lazy_show  {"arguments":{"task_id":"t"}}`; sent.Load() != want {
		t.Errorf("sent %q, want %q", sent.Load(), want)
	}
	s.send(call("2", "lazy_diff", `{"task_id":"t"}`))
	if a := s.next(); a.Result["isError"] != true || !strings.Contains(s.out.Text(), `"details":{"who":"ada"}`) {
		t.Errorf("refusal: %s", s.out.Text())
	}
	s.send(call("3", "lazy_status", `{}`))
	if a := s.next(); a.Error == nil || a.Error.Code != codeParams || a.Error.Data["fields"] == nil {
		t.Errorf("rejection: %s", s.out.Text())
	}
	sent.Store("")
	s.send(call("4", "lazy_commit", `{"files":"x","more":1}`))
	if a := s.next(); a.Error == nil || a.Error.Code != codeParams || sent.Load() != "" || !strings.Contains(a.Error.Message, "message") {
		t.Errorf("invalid arguments: %s, sent %q", s.out.Text(), sent.Load())
	}
}

func TestProgressCountsUpOnlyForACallThatAskedAndNeverAfterItsResult(t *testing.T) {
	req.Covers(t, "MC-022", "WF-02")
	s := start(t, supervisorAt(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(names.HeaderHeartbeat) == "" {
			t.Error("no heartbeats were asked for")
		}
		w.Header().Set("Content-Type", envelope.ContentType)
		e := envelope.NewWriter(w, func() { _ = http.NewResponseController(w).Flush() })
		_ = e.Open()
		for range 3 {
			_ = e.Beat()
		}
		_ = e.Close(envelope.Reply{Status: 200, Body: json.RawMessage(`{"content":[{"type":"text","text":"x"}],"isError":false}`)})
	}))
	for _, token := range []string{`"tok"`, `7`} {
		s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lazy_status","arguments":{},"_meta":{"progressToken":` + token + `}}}`)
		for want := 1.0; ; want++ {
			a := s.next()
			if a.Method == "" {
				if want < 5 || a.Result == nil {
					t.Errorf("after %v: %+v", want, a)
				}
				break
			}
			b, _ := json.Marshal(a.Params["progressToken"])
			if a.Method != "notifications/progress" || a.Params["progress"] != want || string(b) != token {
				t.Errorf("notification %+v, want %v", a, want)
			}
		}
	}
	s.send(call("2", "lazy_status", `{}`))
	if a := s.next(); a.Method != "" || a.ID != float64(2) {
		t.Errorf("without a token: %+v", a)
	}
}

func TestACancelationIsNotedAndTheCallGoesOn(t *testing.T) {
	req.Covers(t, "MC-024")
	release, arrived := make(chan struct{}), make(chan struct{})
	var gone atomic.Bool
	s := start(t, supervisorAt(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		gone.Store(r.Context().Err() != nil)
		ok(w, `{"done":true}`)
	}))
	s.send(call("1", "lazy_accept", `{"task_id":"t"}`))
	<-arrived
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"why"}}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	s.next()
	close(release)
	if a := s.next(); a.ID != float64(1) || a.Result["isError"] != false || gone.Load() {
		t.Errorf("the call: %+v, gone %v", a, gone.Load())
	}
	if !strings.Contains(s.errs.String(), "canceled") {
		t.Errorf("log: %s", s.errs)
	}
}

func TestALostAnswerIsReportedAndTheCallNotRepeated(t *testing.T) {
	req.Covers(t, "MC-011")
	var n atomic.Int64
	s := start(t, supervisorAt(t, func(http.ResponseWriter, *http.Request) {
		n.Add(1)
		panic(http.ErrAbortHandler)
	}))
	s.send(call("1", "lazy_commit", `{"message":"m"}`))
	if a := s.next(); a.Result["isError"] != true || !strings.Contains(fmt.Sprint(a.Result["content"]), "may have been done") || n.Load() != 1 {
		t.Errorf("%+v after %d", a, n.Load())
	}
}

func TestAPanicAnswersItsRequestAndTheServerStaysUp(t *testing.T) {
	req.Covers(t, "MC-016")
	var out bytes.Buffer
	m := &server{cat: nil, out: &out, log: slog.New(slog.DiscardHandler)} // listing panics on no catalogue
	in := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	if err := m.serve(t.Context(), strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	if err := m.serve(t.Context(), strings.NewReader(strings.Replace(in, "tools/list", "ping", 1))); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "-32603") || !strings.Contains(lines[1], `"result":{}`) {
		t.Errorf("answers: %q", lines)
	}
}

func TestACallWaitsForASupervisorThatIsNotThereYet(t *testing.T) {
	req.Covers(t, "MC-010")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		tries := []time.Duration{}
		tools := &client.ToolClient{Base: "http://x", Segment: task, NewID: func() string { return "k" }, HTTP: &http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				tries = append(tries, time.Since(began))
				return nil, fault.New(fault.Unavailable, "nobody there")
			},
		}}}
		var out bytes.Buffer
		m := &server{cat: op.Default(), tools: tools, out: &out, log: slog.New(slog.DiscardHandler), window: names.ReconnectWindow}
		err := m.serve(t.Context(), strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lazy_status","arguments":{},"_meta":{"progressToken":1}}}`+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if tries[1] != 250*time.Millisecond || tries[2] != 750*time.Millisecond || time.Since(began) != names.ReconnectWindow {
			t.Errorf("tries %v, gave up after %s", tries[:3], time.Since(began))
		}
		for i := range tries[1:] {
			if gap := tries[i+1] - tries[i]; gap > names.ReconnectMost {
				t.Errorf("a pause of %s", gap)
			}
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(tries) || !strings.Contains(lines[len(lines)-1], "cannot be reached") {
			t.Errorf("%d tries, %d messages, the last %s", len(tries), len(lines), lines[len(lines)-1])
		}
	})
}

func FuzzTheServerAnswersOrIgnoresAnyLine(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lazy_nothing","arguments":{},"_meta":{"progressToken":{}}}}`))
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"ping\"}\n[]\nnull\n1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		tools := &client.ToolClient{Base: "http://x", HTTP: &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, io.EOF
		}}}}
		m := &server{cat: op.Default(), tools: tools, out: &out, log: slog.New(slog.DiscardHandler)}
		if err := m.serve(t.Context(), bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Fatalf("answered %q", line)
			}
		}
	})
}
