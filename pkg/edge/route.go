// Package edge is what the HTTP surfaces share: the classes of routes, reading a
// request before its answer begins, the plain and the framed reply, and one log
// line a request.
package edge

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Class says why a route cannot be reaped by an idle timeout (RP-001).
type Class string

// The classes.
const (
	// Framed routes send a heartbeat while they work.
	Framed Class = "framed"
	// Bounded routes do constant work and hold nothing.
	Bounded Class = "bounded"
	// Deadline routes are cut off by the serving timeout.
	Deadline Class = "deadline"
)

// Classes lists them all.
func Classes() []Class { return []Class{Framed, Bounded, Deadline} }

// Route is one row of a surface's table.
type Route struct {
	Pattern string // as http.ServeMux reads it, with its method
	Class   Class
	Handler http.Handler
}

// nothing is the answer of every address that is no route. It is constant, so
// that probing costs and tells nothing.
const nothing = `{"error":{"code":"not_found","message":"There is nothing at this address.","next":[],"details":{}}}` + "\n"

// NotFound answers what no route answers: a constant body, without any I/O.
func NotFound(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", fmt.Sprint(len(nothing)))
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte(nothing))
}

// Router serves a table of routes and nothing else. A row without a class or a
// method panics, as does a pattern given twice.
func Router(routes ...Route) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		if !slices.Contains(Classes(), r.Class) {
			panic(fmt.Sprintf("edge: route %q has no class", r.Pattern))
		}
		if method, _, ok := strings.Cut(r.Pattern, " "); !ok || strings.Contains(method, "/") {
			panic(fmt.Sprintf("edge: route %q has no method", r.Pattern))
		}
		mux.Handle(r.Pattern, r.Handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would answer an untidy path with a redirect that repeats it, and
		// what was put into a path by mistake may be a secret.
		if path.Clean(r.URL.Path) != r.URL.Path {
			NotFound(w, r)
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			NotFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
