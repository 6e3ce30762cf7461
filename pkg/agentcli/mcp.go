package agentcli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// revisions are the protocol revisions this server speaks, newest first.
func revisions() []string {
	return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
}

// JSON-RPC error codes (WF-19).
const (
	codeParse    = -32700
	codeRequest  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeInternal = -32603
)

// lineMost is the longest message read.
const lineMost = names.BodyMax + 1<<20

// mcp serves the task's tools over stdio while stdin is open (MC-001).
func (p Program) mcp(ctx context.Context, args []string, getenv func(string) string, s Stdio) error {
	f := flags("mcp", s)
	task := f.String("task-id", getenv(names.EnvTask), "the task")
	_ = f.String("worktree", "", "its worktree")
	ro := f.Bool("read-only", false, "offer reads only")
	if err := parse(f, args, false); err != nil {
		return err
	}
	if !id.IsTask(*task) {
		return fault.New(fault.Invalid, "lazy-agent mcp needs --task-id with a full task id, got %q", *task)
	}
	c, err := p.tools(getenv, client.Wait{})
	if err != nil {
		return err
	}
	c.Segment = *task
	m := &server{
		cat: p.Catalogue(), tools: c, readOnly: readOnly(*ro, getenv), version: p.Version, out: s.Out,
		log: slog.New(slog.NewTextHandler(s.Err, nil)), window: names.ReconnectWindow,
	}
	return m.serve(ctx, s.In)
}

// server is one MCP session. Nothing about tasks is kept in it (MC-002).
type server struct {
	cat      *op.Catalogue
	tools    *client.ToolClient
	readOnly bool
	version  string
	log      *slog.Logger
	window   time.Duration // how long a call waits for a supervisor that is not there yet

	mu  sync.Mutex
	out io.Writer // guarded by mu
}

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

// serve reads messages until stdin ends, each request in a goroutine of its own,
// so that a call of minutes delays no other (MC-003). Answers under way are
// written before it returns.
func (m *server) serve(ctx context.Context, in io.Reader) error {
	var live sync.WaitGroup
	defer live.Wait()
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r)
		if errors.Is(err, errLong) {
			m.fail(json.RawMessage("null"), &rpcError{Code: codeRequest, Message: fmt.Sprintf("a message may have %d bytes at most", lineMost)})
			continue
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			m.take(ctx, &live, line)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read stdin: %w", err)
		}
	}
}

var errLong = errors.New("line too long")

// readLine reads to the next line end. Of a line that is too long the rest is
// passed over, so that the next one can be read.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > lineMost {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			if err != nil {
				return nil, err
			}
			return nil, errLong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (m *server) take(ctx context.Context, live *sync.WaitGroup, line []byte) {
	var q message
	if err := json.Unmarshal(line, &q); err != nil {
		code := codeParse
		if json.Valid(line) {
			code = codeRequest // a batch, or a member of the wrong type
		}
		m.fail(json.RawMessage("null"), &rpcError{Code: code, Message: "this is no JSON-RPC 2.0 message"})
		return
	}
	hasID := len(q.ID) > 0 && !bytes.Equal(q.ID, []byte("null"))
	switch {
	case q.Method == "" && !hasID, q.JSONRPC != "2.0":
		m.fail(json.RawMessage("null"), &rpcError{Code: codeRequest, Message: "this is no JSON-RPC 2.0 request"})
	case q.Method == "": // an answer; we ask nothing
	case !hasID:
		m.notified(q)
	case q.ID[0] != '"' && q.ID[0] != '-' && (q.ID[0] < '0' || q.ID[0] > '9'):
		m.fail(json.RawMessage("null"), &rpcError{Code: codeRequest, Message: "an id is a string or a number"})
	default:
		live.Go(func() { m.request(ctx, q) })
	}
}

// notified takes a notification. A cancelation is noted and otherwise ignored:
// work that has begun is finished (MC-024).
func (m *server) notified(q message) {
	if q.Method == "notifications/cancelled" {
		m.log.Info("a call was canceled by its caller and goes on", "params", string(q.Params))
	}
}

// request answers one request. A panic is its answer, never the end of the
// server: agents do not start it again (MC-016).
func (m *server) request(ctx context.Context, q message) {
	defer func() {
		if v := recover(); v != nil {
			m.log.Error("panic", "method", q.Method, "value", v, "stack", string(debug.Stack()))
			m.fail(q.ID, &rpcError{Code: codeInternal, Message: "internal error in lazy-agent mcp; the call may have been done or not"})
		}
	}()
	result, err := m.do(ctx, q)
	if err != nil {
		if e, ok := errors.AsType[*rpcError](err); ok {
			m.fail(q.ID, e)
			return
		}
		m.log.Error("request", "method", q.Method, "err", err)
		m.fail(q.ID, &rpcError{Code: codeInternal, Message: "internal error in lazy-agent mcp"})
		return
	}
	m.write(message{JSONRPC: "2.0", ID: q.ID, Result: result})
}

