// Package rpc serves the operations of the catalogue to people's and operators'
// clients: POST /rpc/{command}, and the two addresses of the process itself.
package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

const surface = "rpc"

// Config is what the surface needs.
type Config struct {
	edge.Base
	Auth     edge.Authenticator
	App      *app.App
	Ops      *op.Catalogue
	Status   Status
	Shutdown func() // ends the process; nil where a process is not the owner's to end
}

// Status is what GET /daemon/status says (RP-019). It is encoded once.
type Status struct {
	Version      string  `json:"version"`
	SourceID     string  `json:"sourceId"`
	CodeSHA      string  `json:"codeSha"`
	Generation   string  `json:"generation"`
	ProjectRoot  string  `json:"projectRoot,omitempty"`
	Team         string  `json:"team,omitempty"`
	Project      string  `json:"project,omitempty"`
	DashboardURL *string `json:"dashboardUrl"` // null when there is none
}

type server struct{ Config }

// Routes returns the surface's table of routes.
func Routes(c Config) []edge.Route {
	s := &server{c}
	return []edge.Route{
		{Pattern: "POST /rpc/{command}", Class: edge.Framed, Handler: http.HandlerFunc(s.command)},
		{Pattern: "GET /daemon/status", Class: edge.Bounded, Handler: s.status()},
		{Pattern: "POST /daemon/shutdown", Class: edge.Bounded, Handler: http.HandlerFunc(s.shutdown)},
	}
}

// New serves the surface alone.
func New(c Config) http.Handler { return edge.Router(Routes(c)...) }

// status answers with constant bytes: no store, no lock, no network, and never a
// frame, since health checks read JSON (RP-018).
func (s *server) status() http.Handler {
	body, err := json.Marshal(s.Status)
	if err != nil {
		panic(fmt.Sprintf("rpc: encode status: %v", err)) // strings always encode
	}
	body = append(body, '\n')
	size := fmt.Sprint(len(body))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", size)
		h.Set("Cache-Control", "no-store")
		_, _ = w.Write(body)
	})
}

// shutdown arms a short timer and returns, so that its answer leaves first.
func (s *server) shutdown(w http.ResponseWriter, r *http.Request) {
	if s.Shutdown == nil {
		edge.NotFound(w, r)
		return
	}
	s.Serve(w, r, surface, func(x *edge.Exchange) {
		x.Note("command", "shutdown")
		if err := x.Authenticate(s.Auth); err != nil {
			x.Fail(err)
			return
		}
		if x.Who.Kind != identity.Owner {
			x.Fail(refusal.Of(refusal.ControlOnly, "shutdown"))
			return
		}
		x.Answer(http.StatusOK, map[string]bool{"stopping": true})
		time.AfterFunc(names.ShutdownTimer, s.Shutdown)
	})
}

// command runs one operation. Everything that can refuse it without the store,
// but for the one read of its credential, comes before the answer's first byte,
// so those are real statuses (OT-049).
func (s *server) command(w http.ResponseWriter, r *http.Request) {
	s.Serve(w, r, surface, func(x *edge.Exchange) {
		req, call, err := s.accept(x)
		if err != nil {
			x.Fail(err)
			return
		}
		x.Run(func(ctx context.Context) (envelope.Reply, error) {
			out, err := req.Run(ctx, s.App)
			if err != nil {
				return envelope.Reply{}, err
			}
			return s.reply(x, call, out)
		})
	})
}

func (s *server) accept(x *edge.Exchange) (op.Request, app.Call, error) {
	if err := x.Authenticate(s.Auth); err != nil {
		return op.Request{}, app.Call{}, err
	}
	var err error
	if x.Who, err = s.App.Enter(x.R.Context(), x.Who, x.R.Header.Get(names.HeaderProject)); err != nil {
		return op.Request{}, app.Call{}, err
	}
	name := x.R.PathValue("command")
	o, ok := s.Ops.Command(name)
	if !ok {
		return op.Request{}, app.Call{}, unknown(name)
	}
	x.Note("command", o.Name)
	body, err := x.Body(names.BodyMax)
	if err != nil {
		return op.Request{}, app.Call{}, err
	}
	if err := actors(x, body); err != nil {
		return op.Request{}, app.Call{}, err
	}
	call, err := x.Call()
	if err != nil {
		return op.Request{}, app.Call{}, err
	}
	call.As = identity.Role(x.R.Header.Get(names.HeaderActor))
	req, err := o.Accept(call, body)
	return req, call, err
}

var commandShape = pattern.New(`^[A-Za-z]{1,40}$`)

// unknown is the error for a command that no operation has. A name of another
// shape is not repeated: it may be anything.
func unknown(name string) error {
	if !commandShape.MatchString(name) {
		return fault.New(fault.NotFound, "There is no such command.")
	}
	return fault.New(fault.NotFound, "There is no command %s.", name).
		WithNext("If a newer client sent it, upgrade the control plane.")
}

// actors refuses a request that names who is acting. Identity comes from the
// credential; the one exception is the owner of a laptop, whose scripts may say
// in which role they act, never as which person (ID-014, CM-001).
func actors(x *edge.Exchange, body []byte) error {
	who := x.Who.Actor().String()
	if x.Who.Kind == identity.Operator {
		who = "the operator"
	}
	if as := x.R.Header.Get(names.HeaderActor); as != "" {
		if x.Who.Kind != identity.Owner || !slices.Contains(identity.Roles(), identity.Role(as)) {
			return refusal.Of(refusal.ActorNamed, who, "another in "+names.HeaderActor)
		}
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimSpace(body), &fields) != nil {
		return nil //nolint:nilerr // said better by the validator
	}
	for _, name := range []string{"actor", "actor_email", "actor_name", "tenant"} {
		if _, named := fields[name]; named {
			return refusal.Of(refusal.ActorNamed, who, "one in `"+name+"`")
		}
	}
	return nil
}

// reply renders an output. An operation that is still open at the hop's end is
// 202 with the way to come back (WF-17).
func (s *server) reply(x *edge.Exchange, call app.Call, out any) (envelope.Reply, error) {
	status := http.StatusOK
	if p, ok := out.(app.Progress); ok {
		wire := edge.Progress(p, x.Audience(), x.ID)
		if !p.Done {
			status = http.StatusAccepted
		}
		out = wire
	}
	body, err := json.Marshal(out)
	if err != nil {
		return envelope.Reply{}, fmt.Errorf("encode the answer of %s: %w", call.Tool, err)
	}
	return envelope.Reply{Status: status, Body: body}, nil
}
