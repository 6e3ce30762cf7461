package op

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// Request is a call that may be made: its caller is one of the operation's
// populations and its arguments are valid. Nothing was read or written for it.
type Request struct {
	op   Op
	call app.Call
	raw  json.RawMessage
}

// Accept checks everything about a call that needs no store: who may, and is the
// input valid (RP-013). Surfaces do this before the first byte of their answer.
func (o Op) Accept(c app.Call, raw json.RawMessage) (Request, error) {
	if err := o.admits(c.Who); err != nil {
		return Request{}, err
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := o.Validate(c.Who.Kind, raw); err != nil {
		return Request{}, err
	}
	code, raw, err := takeCode(raw)
	if err != nil {
		return Request{}, err
	}
	c.Rule, c.Code = o.Rule, code
	c.Tool = o.Name
	if o.Tool != "" && (o.Name == "" || c.Who.Kind == identity.Task || c.Who.Kind == identity.Builder) {
		c.Tool = o.Tool
	}
	return Request{op: o, call: c, raw: raw}, nil
}

// Run makes the call: was this very request answered before, and only then the
// handler. A refused call has written nothing.
func (r Request) Run(ctx context.Context, a *app.App) (any, error) {
	c := r.call
	if r.op.Effect == Write {
		if err := a.Writable(ctx, c.Who, c.Tool); err != nil {
			return nil, err
		}
		c.Digest = digest(r.op, r.raw)
		if c.Key != "" {
			if err := a.Before(ctx, c); err != nil {
				return replayed(err)
			}
		}
	} else {
		c.Key = ""
	}
	out, err := r.op.call(ctx, a, c, r.raw)
	if err != nil {
		return replayed(err)
	}
	return out, nil
}

// Call is Accept and Run in one: every surface goes through them, so they refuse
// alike.
func (o Op) Call(ctx context.Context, a *app.App, c app.Call, raw json.RawMessage) (any, error) {
	r, err := o.Accept(c, raw)
	if err != nil {
		return nil, err
	}
	return r.Run(ctx, a)
}

// replayed turns the first answer of a repeated request into a success.
func replayed(err error) (any, error) {
	if r, ok := errors.AsType[*app.Replayed](err); ok {
		return r.Result, nil
	}
	return nil, err
}

// admits refuses the populations an operation is not for.
func (o Op) admits(who identity.Caller) error {
	switch who.Kind {
	case identity.Builder:
		if !o.Builder {
			return o.refuse()
		}
	case identity.Task:
		if !o.Agent {
			return o.refuse()
		}
	case identity.Operator:
		if !slices.Contains(o.People, identity.Operator) {
			return refusal.Of(refusal.OperatorNotAPerson, o.Name)
		}
	default:
		if !slices.Contains(o.People, who.Kind) {
			return refusal.Of(refusal.ControlOnly, o.Name)
		}
	}
	return nil
}

func (o Op) refuse() error {
	switch o.Refuse {
	case refusal.BuilderOnly:
		return refusal.Of(o.Refuse, o.Tool, o.Why)
	case refusal.AgentOnly:
		e := refusal.Of(o.Refuse, o.Tool)
		if o.Why != "" {
			e = e.WithNext(o.Why)
		}
		return e
	case refusal.TreeReshape:
		return refusal.Of(o.Refuse, o.Tool)
	case refusal.ScratchBoundary, refusal.RaisedSelf:
		return refusal.Of(o.Refuse)
	}
	return refusal.Of(refusal.HumanOnly, o.Name)
}

const codeProperty = "confirmation_code"

// takeCode removes the confirmation code from the arguments: it belongs to the
// protocol, not to the request whose digest it confirms.
func takeCode(raw json.RawMessage) (string, json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return "", nil, Invalid("arguments", "a JSON object", "something else")
	}
	v, ok := m[codeProperty]
	if !ok {
		return "", raw, nil
	}
	var code string
	if err := json.Unmarshal(v, &code); err != nil {
		return "", nil, Invalid(codeProperty, "a string", "something else")
	}
	delete(m, codeProperty)
	out, err := json.Marshal(m)
	return code, out, err
}

// digest identifies a request: the operation and its arguments, keys sorted.
func digest(o Op, raw json.RawMessage) string {
	var v any
	_ = json.Unmarshal(raw, &v) // validated before; map keys come out sorted
	b, _ := json.Marshal(v)
	h := sha256.Sum256(append([]byte(o.Name+"\x00"+o.Tool+"\x00"), b...))
	return hex.EncodeToString(h[:])
}

// Schema is the input schema as a caller of kind k sees it: properties that the
// role can never use are absent (CM-029), and a confirmed tool has its code. It
// is shared: do not change it.
func (o Op) Schema(k identity.Kind) *jsonschema.Schema { return o.schemas[k] }

func (o Op) schema(k identity.Kind) *jsonschema.Schema {
	s := *o.In
	drop := o.Omit[k]
	dropped := func(n string) bool { return slices.Contains(drop, n) }
	s.Required = slices.DeleteFunc(slices.Clone(o.In.Required), dropped)
	s.PropertyOrder = slices.DeleteFunc(slices.Clone(o.In.PropertyOrder), dropped)
	s.Properties = map[string]*jsonschema.Schema{}
	for name, p := range o.In.Properties {
		if !dropped(name) {
			s.Properties[name] = p
		}
	}
	if o.Confirm && (k == identity.Builder || k == identity.Task) {
		s.Properties[codeProperty] = &jsonschema.Schema{
			Type: "string", Description: "the code the first call answered with; leave out on the first call",
		}
		if len(s.PropertyOrder) > 0 {
			s.PropertyOrder = append(s.PropertyOrder, codeProperty)
		}
	}
	return &s
}
