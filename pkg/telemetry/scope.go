// Package telemetry is what the control plane says about itself while it works:
// one JSON object a line that carries who and what it is about, and metrics in
// lines that CloudWatch reads (embedded metric format). Nothing secret gets out:
// what looks like a credential is replaced wherever it stands.
package telemetry

import (
	"context"
	"maps"
	"strings"
	"sync"
)

// The attributes by which lines about one thing are found.
const (
	KeyRequest = "request"
	KeyTenant  = "tenant"
	KeyProject = "project"
	KeyTask    = "task"
	KeyTurn    = "turn"
	KeyTrace   = "trace"
	KeySpan    = "span"
)

// order is how they stand in a line.
var order = []string{KeyRequest, KeyTenant, KeyProject, KeyTask, KeyTurn, KeyTrace, KeySpan}

// scope is what is known so far about the request a context belongs to. It is
// shared by all contexts made from that one, for much is learnt on the way.
type scope struct {
	mu  sync.Mutex
	ids map[string]string // guarded by mu
}

type scopeKey struct{}

// Begin returns a context for one request, step or record. What is noted in it
// does not reach the context it came from.
func Begin(ctx context.Context) context.Context {
	s := &scope{ids: map[string]string{}}
	if up, ok := ctx.Value(scopeKey{}).(*scope); ok {
		up.mu.Lock()
		maps.Copy(s.ids, up.ids)
		up.mu.Unlock()
	}
	return context.WithValue(ctx, scopeKey{}, s)
}

// Within returns ctx where it belongs to something begun already, and begins
// otherwise.
func Within(ctx context.Context) context.Context {
	if _, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return ctx
	}
	return Begin(ctx)
}

// Note adds pairs of a key and a value to what is known, for all lines written
// from then on. An empty value says nothing. Without Begin it does nothing.
func Note(ctx context.Context, pairs ...string) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			s.ids[pairs[i]] = pairs[i+1]
		}
	}
}

// TraceID is the id of the trace in a W3C trace context, "" when there is none.
func TraceID(traceparent string) string {
	if p := strings.Split(traceparent, "-"); len(p) == 4 {
		return p[1]
	}
	return ""
}

// Noted returns what is known under a key.
func Noted(ctx context.Context, key string) string {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[key]
}
