// Package builderapi serves the capture of builder sessions: POST
// /builder/storage. It is a surface of its own because /rpc would give a builder
// the whole store and /mcp exposes tools, not storage (CV-002); a new caller gets
// another one instead of a longer list here.
package builderapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

const surface = "builder"

// Config is what the surface needs.
type Config struct {
	edge.Base
	Auth edge.Authenticator
	App  *app.App
}

// Methods are the six there are (CV-001).
func Methods() []string {
	return []string{
		"getStoragePath", "saveConversation", "listScratchFiles", "saveScratchFile", "listBuilderResumeIntents", "saveBuilderResumeIntent",
	}
}

// Routes returns the surface's table of routes.
func Routes(c Config) []edge.Route {
	return []edge.Route{{Pattern: "POST /builder/storage", Class: edge.Framed, Handler: http.HandlerFunc(c.storage)}}
}

// New serves the surface alone.
func New(c Config) http.Handler { return edge.Router(Routes(c)...) }

type request struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// storage answers one call. A method that is not served is refused before the
// store is asked who is calling.
func (c Config) storage(w http.ResponseWriter, r *http.Request) {
	c.Serve(w, r, surface, func(x *edge.Exchange) {
		do, err := c.accept(x)
		if err != nil {
			x.Fail(err)
			return
		}
		x.Run(func(ctx context.Context) (envelope.Reply, error) {
			out, err := do(ctx, x.Who)
			if err != nil {
				return envelope.Reply{}, err
			}
			body, err := json.Marshal(out)
			if err != nil {
				return envelope.Reply{}, fmt.Errorf("encode answer: %w", err)
			}
			return envelope.Reply{Status: http.StatusOK, Body: body}, nil
		})
	})
}

type handler func(ctx context.Context, who identity.Caller) (any, error)

func (c Config) accept(x *edge.Exchange) (handler, error) {
	if kind, _, err := identity.Parse(edge.Bearer(x.R)); err != nil || kind != identity.Builder {
		return nil, refusal.Of(refusal.Unauthenticated)
	}
	body, err := x.Body(names.BodyMax)
	if err != nil {
		return nil, err
	}
	var in request
	if err := edge.DecodeOne(body, &in); err != nil {
		return nil, refusal.Of(refusal.InvalidArguments, "body", `{"method":"…","params":{…}}`, "something else")
	}
	if len(in.Params) == 0 {
		in.Params = json.RawMessage("{}")
	}
	do, err := c.method(in)
	if err != nil {
		return nil, err
	}
	x.Note("method", in.Method)
	if err := x.Authenticate(c.Auth); err != nil {
		return nil, err
	}
	if x.Who.Kind != identity.Builder {
		return nil, refusal.Of(refusal.Unauthenticated)
	}
	return do, nil
}

type scratchIn struct {
	Name    string `json:"name"`
	Content []byte `json:"content"`
}

type intentIn struct {
	Session string `json:"session_id"`
}

// listed wraps a list, so that an empty one is an empty list.
func listed[T any](name string, list []T, err error) (any, error) {
	if list == nil {
		list = []T{}
	}
	return map[string][]T{name: list}, err
}

func (c Config) method(in request) (handler, error) {
	a := c.App
	switch in.Method {
	case "getStoragePath":
		return func(ctx context.Context, who identity.Caller) (any, error) {
			at, err := a.StoragePath(ctx, who)
			return map[string]string{"path": at}, err
		}, nil
	case "saveConversation":
		return with(in, a.SaveConversation)
	case "listScratchFiles":
		return func(ctx context.Context, who identity.Caller) (any, error) {
			fs, err := a.ListScratchFiles(ctx, who)
			return listed("files", fs, err)
		}, nil
	case "saveScratchFile":
		return with(in, func(ctx context.Context, who identity.Caller, p scratchIn) (app.ScratchFile, error) {
			return a.SaveScratchFile(ctx, who, p.Name, p.Content)
		})
	case "listBuilderResumeIntents":
		return func(ctx context.Context, who identity.Caller) (any, error) {
			is, err := a.ListResumeIntents(ctx, who)
			return listed("intents", is, err)
		}, nil
	case "saveBuilderResumeIntent":
		return with(in, func(ctx context.Context, who identity.Caller, p intentIn) (app.ResumeIntent, error) {
			return a.SaveResumeIntent(ctx, who, p.Session)
		})
	}
	return nil, fault.New(fault.Denied, "this credential stores conversations and nothing else, so the method was not called").
		WithNext("The methods are getStoragePath, saveConversation, listScratchFiles, saveScratchFile, listBuilderResumeIntents and saveBuilderResumeIntent.")
}

// with reads the parameters before anything is asked of the store.
func with[In, Out any](in request, do func(context.Context, identity.Caller, In) (Out, error)) (handler, error) {
	var p In
	if err := edge.DecodeOne(in.Params, &p); err != nil {
		return nil, refusal.Of(refusal.InvalidArguments, "params", "the parameters of "+in.Method, "something else")
	}
	return func(ctx context.Context, who identity.Caller) (any, error) { return do(ctx, who, p) }, nil
}
