// Package client is the typed caller of the control plane: of /rpc for people's
// commands, of /runner for a supervisor, and of a tool route for a relay. It
// tells apart what a caller must not confuse: a refusal, an answer that never
// came, and a connection that was never made.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// UnreachableError means that no connection was made, so nothing can have been
// done; the call may be made again (MC-010).
type UnreachableError struct {
	Base string
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the control plane at %s cannot be reached: %v", e.Base, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// LostError means that a call was sent and its answer never came whole. It may
// have been done; it is neither a success nor sent again (MC-011, RP-005). With
// Operation its outcome can be asked for.
type LostError struct {
	Operation string
	Err       error
}

func (e *LostError) Error() string {
	msg := fmt.Sprintf("the connection was lost before the answer came, so what was asked may have been done: %v", e.Err)
	if e.Operation != "" {
		msg += " (operation " + e.Operation + ")"
	}
	return msg
}

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Err }

// Unix returns an HTTP client that dials a unix socket whatever the address.
// Use it with a base such as "http://lazy".
func Unix(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
}

// Wait is how long a caller waits for a control plane that cannot be reached.
type Wait struct {
	// Window is the longest wait in all; 0 means none (MC-010).
	Window time.Duration
	// Waiting is told before each further try how long has been waited.
	Waiting func(time.Duration)
}

// do calls once reached until it answers anything but UnreachableError or the
// window is over: 250 ms doubling to 5 s.
func (w Wait) do(ctx context.Context, once func() error) error {
	delay, waited := names.ReconnectFirst, time.Duration(0)
	for {
		err := once()
		if _, away := errors.AsType[*UnreachableError](err); !away || waited >= w.Window {
			return err
		}
		if w.Waiting != nil {
			w.Waiting(waited)
		}
		delay = min(delay, w.Window-waited)
		if serr := Rest(ctx, delay); serr != nil {
			return err
		}
		waited += delay
		delay = min(2*delay, names.ReconnectMost)
	}
}

// backOff is the next pause after one of d.
func backOff(d time.Duration) time.Duration {
	if d == 0 {
		return names.ReconnectFirst
	}
	return min(2*d, names.ReconnectMost)
}

// Rest waits for d, and no longer than ctx: then it returns the context's error.
// With no time to wait it tells only whether ctx has ended.
func Rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// request is one POST.
type request struct {
	http   *http.Client
	base   string
	path   string
	token  string
	header map[string]string
	body   []byte
	frame  bool // ask for the envelope
	beat   func()
}

// response is a reply and what its headers said.
type response struct {
	envelope.Reply
	operation string
}

// send makes one attempt and never another.
func (q request) send(ctx context.Context) (response, error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// The transport begins anew when an idle connection turns out dead before
		// anything was written on it.
		GetConn: func(string) { connected.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(q.base, "/")+q.path, bytes.NewReader(q.body))
	if err != nil {
		return response{}, fmt.Errorf("build request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	for name, v := range q.header {
		if v != "" {
			r.Header.Set(name, v)
		}
	}
	if q.frame {
		r.Header.Set(names.HeaderHeartbeat, "1")
	}
	hc := q.http
	if hc == nil {
		hc = http.DefaultClient
	}
	resp, err := hc.Do(r)
	if err != nil {
		if away, ok := errors.AsType[*UnreachableError](err); ok {
			return response{}, away // whoever answered is not the control plane meant
		}
		if !connected.Load() {
			return response{}, &UnreachableError{Base: q.base, Err: cause(err)}
		}
		return response{}, &LostError{Err: cause(err)}
	}
	defer resp.Body.Close()
	out := response{operation: resp.Header.Get(names.HeaderOperation)}
	if kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) == envelope.ContentType {
		out.Reply, err = envelope.Read(resp.Body, q.beat)
	} else {
		out.Status = resp.StatusCode
		out.Body, err = io.ReadAll(io.LimitReader(resp.Body, envelope.MaxLine))
	}
	if err != nil {
		return response{}, &LostError{Operation: out.operation, Err: err}
	}
	return out, nil
}

// cause drops the method and address that net/http puts before an error.
func cause(err error) error {
	type inner interface{ Unwrap() error }
	if u, ok := err.(inner); ok && strings.HasPrefix(err.Error(), "Post ") {
		return u.Unwrap()
	}
	return err
}

// answer decodes a success into out, which may be nil, and rebuilds a failure.
func (r response) answer(out any) error {
	if f := r.Fault(); f != nil {
		return f
	}
	if out == nil || len(r.Body) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Body, out); err != nil {
		return &LostError{Operation: r.operation, Err: fmt.Errorf("decode the answer: %w", err)}
	}
	return nil
}

func newKey(gen func() string) string {
	if gen != nil {
		return gen()
	}
	return id.Gen{Rand: rand.Reader}.New()
}

func millis(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}
