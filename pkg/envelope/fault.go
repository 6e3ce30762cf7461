package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// Audience is who reads an error. Advice marked for somebody else is left out,
// so that a refusal offers only what the reader's own surface can do (OT-030).
type Audience []string

// To returns the audience of answers to a caller of kind k; an unknown caller is
// spoken to as the population of the surface: "rpc", "mcp", "runner" or "web".
func To(surface string, k identity.Kind) Audience {
	switch surface {
	case "mcp":
		switch k {
		case identity.Builder:
			return Audience{"mcp", "builder"}
		case identity.Task:
			return Audience{"mcp", "agent"}
		default:
			return Audience{"mcp"}
		}
	case "web":
		return Audience{"web", "person"}
	case "runner":
		return Audience{"supervisor"}
	}
	if k == identity.Operator {
		return Audience{"cli", "operator"}
	}
	return Audience{"cli", "person"}
}

// Advice returns the lines of next that a can follow.
func (a Audience) Advice(next []fault.Next) []string {
	lines := []string{}
	for _, n := range next {
		if n.For == "" || slices.Contains(a, n.For) {
			lines = append(lines, n.Text)
		}
	}
	return lines
}

// Error is the error object of every surface (surfaces 1.4).
type Error struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Next    []string       `json:"next"`
	Details map[string]any `json:"details"`
}

// Text is what a model or a person reads: the message, then each line of advice.
func (e Error) Text() string { return strings.Join(append([]string{e.Message}, e.Next...), "\n") }

// errorBody is the body of a plain error.
type errorBody struct {
	Error Error `json:"error"`
}

// Render turns err into its status and error object for an audience. An error
// that is no fault says nothing of its cause, only the id of the request under
// which the cause was logged.
func Render(err error, to Audience, request string) (int, Error) {
	f := fault.Of(err)
	e := Error{Code: f.Code, Message: f.Public, Next: to.Advice(f.Next), Details: map[string]any{}}
	maps.Copy(e.Details, f.Details)
	if f.Kind == fault.Internal && request != "" {
		e.Details["request"] = request
	}
	return fault.HTTP(f), e
}

// Refuse renders err as a whole reply.
func Refuse(err error, to Audience, request string) Reply {
	status, e := Render(err, to, request)
	body, merr := json.Marshal(errorBody{e})
	if merr != nil { // a detail that JSON cannot carry
		e.Details = map[string]any{"request": request}
		body, _ = json.Marshal(errorBody{e})
	}
	return Reply{Status: status, Body: body}
}

// Fault rebuilds the error of a reply, so that kind, code, advice and exit code
// survive the trip (RP-004); nil for a success. It understands the error object,
// the rejection of a tool route (WF-08) and a refused tool result; of anything
// else it tells the status alone.
func (r Reply) Fault() *fault.Error {
	if r.Status < 400 {
		return nil
	}
	var body struct {
		Error      json.RawMessage `json:"error"`
		Fields     any             `json:"fields"`
		Structured struct {
			Error *Error `json:"error"`
		} `json:"structuredContent"`
	}
	_ = json.Unmarshal(r.Body, &body)
	if body.Structured.Error != nil {
		return body.Structured.Error.fault(r.Status)
	}
	var e Error
	if json.Unmarshal(body.Error, &e) == nil && e.Code != "" {
		return e.fault(r.Status)
	}
	var text string
	if json.Unmarshal(body.Error, &text) == nil && text != "" {
		e := Error{Code: string(refusal.InvalidArguments), Message: text}
		if body.Fields != nil {
			e.Details = map[string]any{"fields": body.Fields}
		}
		return e.fault(r.Status)
	}
	f := fault.New(fault.FromHTTP(r.Status), "the control plane answered %d", r.Status)
	if line, _, _ := bytes.Cut(bytes.TrimSpace(r.Body), []byte("\n")); len(line) > 0 && len(line) <= 200 && line[0] != '<' {
		f.Public = fmt.Sprintf("%s: %s", f.Public, line)
	}
	return f
}

// fault rebuilds a fault. The kind is the code's own where that agrees with the
// status: the outcome of work that had begun shares 409 with a refusal, and its
// exit code differs.
func (e Error) fault(status int) *fault.Error {
	kind := fault.FromHTTP(status)
	for _, k := range fault.Kinds() {
		if string(k) == e.Code && fault.HTTP(&fault.Error{Kind: k}) == status {
			kind = k
		}
	}
	if k, ok := refusal.Kind(refusal.Code(e.Code)); ok && fault.HTTP(&fault.Error{Kind: k}) == status {
		kind = k
	}
	f := &fault.Error{Kind: kind, Code: e.Code, Public: e.Message, Details: e.Details}
	for _, line := range e.Next {
		f.Next = append(f.Next, fault.Next{Text: line})
	}
	return f
}
