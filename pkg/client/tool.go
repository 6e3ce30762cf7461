package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// ToolClient calls tools on /mcp/{segment}/{tool}: a supervisor for its agent, a
// relay for a builder.
type ToolClient struct {
	Base    string
	Token   string
	Segment string // a task's id, or "_" for a builder
	HTTP    *http.Client
	NewID   func() string
	Wait    Wait
}

// Stamp is what a supervisor adds to an agent's call (OT-017).
type Stamp struct {
	Turn   string
	Epoch  int64
	Commit *identity.Commit // the broker's evidence on a commit
}

// ToolCall is one call of a tool.
type ToolCall struct {
	Tool      string
	Arguments json.RawMessage // an object; nil means none
	Stamp     Stamp
	Key       string // idempotency key; "" draws one
	Hold      time.Duration
	Beat      func() // every sign of life
}

// Content is one block of a tool's result.
type Content struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

// ToolReply is the result of a tool, or why it has none (WF-08).
type ToolReply struct {
	Status     int             `json:"-"`
	Raw        json.RawMessage `json:"-"` // the body as it came, for relaying unchanged
	Content    []Content       `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError"`
}

// Fault returns the refusal or failure the reply carries, nil for none.
func (r ToolReply) Fault() *fault.Error {
	if f := (envelope.Reply{Status: r.Status, Body: r.Raw}).Fault(); f != nil {
		return f
	}
	if r.IsError {
		return (envelope.Reply{Status: http.StatusInternalServerError, Body: r.Raw}).Fault()
	}
	return nil
}

// Pending is what a tool answers when its hop ended before it did.
type Pending struct {
	Pending   bool   `json:"pending"`
	Operation string `json:"operation_id,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
}

// Pending reports whether the tool has not finished, and how to come back.
func (r ToolReply) Pending() (Pending, bool) {
	var p Pending
	if r.Status != http.StatusAccepted || json.Unmarshal(r.Structured, &p) != nil || !p.Pending {
		return Pending{}, false
	}
	return p, true
}

// Once makes one hop of a call. An error means that no whole reply came:
// *UnreachableError if nothing was sent, *LostError if it may have been done. A
// refusal is a reply.
func (c *ToolClient) Once(ctx context.Context, call ToolCall) (ToolReply, error) {
	args := call.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	body, err := encode(map[string]json.RawMessage{"arguments": args})
	if err != nil {
		return ToolReply{}, err
	}
	header := map[string]string{
		names.HeaderIdempotency: call.Key, names.HeaderHold: millis(call.Hold), names.HeaderTurn: call.Stamp.Turn,
		names.HeaderTrace: id.Turn(call.Stamp.Turn).Trace(),
	}
	if call.Key == "" {
		header[names.HeaderIdempotency] = newKey(c.NewID)
	}
	if call.Stamp.Epoch != 0 {
		header[names.HeaderEpoch] = strconv.FormatInt(call.Stamp.Epoch, 10)
	}
	if call.Stamp.Commit != nil {
		b, err := json.Marshal(call.Stamp.Commit)
		if err != nil {
			return ToolReply{}, fmt.Errorf("encode the commit: %w", err)
		}
		header[names.HeaderCommit] = string(b)
	}
	q := request{
		http: c.HTTP, base: c.Base, path: "/mcp/" + url.PathEscape(c.Segment) + "/" + url.PathEscape(call.Tool),
		token: c.Token, header: header, body: body, frame: true, beat: call.Beat,
	}
	var r response
	err = c.Wait.do(ctx, func() (err error) {
		r, err = q.send(ctx)
		return err
	})
	if err != nil {
		return ToolReply{}, err
	}
	out := ToolReply{Status: r.Status, Raw: r.Body}
	if r.Status < http.StatusBadRequest || json.Valid(r.Body) {
		if err := json.Unmarshal(r.Body, &out); err != nil && r.Status < http.StatusBadRequest {
			return ToolReply{}, &LostError{Operation: r.operation, Err: fmt.Errorf("decode the answer: %w", err)}
		}
	}
	return out, nil
}

// Call makes a call and comes back at each hop's end until the tool has
// finished, so that an agent sees one long call (MC-028).
func (c *ToolClient) Call(ctx context.Context, call ToolCall) (ToolReply, error) {
	if call.Key == "" {
		call.Key = newKey(c.NewID)
	}
	var pause time.Duration
	for cursor := ""; ; {
		r, err := c.Once(ctx, call)
		if err != nil {
			return r, err
		}
		p, open := r.Pending()
		if !open {
			return r, nil
		}
		call, err = next(call, p)
		if err != nil {
			return r, err
		}
		if p.Cursor != cursor {
			cursor, pause = p.Cursor, 0
		} else {
			pause = backOff(pause)
		}
		if err := Rest(ctx, pause); err != nil {
			return r, err
		}
	}
}

// waitTool is the tool by which a caller on /mcp comes back to an operation.
const waitTool = "lazy_wait"

// next is the call that comes back: to an operation by its id, to a wait by the
// same arguments and the cursor.
func next(call ToolCall, p Pending) (ToolCall, error) {
	args := map[string]any{}
	if p.Operation != "" {
		call.Tool = waitTool
		args["operation_id"] = p.Operation
	} else if len(call.Arguments) > 0 {
		if err := json.Unmarshal(call.Arguments, &args); err != nil {
			return call, fmt.Errorf("decode the arguments of %s: %w", call.Tool, err)
		}
	}
	if p.Cursor != "" {
		args["cursor"] = p.Cursor
	}
	b, err := json.Marshal(args)
	if err != nil {
		return call, fmt.Errorf("encode the arguments of %s: %w", call.Tool, err)
	}
	call.Arguments, call.Stamp.Commit = b, nil
	call.Key = "" // coming back reads; a key of its own is drawn
	return call, nil
}
