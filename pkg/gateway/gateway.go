// Package gateway is the way from a sealed agent to its model, run by the trusted
// side. An agent holds a placeholder that is worth something here only and during
// its turn only; the gateway puts the real credential in its place, sends the
// call to the one pinned service, and counts what came back. It edits no body and
// logs none (AG-030, CM-031, CM-032).
package gateway

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Gateway serves one turn.
type Gateway struct {
	Access model.Access
	Key    string // the placeholder
	// Permit is asked before every call and may hold it; an error is the answer
	// the agent gets, and nothing is sent.
	Permit func(ctx context.Context) error
	Log    *slog.Logger
	Now    func() time.Time
	// Transport is how the service is reached; nil is a plain one of its own.
	Transport http.RoundTripper

	up *url.URL

	mu      sync.Mutex
	usage   []model.Usage  // guarded by mu
	reading *model.Reading // guarded by mu
	seen    Seen           // guarded by mu
	news    chan struct{}  // guarded by mu
}

// Seen is how the calls went that a model answers, since Begin.
type Seen struct {
	Calls int           // that have ended
	Last  *turn.Failure // how the last one failed, nil when it went well or none was made
	Row   int           // how many failed since one went well
}

// NewKey makes a placeholder from 32 random bytes.
func NewKey(rand io.Reader) (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return "", err
	}
	return "lazy-turn-" + hex.EncodeToString(b[:]), nil
}

// Upstream checks the base address of a service and puts it into its one form:
// no user, query, fragment, trailing slash or version, which is part of the path
// of every call. Plain http is for this machine only.
func Upstream(s string) (*url.URL, error) {
	bad := func(why string) error {
		return fault.New(fault.Invalid, "the address of a model service %s", why).
			WithNext("Give it as https://host or https://host/path.")
	}
	u, err := url.Parse(strings.TrimSpace(s))
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, bad("is not an absolute address")
	case u.User != nil:
		return nil, bad("must hold no credential")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, bad("must hold no query and no fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !local(u.Hostname())):
		return nil, bad("must begin with https://")
	}
	p := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(p, "/")}, nil
}

func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// call is an operation of a service that agents may use. Everything else that a
// credential could do there, files, batches, stored answers, administration, is
// not reachable.
type call struct {
	method, path string
	counted      bool // it is answered by a model
}

func calls(w model.Wire) []call {
	switch w {
	case model.Anthropic:
		return []call{{"POST", "/v1/messages", true}, {"POST", "/v1/messages/count_tokens", false}, {"GET", "/v1/models", false}}
	case model.OpenAI:
		return []call{
			{"POST", "/v1/responses", true},
			{"POST", "/v1/responses/compact", true},
			{"POST", "/v1/chat/completions", true},
			{"GET", "/v1/models", false},
		}
	}
	return nil
}

// find returns the operation of a request; models may be asked for by name.
func find(w model.Wire, method, at string) (call, bool) {
	for _, c := range calls(w) {
		one := c.path == "/v1/models" && path.Dir(at) == c.path
		if (at == c.path || one) && method == c.method {
			return c, true
		}
	}
	return call{}, false
}

// bodyMost bounds a request; services refuse far smaller ones.
const bodyMost = 64 << 20

// Serve answers on l until ctx is done; every call under way is cut off then.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	up, err := Upstream(g.Access.Upstream)
	if err != nil {
		return err
	}
	g.up = up
	if g.Transport == nil {
		// A transport of its own: no variable of the environment may send a
		// credential to a proxy that nobody chose.
		tr := &http.Transport{
			DisableCompression: true, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
			DialContext: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext, TLSHandshakeTimeout: 30 * time.Second,
		}
		defer tr.CloseIdleConnections()
		g.Transport = tr
	}
	s := &http.Server{
		Handler: g, ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(g.Log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		return err
	}
	return nil
}

// ServeHTTP answers one call. Who is asking is settled before anything else.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.knows(r.Header) {
		g.Log.Warn("model call refused: not the key of this turn")
		refuse(w, g.Access.Wire, http.StatusUnauthorized, "authentication_error", "lazy: this key is not the one of this turn")
		return
	}
	if r.URL.IsAbs() || r.Method == http.MethodConnect {
		refuse(w, g.Access.Wire, http.StatusForbidden, "permission_error", "lazy: this is the way to one model service, not a proxy")
		return
	}
	at := path.Clean("/" + r.URL.Path)
	c, ok := find(g.Access.Wire, r.Method, at)
	if !ok {
		refuse(w, g.Access.Wire, http.StatusNotFound, "not_found_error", "lazy: "+r.Method+" "+cut(at)+" is not offered to agents")
		return
	}
	if r.ContentLength > bodyMost {
		refuse(w, g.Access.Wire, http.StatusRequestEntityTooLarge, "request_too_large", "lazy: a request may have 64 MB")
		return
	}
	if err := g.Permit(r.Context()); err != nil {
		g.deny(w, err)
		return
	}
	g.forward(w, r, at, c)
}

// knows compares the key in either of the headers that the wire formats use.
func (g *Gateway) knows(h http.Header) bool {
	given := h.Get("X-Api-Key")
	if given == "" {
		given, _ = strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	}
	return g.Key != "" && subtle.ConstantTimeCompare([]byte(given), []byte(g.Key)) == 1
}

// deny answers a call that was not permitted. One that may be permitted later is
// told so in a way that clients try again.
func (g *Gateway) deny(w http.ResponseWriter, err error) {
	f := turn.Failure{Class: turn.Unreachable, Reason: fault.Of(err).Public}
	status, kind := http.StatusServiceUnavailable, "api_error"
	if !fault.Retryable(err) {
		f.Class, status, kind = turn.FatalConfig, http.StatusForbidden, "permission_error"
	}
	g.note(&f)
	g.Log.Info("model call not permitted", "reason", f.Reason)
	refuse(w, g.Access.Wire, status, kind, "lazy: "+f.Reason)
}

// Usage is what was spent so far, by model.
func (g *Gateway) Usage() []model.Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.usage)
}

// Readings is the newest word of the service about the credential's limits.
func (g *Gateway) Readings() []model.Reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reading == nil {
		return nil
	}
	return []model.Reading{*g.reading}
}

// Begin forgets how earlier calls went: a new run of the agent has begun.
func (g *Gateway) Begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = Seen{}
}

// Last is how the last call failed, nil when it went well or none was made.
func (g *Gateway) Last() *turn.Failure { return g.Seen().Last }

// Seen says how the calls went since Begin.
func (g *Gateway) Seen() Seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

// News holds a value when Seen has changed.
func (g *Gateway) News() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.told()
}

func (g *Gateway) told() chan struct{} {
	if g.news == nil {
		g.news = make(chan struct{}, 1)
	}
	return g.news
}

func (g *Gateway) note(f *turn.Failure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen.Calls++
	g.seen.Last = f
	if f == nil {
		g.seen.Row = 0
	} else {
		g.seen.Row++
	}
	select {
	case g.told() <- struct{}{}:
	default:
	}
}

// charge counts one answer.
func (g *Gateway) charge(u model.Usage) {
	u.Credential = g.Access.Credential
	u.Requests = 1
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, have := range g.usage {
		if have.Model == u.Model {
			g.usage[i] = have.Add(u)
			return
		}
	}
	if len(g.usage) == modelsMost { // a service that names its models anew each time
		u.Model = "other"
		g.usage[modelsMost-1] = g.usage[modelsMost-1].Add(u)
		return
	}
	g.usage = append(g.usage, u)
}

// modelsMost bounds how many models are told apart.
const modelsMost = 32