func (m *server) do(ctx context.Context, q message) (any, error) {
	switch q.Method {
	case "initialize":
		return m.initialize(q.Params)
	case "ping":
		return struct{}{}, nil
	case "tools/list":
		return map[string]any{"tools": m.list()}, nil
	case "tools/call":
		return m.call(ctx, q)
	}
	return nil, &rpcError{Code: codeMethod, Message: fmt.Sprintf("no method %q", q.Method)}
}

func (m *server) initialize(params json.RawMessage) (any, error) {
	var in struct {
		Revision string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, &rpcError{Code: codeParams, Message: "initialize needs its params"}
	}
	rev := in.Revision
	if !slices.Contains(revisions(), rev) {
		rev = revisions()[0]
	}
	return map[string]any{
		"protocolVersion": rev,
		"capabilities":    map[string]any{"tools": map[string]any{}},
		"serverInfo":      map[string]any{"name": names.AgentBinary, "version": m.version},
	}, nil
}

// listed is a tool as an agent sees it.
type listed struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	InputSchema *jsonschema.Schema `json:"inputSchema"`
	Annotations map[string]bool    `json:"annotations"`
}

// list is the agent's set of tools: those it can never use are left out and still
// answer, with the refusal that says why (MC-004, MC-027).
func (m *server) list() []listed {
	all := []listed{}
	for _, o := range m.cat.All() {
		if o.Tool == "" || !o.Agent || m.readOnly && o.Effect != op.Read {
			continue
		}
		all = append(all, listed{
			Name: o.Tool, Description: o.Doc, InputSchema: o.Schema(identity.Task),
			Annotations: map[string]bool{"readOnlyHint": o.Effect == op.Read, "openWorldHint": false},
		})
	}
	return all
}

// call makes one tool call.
func (m *server) call(ctx context.Context, q message) (any, error) {
	var in struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(q.Params, &in); err != nil || in.Name == "" {
		return nil, &rpcError{Code: codeParams, Message: "tools/call needs the name of a tool and its arguments"}
	}
	if len(in.Arguments) == 0 || string(in.Arguments) == "null" {
		in.Arguments = json.RawMessage("{}")
	}
	o, known := m.cat.Tool(in.Name)
	if m.readOnly && (!known || o.Effect != op.Read) {
		return toolError(refusal.Of(refusal.ReadOnlyTurn, in.Name)), nil
	}
	if known && o.Agent {
		if err := o.Validate(identity.Task, in.Arguments); err != nil {
			return refused(fault.Of(err))
		}
	}
	p := &progress{m: m, token: in.Meta.Token}
	defer p.end()
	tools := *m.tools
	tools.Wait = client.Wait{Window: m.window, Waiting: func(time.Duration) { p.beat() }}
	reply, err := tools.Call(ctx, client.ToolCall{Tool: in.Name, Arguments: in.Arguments, Beat: p.beat})
	p.end()
	if err != nil {
		return toolError(fault.Of(unanswered(in.Name, err))), nil
	}
	var shape struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(reply.Raw, &shape) == nil && len(shape.Content) > 0 {
		return reply.Raw, nil // a result, unchanged
	}
	if f := reply.Fault(); f != nil {
		return refused(f)
	}
	return nil, fmt.Errorf("tool %s answered %d without content", in.Name, reply.Status)
}

// refused is a refusal as the protocol has it: invalid arguments are an error of
// the call (RP-016), everything else is a result that says what to do.
func refused(f *fault.Error) (any, error) {
	if f.Code == string(refusal.InvalidArguments) {
		return nil, &rpcError{Code: codeParams, Message: f.Public, Data: f.Details}
	}
	return toolError(f), nil
}

func toolError(f *fault.Error) any {
	_, e := envelope.Render(f, envelope.To("mcp", identity.Task), "")
	return map[string]any{
		"content":           []client.Content{{Type: "text", Text: e.Text()}},
		"structuredContent": map[string]any{"error": e},
		"isError":           true,
	}
}

func (m *server) fail(id json.RawMessage, e *rpcError) {
	m.write(message{JSONRPC: "2.0", ID: id, Error: e})
}

func (m *server) write(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		m.log.Error("encode answer", "err", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.out.Write(append(b, '\n')); err != nil {
		m.log.Error("write answer", "err", err)
	}
}

// progress turns signs of life of one call into notifications: only if the call
// carried a token, counting up from 1, and none after its result (MC-022).
type progress struct {
	m     *server
	token json.RawMessage

	mu   sync.Mutex
	n    int64 // guarded by mu
	over bool  // guarded by mu
}

func (p *progress) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || len(p.token) == 0 || string(p.token) == "null" {
		return
	}
	p.n++
	p.m.write(map[string]any{
		"jsonrpc": "2.0", "method": "notifications/progress",
		"params": map[string]any{"progressToken": p.token, "progress": p.n},
	})
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}
