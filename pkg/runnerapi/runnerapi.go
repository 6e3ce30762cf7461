// Package runnerapi serves the supervisors of runs: POST /runner/{op}. Every
// route is bounded: what a supervisor has to be told rides on the answer to its
// beat, and nothing is held open (CM-047).
package runnerapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

const surface = "runner"

// Runs are the use cases of a supervisor.
type Runs interface {
	Hello(ctx context.Context, in turn.Hello) (turn.Welcome, error)
	Beat(ctx context.Context, who identity.Caller, in turn.BeatIn) (turn.BeatOut, error)
	Report(ctx context.Context, who identity.Caller, in turn.Response) (turn.Ack, error)
	Token(ctx context.Context, who identity.Caller, in turn.TokenIn) (turn.TokenOut, error)
	Git(ctx context.Context, who identity.Caller, in turn.GitIn) (turn.GitOut, error)
	Upload(ctx context.Context, who identity.Caller, in turn.UploadIn) (turn.UploadOut, error)
	Land(ctx context.Context, who identity.Caller, in turn.LandIn) (turn.LandOut, error)
}

// Config is what the surface needs. The hop of Base bounds a request's work.
type Config struct {
	edge.Base
	Auth edge.Authenticator
	Runs Runs
}

// The most bytes each request may have.
const (
	helloMax  = 4 << 10
	beatMax   = 16 << 10
	tokenMax  = 4 << 10
	gitMax    = 256 << 10 // names of unmerged files
	uploadMax = 64 << 10
	landMax   = 256 << 10 // names of files in conflict
	reportMax = names.BodyMax
)

// Routes returns the surface's table of routes.
func Routes(c Config) []edge.Route {
	if c.Hop == 0 {
		c.Hop = names.OutsideFlow
	}
	return []edge.Route{
		{Pattern: "POST /runner/hello", Class: edge.Bounded, Handler: hello(c)},
		{Pattern: "POST /runner/beat", Class: edge.Bounded, Handler: bound(c, "beat", beatMax, c.Runs.Beat, func(in turn.BeatIn) claim { return claim{in.Turn, in.Epoch} })},
		{Pattern: "POST /runner/report", Class: edge.Bounded, Handler: bound(c, "report", reportMax, c.Runs.Report, func(in turn.Response) claim { return claim{in.Turn, in.Epoch} })},
		{Pattern: "POST /runner/token", Class: edge.Bounded, Handler: bound(c, "token", tokenMax, c.Runs.Token, func(in turn.TokenIn) claim { return claim{in.Turn, in.Epoch} })},
		{Pattern: "POST /runner/git", Class: edge.Bounded, Handler: bound(c, "git", gitMax, c.Runs.Git, func(turn.GitIn) claim { return claim{} })},
		{Pattern: "POST /runner/land", Class: edge.Bounded, Handler: bound(c, "land", landMax, c.Runs.Land, func(in turn.LandIn) claim { return claim{in.Turn, in.Epoch} })},
		{Pattern: "POST /runner/upload", Class: edge.Bounded, Handler: bound(c, "upload", uploadMax, c.Runs.Upload, func(turn.UploadIn) claim { return claim{} })},
	}
}

// New serves the surface alone.
func New(c Config) http.Handler { return edge.Router(Routes(c)...) }

// hello takes no token: its nonce is the only secret a start hands out.
func hello(c Config) http.Handler {
	return serve(c, "hello", helloMax, func(ctx context.Context, _ *edge.Exchange, in turn.Hello) (turn.Welcome, error) {
		return c.Runs.Hello(ctx, in)
	})
}

// claim is the turn and epoch that a body names, zero where it names none.
type claim struct {
	turn  id.Turn
	epoch int64
}

// bound serves an operation that belongs to the turn of the presented token.
func bound[In, Out any](c Config, op string, limit int64, do func(context.Context, identity.Caller, In) (Out, error), names func(In) claim) http.Handler {
	return serve(c, op, limit, func(ctx context.Context, x *edge.Exchange, in In) (Out, error) {
		var none Out
		if err := own(x.Who, names(in)); err != nil {
			return none, err
		}
		return do(ctx, x.Who, in)
	})
}

// own refuses a body that names another turn or epoch than its credential is
// bound to: a request that names another identity is refused, never corrected.
func own(who identity.Caller, c claim) error {
	if c.turn != "" && c.turn != who.Turn || c.epoch != 0 && c.epoch != who.Epoch {
		return refusal.Of(refusal.IdentityMismatch, run(who.Turn, who.Epoch), run(c.turn, c.epoch))
	}
	return nil
}

func run(t id.Turn, epoch int64) string {
	if len(t) > 64 {
		t = t[:64]
	}
	b, _ := json.Marshal(struct {
		Turn  id.Turn `json:"turn_id,omitempty"`
		Epoch int64   `json:"epoch,omitempty"`
	}{t, epoch})
	return string(b)
}

func serve[In, Out any](c Config, op string, limit int64, do func(context.Context, *edge.Exchange, In) (Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.Serve(w, r, surface, func(x *edge.Exchange) {
			x.Note("command", op)
			if op != "hello" {
				if err := authenticate(x, c.Auth); err != nil {
					x.Fail(err)
					return
				}
			}
			var in In
			body, err := x.Body(limit)
			if err == nil {
				err = decode(body, &in)
			}
			if err != nil {
				x.Fail(err)
				return
			}
			// A supervisor that hangs up forgoes the answer, not the deed.
			ctx, cancel := edge.Detach(r.Context(), c.HopOr())
			defer cancel()
			out, err := do(ctx, x, in)
			if err != nil {
				x.Fail(edge.Outlasted(err, ""))
				return
			}
			x.Answer(http.StatusOK, out)
		})
	})
}

func authenticate(x *edge.Exchange, a edge.Authenticator) error {
	if err := x.Authenticate(a); err != nil {
		return err
	}
	if x.Who.Kind != identity.Runner {
		return refusal.Of(refusal.WrongSurface, string(x.Who.Kind), "/"+surface)
	}
	return nil
}

func decode(body []byte, in any) error {
	err := edge.DecodeKnown(body, in)
	if err == nil {
		return nil
	}
	field, got := "body", "something else"
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		field, got = e.Field, e.Value
	}
	f := refusal.Of(refusal.InvalidArguments, field, "expected the wire form of this operation", got)
	return &fault.Error{Kind: f.Kind, Code: f.Code, Public: f.Public, Next: f.Next, Err: err}
}
