package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
)

// session is one POST on its way through the SDK.
type session struct {
	x    *edge.Exchange
	out  *writer
	call app.Call
}

type sessionKey struct{}

// stream serves the protocol over streamable HTTP. Every message is a request of
// its own, authenticated and bounded like any other: there are no sessions.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	direct := s.Base
	if s.HopDirect > 0 {
		direct.Hop = s.HopDirect
	}
	direct.Serve(w, r, surface, func(x *edge.Exchange) {
		body, err := s.acceptStream(x)
		if err == nil {
			var call app.Call
			if call, err = x.Call(); err == nil {
				s.forward(x, call, body)
				return
			}
		}
		if fault.KindOf(err) == fault.Unauthenticated {
			x.Challenge()
		}
		x.Reply(protocolError(x, err), err)
	})
}

func (s *server) acceptStream(x *edge.Exchange) ([]byte, error) {
	if err := s.identify(x); err != nil {
		return nil, err
	}
	body, err := x.Body(names.BodyMax)
	if err != nil {
		return nil, err
	}
	if b := bytes.TrimSpace(body); len(b) > 0 && b[0] == '[' {
		return nil, op.Invalid("body", "one message", "a batch")
	}
	var msg struct {
		Method string `json:"method"`
	}
	_ = json.Unmarshal(body, &msg) // the SDK says what is wrong with it
	if len(msg.Method) <= 64 {
		x.Note("method", msg.Method)
	}
	return body, nil
}

// forward hands the message to the SDK, cut loose from the request: a client that
// closes its response forgoes the answer and stops nothing (MC-024). Nothing the
// SDK does here waits for a client: there is no news to subscribe to.
func (s *server) forward(x *edge.Exchange, call app.Call, body []byte) {
	ses := &session{x: x, call: call, out: &writer{ResponseWriter: x.W}}
	ctx := context.WithValue(context.WithoutCancel(x.R.Context()), sessionKey{}, ses)
	r := x.R.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	s.http.ServeHTTP(ses.out, r)
	if ses.out.status != 0 {
		x.Outcome(ses.out.status, ses.out.failure())
	}
}

// streamable is the SDK's handler. JSON responses would drop progress, so answers
// are event streams.
func (s *server) streamable() http.Handler {
	srv := mcp.NewServer(&mcp.Implementation{Name: "lazy", Version: s.Version}, &mcp.ServerOptions{
		Logger:       slog.New(slog.DiscardHandler),
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	srv.AddReceivingMiddleware(s.receive)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, &mcp.StreamableHTTPOptions{
		Stateless:           true,
		Logger:              slog.New(slog.DiscardHandler),
		MaxRequestBodyBytes: names.BodyMax,
	})
}

// receive answers the methods about tools. No error but the protocol's own form
// leaves it: the SDK would hand any other to the model word for word.
func (s *server) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ses, ok := ctx.Value(sessionKey{}).(*session)
		if !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
		}
		res, err := edge.Safely(func() (mcp.Result, error) {
			switch req := req.(type) {
			case *mcp.CallToolRequest:
				return s.callTool(ctx, ses, req)
			case *mcp.ListToolsRequest:
				tools, err := s.list(ctx, ses.x.Who)
				return &mcp.ListToolsResult{Tools: tools}, err
			}
			return next(ctx, method, req)
		})
		if err == nil {
			return res, nil
		}
		if _, own := errors.AsType[*jsonrpc.Error](err); own {
			return nil, err
		}
		ses.out.fail(err)
		return nil, wireError(ses.x, err)
	}
}

// callTool makes one call. Argument faults are protocol errors; every other
// refusal is a result, so that the model reads it.
func (s *server) callTool(ctx context.Context, ses *session, req *mcp.CallToolRequest) (mcp.Result, error) {
	p := &progress{out: ses.out}
	if token := req.Params.GetProgressToken(); token != nil {
		p.notify = func(n int, message string) {
			// A client that hung up forgoes these too.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: message})
		}
	}
	call := ses.call
	call.Phase = p.phase
	o, r, err := s.accept(ses.x, call, req.Params.Name, req.Params.Arguments)
	if argumentFault(err) {
		return nil, err
	}
	var res result
	if err != nil {
		res = refused(ses.x, err)
	} else {
		work, cancel := ses.x.Detach(ctx)
		defer cancel()
		p.start(s.BeatOr())
		res = s.run(work, ses.x, o, call, r)
		p.stop()
	}
	ses.out.fail(res.err)
	out := &mcp.CallToolResult{IsError: res.IsError, StructuredContent: res.Structured}
	for _, c := range res.Content {
		out.Content = append(out.Content, &mcp.TextContent{Text: c.Text})
	}
	return out, nil
}

// wireError renders err as an error of the protocol, with the error object as
// its data.
func wireError(x *edge.Exchange, err error) *jsonrpc.Error {
	status, e := envelope.Render(err, x.Audience(), x.ID)
	code := int64(jsonrpc.CodeInvalidRequest)
	switch {
	case argumentFault(err):
		code = jsonrpc.CodeInvalidParams
	case status >= http.StatusInternalServerError:
		code = jsonrpc.CodeInternalError
	}
	data, merr := json.Marshal(e)
	if merr != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: code, Message: e.Text(), Data: data}
}

// protocolError is the whole answer to a message that was refused before it was
// read: a real status, and a body that a client of the protocol can show.
func protocolError(x *edge.Exchange, err error) envelope.Reply {
	body, merr := json.Marshal(struct {
		Version string         `json:"jsonrpc"`
		ID      any            `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", nil, wireError(x, err)})
	if merr != nil {
		return envelope.Refuse(err, x.Audience(), x.ID)
	}
	return envelope.Reply{Status: fault.HTTP(err), Body: body}
}

// writer is the answer of one POST. The SDK writes events and this package
// writes comments between them.
type writer struct {
	http.ResponseWriter
	mu     sync.Mutex
	status int   // guarded by mu
	err    error // guarded by mu; for the log
}

// WriteHeader notes the status.
func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.header(status)
}

func (w *writer) header(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController calls.
func (w *writer) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// comment writes a line that clients skip, so that headers and signs of life
// pass every proxy (B40).
func (w *writer) comment() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		w.header(http.StatusOK)
	}
	if _, err := w.ResponseWriter.Write([]byte(": alive\n\n")); err == nil {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
