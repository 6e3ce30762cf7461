// Package planetest is a control plane for tests of what talks to one: stateful
// and strict, over real HTTP. It keeps what it was told and refuses what a real
// one refuses.
package planetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// The credentials it hands out. They are what must never be seen elsewhere.
const (
	Nonce       = "lzn_local_canarynonce0123456789"
	RunnerToken = "lzy_runner_local_canaryrunnertoken_1"
	TaskToken   = "lzy_task_local_canarytasktoken_1"
)

// Call is a tool call that arrived.
type Call struct {
	Tool      string
	Arguments json.RawMessage
	Turn      string
	Epoch     int64
	Key       string
	Commit    *identity.Commit
	Header    http.Header
}

// Plane is the control plane. Its fields may be set before use, and read and
// changed under Do afterwards.
type Plane struct {
	t     testing.TB
	state string

	mu      sync.Mutex
	srv     *httptest.Server
	Command turn.Command
	Tip     string

	Used      bool // the nonce
	HelloKey  string
	Hellos    int // each one that was welcomed
	LoseHello int // answers to hello that are lost on their way
	Alarms    int
	Rotated   string // the task's token from then on, when it is not TaskToken
	Tokens    int    // how often it was asked for anew
	Refusing  bool   // no token of the task is taken
	Refused   int    // tool calls whose token was not taken
	Beats     []turn.BeatIn
	Reports   []turn.Response // each one stored
	Posted    int             // each one that arrived
	Git       []turn.GitIn
	Calls     []Call
	Rows      map[string]identity.Commit // by commit

	Vault     *Vault        // nil for a workspace that outlives its runs
	Model     *model.Access // part of the answer to hello
	NoModel   string        // answered on the next beats
	Silent    bool          // beats are not answered
	Stop      string        // answered on the next beats
	Handover  string        // answered on a beat that tells of a lost conversation
	Fenced    bool
	Refuse    error                                       // answer of the next reports
	RefuseFor int                                         // how many
	Cut       map[string]string                           // tool → "before" or "after" the row: break the connection
	Tool      func(c Call) (structured any, err error)    // other tools
	Hold      map[string]chan struct{}                    // tool → wait for this before answering
	Hook      func(op string, w http.ResponseWriter) bool // true: answered
	changed   chan struct{}
}

// New starts a control plane whose state directory is state.
func New(t testing.TB, state string, c turn.Command) *Plane {
	p := &Plane{t: t, state: state, Command: c, Tip: c.Tip, Rows: map[string]identity.Commit{}, changed: make(chan struct{})}
	p.Start("127.0.0.1:0")
	t.Cleanup(p.Down)
	return p
}

