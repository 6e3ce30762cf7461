package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// tool serves one call of one tool.
func (s *server) tool(w http.ResponseWriter, r *http.Request) {
	s.Serve(w, r, surface, func(x *edge.Exchange) {
		o, req, call, err := s.acceptTool(x)
		if err != nil {
			if fault.KindOf(err) == fault.Unauthenticated {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			x.Reply(rejection(x, err), err)
			return
		}
		x.Run(func(ctx context.Context) (envelope.Reply, error) {
			res := s.run(ctx, x, o, call, req)
			return res.reply(), res.err
		})
	})
}

func (s *server) acceptTool(x *edge.Exchange) (op.Op, op.Request, app.Call, error) {
	fail := func(err error) (op.Op, op.Request, app.Call, error) { return op.Op{}, op.Request{}, app.Call{}, err }
	if err := s.identify(x); err != nil {
		return fail(err)
	}
	body, err := x.Body(names.BodyMax)
	if err != nil {
		return fail(err)
	}
	args, err := arguments(body)
	if err != nil {
		return fail(err)
	}
	call, err := x.Call()
	if err != nil {
		return fail(err)
	}
	o, req, err := s.accept(x, call, x.R.PathValue("tool"), args)
	return o, req, call, err
}

// arguments reads the body of a tool call. Without the object that holds the
// arguments there is nothing to guess from: only an empty body stands for none
// (RP-014).
func arguments(body []byte) (json.RawMessage, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	var in struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := edge.DecodeOne(body, &in); err != nil || len(in.Arguments) == 0 || in.Arguments[0] != '{' {
		return nil, op.Invalid("arguments", `the body {"arguments":{…}} and nothing beside it`, "something else")
	}
	return in.Arguments, nil
}

// rejection answers what was refused before the call began. Invalid arguments
// have the form of WF-08, everything else that of a refused tool.
func rejection(x *edge.Exchange, err error) envelope.Reply {
	if !refusal.Is(err, refusal.InvalidArguments) {
		return refused(x, err).reply()
	}
	f := fault.Of(err)
	fields, ok := f.Details["fields"]
	if !ok {
		fields = []op.Problem{{Path: "arguments", Problem: f.Public}}
	}
	body, merr := json.Marshal(map[string]any{"error": f.Public, "fields": fields})
	if merr != nil {
		return refused(x, err).reply()
	}
	return envelope.Reply{Status: fault.HTTP(err), Body: body}
}
