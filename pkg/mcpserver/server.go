// Package mcpserver serves the tools of the catalogue to agents: one call at
// POST /mcp/{segment}/{tool}, for supervisors and relays, and the Model Context
// Protocol over streamable HTTP at POST /mcp/{segment}. Both have the same
// identity, validation and progress rules, and reach the same operations.
package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

const surface = "mcp"

// Turns answers about the caller's own task.
type Turns interface {
	// TaskCode returns the code of the task a token is bound to.
	TaskCode(ctx context.Context, who identity.Caller) (string, error)
	// ReadOnlyTurn reports whether that task's running turn only reads.
	ReadOnlyTurn(ctx context.Context, who identity.Caller) (bool, error)
}

// Awaiter waits for operations in flight: until a new phase, the end, or the
// call's hold is over.
type Awaiter interface {
	Await(ctx context.Context, c app.Call, operation, cursor string) (app.Progress, error)
}

// Config is what the surface needs.
type Config struct {
	edge.Base
	// HopDirect is the longest a streamable HTTP call is held; 0 means the hop.
	HopDirect time.Duration
	Auth      edge.Authenticator
	App       *app.App
	Ops       *op.Catalogue
	Turns     Turns
	Await     Awaiter
	Version   string
}

type server struct {
	Config
	tools map[view][]*mcp.Tool
	http  http.Handler // the SDK's, for what is not a tool call
}

// Routes returns the surface's table of routes.
func Routes(c Config) []edge.Route {
	s := &server{Config: c, tools: lists(c.Ops)}
	s.http = s.streamable()
	return []edge.Route{
		{Pattern: "POST /mcp/{segment}/{tool}", Class: edge.Framed, Handler: http.HandlerFunc(s.tool)},
		{Pattern: "POST /mcp/{segment}", Class: edge.Framed, Handler: http.HandlerFunc(s.stream)},
		// The address itself is a builder's too: a client needs no other (LG-015).
		{Pattern: "POST /{$}", Class: edge.Framed, Handler: http.HandlerFunc(s.stream)},
		{Pattern: "GET /{$}", Class: edge.Bounded, Handler: http.HandlerFunc(postOnly)},
		{Pattern: "DELETE /{$}", Class: edge.Bounded, Handler: http.HandlerFunc(postOnly)},
		// A client of the protocol asks whether there is a stream to listen on or a
		// session to end; there is neither, and it expects to hear so.
		{Pattern: "GET /mcp/{segment}", Class: edge.Bounded, Handler: http.HandlerFunc(postOnly)},
		{Pattern: "DELETE /mcp/{segment}", Class: edge.Bounded, Handler: http.HandlerFunc(postOnly)},
	}
}

// New serves the surface alone.
func New(c Config) http.Handler { return edge.Router(Routes(c)...) }

func postOnly(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	w.WriteHeader(http.StatusMethodNotAllowed)
}

// identify says who is calling: the segment is parsed before anything is looked
// up, then the token is read, then the two are compared.
func (s *server) identify(x *edge.Exchange) error {
	word := x.R.PathValue("segment")
	if x.R.URL.Path == "/" {
		word = builderSegment
	}
	segment, err := parseSegment(word)
	if err != nil {
		return err
	}
	if err := x.Authenticate(s.Auth); err != nil {
		return err
	}
	if err := s.pair(x.R.Context(), x.Who, segment); err != nil {
		return err
	}
	return stamp(x)
}

// stamp adds the turn that a supervisor says is calling. It can narrow a call,
// never widen it, and means nothing on a builder's (OT-017).
func stamp(x *edge.Exchange) error {
	if x.Who.Kind != identity.Task {
		return nil
	}
	h := x.R.Header
	x.Who.Turn = id.Turn(h.Get(names.HeaderTurn))
	if v := h.Get(names.HeaderEpoch); v != "" {
		epoch, err := strconv.ParseInt(v, 10, 64)
		if err != nil || epoch <= 0 {
			return op.Invalid(names.HeaderEpoch, "the number of a run", "something else")
		}
		x.Who.Epoch = epoch
	}
	if v := h.Get(names.HeaderCommit); v != "" {
		var c identity.Commit
		if err := json.Unmarshal([]byte(v), &c); err != nil {
			return op.Invalid(names.HeaderCommit, "what the broker made", "something else")
		}
		x.Who.Commit = &c
	}
	return nil
}

var toolShape = pattern.New(`^[A-Za-z0-9_]{1,64}$`)

// find returns the operation behind a tool's name. Names that must never be
// tools have a line of their own; a tool hidden from the caller's list is found
// all the same and refuses for itself (CM-026).
func (s *server) find(x *edge.Exchange, name string) (op.Op, error) {
	if o, ok := s.Ops.Tool(name); ok {
		x.Note("tool", o.Tool)
		return o, nil
	}
	if err := op.Reserved(name); err != nil {
		x.Note("tool", name)
		return op.Op{}, err
	}
	if !toolShape.MatchString(name) {
		name = "something that is no name"
	}
	return op.Op{}, op.Invalid("tool", "one that tools/list names", name)
}

// accept finds and checks a call before anything is done for it.
func (s *server) accept(x *edge.Exchange, call app.Call, name string, args json.RawMessage) (op.Op, op.Request, error) {
	o, err := s.find(x, name)
	if err != nil {
		return o, op.Request{}, err
	}
	r, err := o.Accept(call, args)
	return o, r, err
}