// Start listens at addr and writes where.
func (p *Plane) Start(addr string) {
	p.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		p.t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(p)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	p.mu.Lock()
	p.srv = s
	p.mu.Unlock()
	b, _ := json.Marshal(map[string]any{"url": s.URL, "pid": os.Getpid()})
	if err := os.WriteFile(filepath.Join(p.state, "plane.json"), b, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// Down stops answering.
func (p *Plane) Down() {
	p.mu.Lock()
	s := p.srv
	p.srv = nil
	p.mu.Unlock()
	if s != nil {
		s.CloseClientConnections()
		s.Close()
	}
}

// URL is the present address.
func (p *Plane) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.srv == nil {
		return "http://127.0.0.1:1"
	}
	return p.srv.URL
}

// Do reads or changes the plane's state.
func (p *Plane) Do(f func(p *Plane)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
	p.tell()
}

func (p *Plane) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Until waits until ok holds; the test's own deadline is the only limit of
// meaning, this one only ends a hung test.
func (p *Plane) Until(what string, ok func(p *Plane) bool) {
	p.t.Helper()
	late := time.After(90 * time.Second)
	for {
		p.mu.Lock()
		done, next := ok(p), p.changed
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-next:
		case <-late:
			p.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// Report waits for the run's report.
func (p *Plane) Report() turn.Response {
	p.t.Helper()
	var r turn.Response
	p.Until("the run reported", func(p *Plane) bool {
		if len(p.Reports) == 0 {
			return false
		}
		r = p.Reports[0]
		return true
	})
	return r
}

// ServeHTTP answers as the runner and tool routes do.
func (p *Plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/store/") {
		p.storage(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if op, ok := strings.CutPrefix(r.URL.Path, "/runner/"); ok && r.Method == http.MethodPost {
		p.runner(w, r, op, body)
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if len(parts) == 3 && parts[0] == "mcp" && r.Method == http.MethodPost {
		p.tool(w, r, parts[1], parts[2], body)
		return
	}
	send(w, envelope.Refuse(fault.New(fault.NotFound, "no route %s", r.URL.Path), nil, ""))
}

func send(w http.ResponseWriter, r envelope.Reply) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body)
}

func strict[T any](body []byte) (T, error) {
	var v T
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, fault.New(fault.Invalid, "body: %v", err)
	}
	return v, nil
}

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

func (p *Plane) runner(w http.ResponseWriter, r *http.Request, op string, body []byte) {
	out, done, err := p.locked(w, r, op, body)
	if done {
		return
	}
	if err != nil {
		send(w, envelope.Refuse(err, envelope.To("runner", identity.Runner), "q"))
		return
	}
	b, _ := json.Marshal(out)
	send(w, envelope.Reply{Status: 200, Body: b})
}

func (p *Plane) locked(w http.ResponseWriter, r *http.Request, op string, body []byte) (out any, done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Hook != nil && p.Hook(op, w) {
		return nil, true, nil
	}
	defer p.tell()
	out, err = p.answerRunner(r, op, body)
	return out, false, err
}

func (p *Plane) answerRunner(r *http.Request, op string, body []byte) (any, error) {
	if op == "hello" {
		h, err := strict[turn.Hello](body)
		switch {
		case err != nil:
			return nil, err
		case bearer(r) != "":
			return nil, fault.New(fault.Invalid, "hello carries no credential")
		case h.Nonce != Nonce:
			return nil, refusal.Of(refusal.Unauthenticated)
		case p.Used && (h.Key == "" || h.Key != p.HelloKey):
			p.Alarms++
			return nil, refusal.Of(refusal.Unauthenticated)
		case h.PID == 0 || h.Started == "" || h.Version == "":
			return nil, fault.New(fault.Invalid, "hello without identity: %+v", h)
		}
		p.Used, p.HelloKey = true, h.Key
		p.Hellos++
		if p.LoseHello > 0 {
			p.LoseHello--
			panic(http.ErrAbortHandler)
		}
		return turn.Welcome{RunnerToken: RunnerToken, TaskToken: TaskToken, Command: p.Command, Model: p.Model, Vault: p.welcome()}, nil
	}
	if bearer(r) != RunnerToken {
		return nil, refusal.Of(refusal.Unauthenticated)
	}
	switch op {
	case "beat":
		b, err := strict[turn.BeatIn](body)
		if err != nil {
			return nil, err
		}
		if b.Turn != p.Command.Turn || b.Epoch != p.Command.Epoch {
			return nil, fault.New(fault.Invalid, "beat of another run")
		}
		if p.Fenced {
			return nil, refusal.Of(refusal.Fenced, make([]any, refusal.Slots(refusal.Fenced))...)
		}
		if p.Silent {
			return nil, fault.New(fault.Unavailable, "no answer")
		}
		p.Beats = append(p.Beats, b)
		if b.Lost != "" {
			return turn.BeatOut{ModelUntil: p.Command.Deadline, Handover: p.Handover}, nil
		}
		return turn.BeatOut{Stop: p.Stop, NoModel: p.NoModel, ModelUntil: p.Command.Deadline}, nil
	case "report":
		p.Posted++
		resp, err := strict[turn.Response](body)
		if err != nil {
			return nil, err
		}
		if resp.Turn != p.Command.Turn || resp.Epoch != p.Command.Epoch {
			return nil, fault.New(fault.Invalid, "report of another run")
		}
		if p.RefuseFor > 0 {
			p.RefuseFor--
			return nil, p.Refuse
		}
		if len(p.Reports) == 0 {
			p.Reports = append(p.Reports, resp)
		}
		return turn.Ack{Stored: true, History: p.Fenced}, nil
	case "upload":
		return p.upload(body)
	case "token":
		in, err := strict[turn.TokenIn](body)
		if err != nil {
			return nil, err
		}
		if in.Turn != p.Command.Turn || in.Epoch != p.Command.Epoch {
			return nil, fault.New(fault.Invalid, "token of another run")
		}
		p.Tokens++
		if p.Rotated == "" {
			return turn.TokenOut{TaskToken: TaskToken}, nil
		}
		return turn.TokenOut{TaskToken: p.Rotated}, nil
	case "git":
		in, err := strict[turn.GitIn](body)
		if err != nil {
			return nil, err
		}
		p.Git = append(p.Git, in)
		if in.Op == "merge_commit" {
			if in.Parent != p.Tip {
				return nil, fault.New(fault.Conflict, "the tip is %s", p.Tip)
			}
			p.Tip = in.Commit
		}
		return turn.GitOut{Tip: p.Tip, Allowed: true}, nil
	}
	return nil, fault.New(fault.NotFound, "no operation %s", op)
}

func (p *Plane) tool(w http.ResponseWriter, r *http.Request, segment, tool string, body []byte) {
	framed := r.Header.Get(names.HeaderHeartbeat) != ""
	c, err := p.arrive(r, segment, tool, body)
	if err != nil {
		send(w, envelope.Refuse(err, envelope.To("mcp", identity.Task), "q"))
		return
	}
	var out *envelope.Writer
	if framed {
		w.Header().Set("Content-Type", envelope.ContentType)
		out = envelope.NewWriter(w, func() { _ = http.NewResponseController(w).Flush() })
		_ = out.Open()
	}
	p.mu.Lock()
	cut, hold := p.Cut[tool], p.Hold[tool]
	delete(p.Cut, tool)
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if cut == "before" {
		panic(http.ErrAbortHandler)
	}
	reply := p.result(c)
	if cut == "after" {
		panic(http.ErrAbortHandler)
	}
	if out != nil {
		_ = out.Close(reply)
		return
	}
	send(w, reply)
}

// arrive checks what must hold for every relayed call.
func (p *Plane) arrive(r *http.Request, segment, tool string, body []byte) (Call, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := TaskToken
	if p.Rotated != "" {
		want = p.Rotated
	}
	if p.Refusing || bearer(r) != want {
		p.Refused++
		return Call{}, refusal.Of(refusal.Unauthenticated)
	}
	if segment != string(p.Command.Task) {
		return Call{}, fault.New(fault.Denied, "segment %q is not the token's task", segment)
	}
	in, err := strict[struct {
		Arguments json.RawMessage `json:"arguments"`
	}](body)
	if err != nil {
		return Call{}, err
	}
	c := Call{Tool: tool, Arguments: in.Arguments, Turn: r.Header.Get(names.HeaderTurn), Key: r.Header.Get(names.HeaderIdempotency), Header: r.Header.Clone()}
	c.Epoch, _ = strconv.ParseInt(r.Header.Get(names.HeaderEpoch), 10, 64)
	if h := r.Header.Get(names.HeaderCommit); h != "" {
		if err := json.Unmarshal([]byte(h), &c.Commit); err != nil {
			return Call{}, fault.New(fault.Invalid, "commit stamp: %v", err)
		}
	}
	if c.Turn != string(p.Command.Turn) || c.Epoch != p.Command.Epoch || c.Key == "" {
		return Call{}, fault.New(fault.Invalid, "call without stamps: %q %d %q", c.Turn, c.Epoch, c.Key)
	}
	p.Calls = append(p.Calls, c)
	p.tell()
	return c, nil
}

func (p *Plane) result(c Call) envelope.Reply {
	out, err := p.handle(c)
	if err != nil {
		status, e := envelope.Render(err, envelope.To("mcp", identity.Task), "q")
		b, _ := json.Marshal(map[string]any{
			"content": []map[string]string{{"type": "text", "text": e.Text()}}, "structuredContent": map[string]any{"error": e}, "isError": true,
		})
		return envelope.Reply{Status: status, Body: b}
	}
	b, _ := json.Marshal(map[string]any{
		"content": []map[string]string{{"type": "text", "text": fmt.Sprint(out)}}, "structuredContent": out, "isError": false,
	})
	return envelope.Reply{Status: 200, Body: b}
}

func (p *Plane) handle(c Call) (any, error) {
	if c.Tool != "lazy_commit" && p.Tool != nil {
		return p.Tool(c)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	switch c.Tool {
	case "lazy_commit":
		ev := c.Commit
		if ev == nil {
			return nil, fault.New(fault.Denied, "no evidence")
		}
		if _, done := p.Rows[ev.Commit]; !done {
			if ev.Parent != p.Tip {
				return nil, fault.New(fault.Conflict, "the recorded head is %s", p.Tip)
			}
			if err := p.stored(ev); err != nil {
				return nil, err
			}
			p.Rows[ev.Commit], p.Tip = *ev, ev.Commit
		}
		return map[string]any{"commit": ev.Commit, "durable": true, "drifted": ev.Drifted}, nil
	case "lazy_final":
		return map[string]any{"sha": p.Tip}, nil
	}
	return map[string]any{"tool": c.Tool}, nil
}
