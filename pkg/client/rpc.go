package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// Phase is one narrated step of an operation.
type Phase = envelope.Phase

// Client calls operations on /rpc for a person or an operator.
type Client struct {
	Base  string // for example "http://127.0.0.1:26024"
	Token string
	HTTP  *http.Client // nil means http.DefaultClient
	Actor string       // role a laptop's owner acts in, "" for themselves
	// Project is the one that requests are about; "" is the one of Token.
	Project string
	NewID   func() string
	Wait    Wait
	// Renew gets another token when the one it is given was refused; nil where there
	// is no other. The refused request has done nothing and is sent again, once.
	Renew func(ctx context.Context, refused string) (string, error)

	mu    sync.Mutex
	fresh string // guarded by mu: what Renew gave, in place of Token
}

func (c *Client) token() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fresh != "" {
		return c.fresh
	}
	return c.Token
}

// renewed exchanges a refused token for another one.
func (c *Client) renewed(ctx context.Context, refused string) (string, error) {
	token, err := c.Renew(ctx, refused)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh = token
	return token, nil
}

type options struct {
	key   string
	hold  time.Duration
	beat  func()
	phase func(Phase)
}

// Option adjusts one call.
type Option func(*options)

// WithKey sets the idempotency key, so that a caller who lost an answer can send
// the same request again and get it. Without it each call has a key of its own.
func WithKey(key string) Option { return func(o *options) { o.key = key } }

// WithHold bounds how long the control plane may hold one hop of the call.
func WithHold(d time.Duration) Option { return func(o *options) { o.hold = d } }

// WithBeat is called for every sign of life while an answer is awaited.
func WithBeat(f func()) Option { return func(o *options) { o.beat = f } }

// WithPhase is called for each phase of an operation, in order.
func WithPhase(f func(Phase)) Option { return func(o *options) { o.phase = f } }

// Call runs an operation and decodes its answer into out, which may be nil. A
// refusal is the *fault.Error the control plane raised. An operation that is
// still open at the hop's end is followed to its end. A lost answer is a
// *LostError and is not sent again.
func (c *Client) Call(ctx context.Context, command string, in, out any, opts ...Option) error {
	o := collect(opts)
	if o.key == "" {
		o.key = newKey(c.NewID)
	}
	r, err := c.post(ctx, command, in, o)
	if err != nil {
		return err
	}
	if r.Status != http.StatusAccepted {
		return r.answer(out)
	}
	var p envelope.Progress
	if err := json.Unmarshal(r.Body, &p); err != nil || p.Operation == "" {
		return &LostError{Operation: r.operation, Err: errors.New("the answer names no operation to come back to")}
	}
	o.tell(p.Phases)
	return c.follow(ctx, p.Operation, p.Cursor, out, o)
}

// Follow waits for an operation from a cursor ("" for its beginning), tells its
// phases, and returns what its first call would have.
func (c *Client) Follow(ctx context.Context, operation, cursor string, out any, opts ...Option) error {
	return c.follow(ctx, operation, cursor, out, collect(opts))
}

// follow comes back hop by hop. Coming back is not a retry: awaiting reads. So a
// hop that is lost is simply taken again from the last cursor.
func (c *Client) follow(ctx context.Context, operation, cursor string, out any, o options) error {
	var pause time.Duration
	for lost := 0; ; {
		p, err := c.await(ctx, operation, cursor, o)
		if _, cut := errors.AsType[*LostError](err); cut && lost < maxLost && ctx.Err() == nil {
			lost++
			pause = backOff(pause)
		} else if err != nil {
			return err
		} else {
			lost = 0
			o.tell(p.Phases)
			if p.Done {
				return finish(p, out)
			}
			if p.Cursor != "" && p.Cursor != cursor {
				cursor, pause = p.Cursor, 0
			} else {
				pause = backOff(pause)
			}
		}
		if err := Rest(ctx, pause); err != nil {
			return err
		}
	}
}

// maxLost is how many hops in a row may be lost before waiting is given up.
const maxLost = 5

func (c *Client) await(ctx context.Context, operation, cursor string, o options) (envelope.Progress, error) {
	in := map[string]string{"operation_id": operation}
	if cursor != "" {
		in["cursor"] = cursor
	}
	r, err := c.post(ctx, envelope.Resume, in, o)
	if err != nil {
		return envelope.Progress{}, err
	}
	var p envelope.Progress
	return p, r.answer(&p)
}

func finish(p envelope.Progress, out any) error {
	if f := p.Fault(); f != nil {
		return f
	}
	if out == nil || len(p.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(p.Result, out); err != nil {
		return fmt.Errorf("decode the result of operation %s: %w", p.Operation, err)
	}
	return nil
}

func (c *Client) post(ctx context.Context, command string, in any, o options) (response, error) {
	body, err := encode(in)
	if err != nil {
		return response{}, err
	}
	q := request{
		http: c.HTTP, base: c.Base, path: "/rpc/" + command, token: c.token(), body: body, frame: true, beat: o.beat,
		header: map[string]string{
			names.HeaderIdempotency: o.key, names.HeaderActor: c.Actor, names.HeaderProject: c.Project, names.HeaderHold: millis(o.hold),
		},
	}
	var r response
	err = c.Wait.do(ctx, func() (err error) {
		r, err = q.send(ctx)
		return err
	})
	if err != nil || c.Renew == nil || r.Status != http.StatusUnauthorized || fault.Code(r.Fault()) != string(refusal.Unauthenticated) {
		return r, err
	}
	if q.token, err = c.renewed(ctx, q.token); err != nil {
		return r, err
	}
	return q.send(ctx)
}

func encode(in any) ([]byte, error) {
	if in == nil {
		return []byte("{}"), nil
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return b, nil
}

func collect(opts []Option) options {
	var o options
	for _, f := range opts {
		f(&o)
	}
	return o
}

func (o options) tell(phases []Phase) {
	if o.phase == nil {
		return
	}
	for _, p := range phases {
		o.phase(p)
	}
}
