package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// result is what a tool answers, whichever route it was called on (WF-08).
type result struct {
	status     int
	err        error // what the log says of it
	Content    []content
	Structured json.RawMessage
	IsError    bool
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// MarshalJSON writes the reply of a tool route.
func (r result) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Content    []content       `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError"`
	}{r.Content, r.Structured, r.IsError})
}

func (r result) reply() envelope.Reply {
	body, err := json.Marshal(r)
	if err != nil { // its parts are JSON already
		return envelope.Reply{Status: http.StatusInternalServerError}
	}
	return envelope.Reply{Status: r.status, Body: body}
}

// answered is the result that carries an output.
func answered(status int, structured json.RawMessage) result {
	return result{status: status, Content: []content{{Type: "text", Text: string(structured)}}, Structured: structured}
}

// refused is the result that carries an error: its text for the model, the error
// object for programs (surfaces 1.4).
func refused(x *edge.Exchange, err error) result {
	status, e := envelope.Render(err, x.Audience(), x.ID)
	body, merr := json.Marshal(map[string]envelope.Error{"error": e})
	if merr != nil { // a detail that JSON cannot carry
		e.Details = map[string]any{"request": x.ID}
		body, _ = json.Marshal(map[string]envelope.Error{"error": e})
	}
	return result{status: status, err: err, Content: []content{{Type: "text", Text: e.Text()}}, Structured: body, IsError: true}
}

// outcome is what of an output this surface acts on.
type outcome struct {
	Operation string `json:"operation_id"`
	Pending   bool   `json:"pending"`
}

// pending is what a tool answers when its hop ended before it did: the call to
// make next (OT-048).
type pending struct {
	Pending   bool   `json:"pending"`
	Operation string `json:"operation_id"`
	Cursor    string `json:"cursor,omitempty"`
	Next      string `json:"next"`
}

func stillRunning(operation, cursor string) result {
	with := "operation_id"
	if cursor != "" {
		with += " and cursor"
	}
	body, err := json.Marshal(pending{
		Pending: true, Operation: operation, Cursor: cursor,
		Next: fmt.Sprintf("Still running, not failed: call %s with this %s.", op.WaitTool, with),
	})
	if err != nil { // strings always encode
		panic(err)
	}
	return answered(http.StatusAccepted, body)
}

// run makes a checked call. What began an operation that a flow finishes is
// followed until it ends or the hop does (MC-025).
func (s *server) run(ctx context.Context, x *edge.Exchange, o op.Op, call app.Call, r op.Request) result {
	res, err := edge.Safely(func() (result, error) {
		out, err := r.Run(ctx, s.App)
		if err != nil {
			return result{}, edge.Outlasted(err, call.Operation)
		}
		if p, ok := out.(app.Progress); ok {
			return s.progressed(x, p), nil
		}
		body, err := json.Marshal(out)
		if err != nil {
			return result{}, fmt.Errorf("encode the answer of %s: %w", o.Tool, err)
		}
		var is outcome
		_ = json.Unmarshal(body, &is) // an output that is no object is just an answer
		switch {
		case is.Pending:
			return answered(http.StatusAccepted, body), nil
		case o.Flow != "" && is.Operation != "":
			return s.follow(ctx, x, call, is.Operation, body)
		}
		return answered(http.StatusOK, body), nil
	})
	if err != nil {
		return refused(x, err)
	}
	return res
}

// follow awaits an operation to its end, telling phases, and answers what it
// answers; first stands in for an operation that ends without a result.
func (s *server) follow(ctx context.Context, x *edge.Exchange, call app.Call, operation string, first json.RawMessage) (result, error) {
	hold := call.Hold
	for cursor := ""; ; {
		call.Hold = x.Left(hold)
		if call.Hold <= 0 {
			return stillRunning(operation, cursor), nil
		}
		p, err := s.Await.Await(ctx, call, operation, cursor)
		if err != nil {
			return result{}, edge.Outlasted(err, operation)
		}
		tell(call, p.Phases)
		if p.Done {
			if p.Error == nil && len(p.Result) == 0 {
				p.Result = first
			}
			return s.progressed(x, p), nil
		}
		cursor = p.Cursor
	}
}

func tell(call app.Call, phases []app.Phase) {
	if call.Phase == nil {
		return
	}
	for _, p := range phases {
		call.Phase(p)
	}
}

// progressed renders the state of an operation.
func (s *server) progressed(x *edge.Exchange, p app.Progress) result {
	switch {
	case !p.Done:
		return stillRunning(p.Operation, p.Cursor)
	case p.Error != nil:
		return refused(x, p.Error)
	case len(p.Result) == 0:
		return answered(http.StatusOK, json.RawMessage("{}"))
	}
	return answered(http.StatusOK, p.Result)
}

// argumentFault reports whether err is about the form of the call, which has an
// answer of its own on each route: status 400 here, -32602 there (RP-016).
func argumentFault(err error) bool {
	return refusal.Is(err, refusal.InvalidArguments) || refusal.Is(err, refusal.ReservedTool)
}
