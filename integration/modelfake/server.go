package modelfake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server answers requests with a script. It is an http.Handler.
type Server struct {
	// Beat is the pause between two signs of life of a keepalive; 0 is 200 ms.
	Beat time.Duration
	// Log is told of each request, for a person who watches; nil is silent.
	Log func(format string, args ...any)

	mu       sync.Mutex
	script   Script
	next     int // guarded by mu
	serial   int // guarded by mu
	requests []Request
	wrong    []string                 // guarded by mu; what went against the script
	gates    map[string]chan struct{} // guarded by mu; closed when released
	held     map[string]int           // guarded by mu; who waits at a gate
}

// New returns a server that follows s.
func New(s Script) *Server {
	return &Server{script: s, gates: map[string]chan struct{}{}, held: map[string]int{}}
}

// Requests returns what was sent so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Left is how many answers have not been given.
func (s *Server) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.script) - s.next
}

// Wrong returns what went against the script: a request that lacked an expected
// text, or one after the end.
func (s *Server) Wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wrong)
}

// Add appends to the script.
func (s *Server) Add(more Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, more...)
}

// Held reports whether an answer waits at a gate.
func (s *Server) Held(gate string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[gate] > 0
}

// Release lets the answers at a gate go on, and those that come later.
func (s *Server) Release(gate string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.gate(gate); !closed(g) {
		close(g)
	}
}

func (s *Server) gate(name string) chan struct{} {
	if s.gates[name] == nil {
		s.gates[name] = make(chan struct{})
	}
	return s.gates[name]
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// bodyMost bounds a request.
const bodyMost = 64 << 20

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(io.LimitReader(q.Body, bodyMost))
	if err != nil {
		return
	}
	r := Request{Method: q.Method, Path: q.URL.Path, Header: q.Header.Clone(), Body: body}
	if q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/messages/count_tokens") {
		r.Wire, r.Side = Messages, true
		s.note(r, "")
		sendJSON(w, http.StatusOK, map[string]any{"input_tokens": len(body) / 4})
		return
	}
	wire, ok := wireOf(q.URL.Path)
	if !ok || q.Method != http.MethodPost {
		r.Side = true
		s.note(r, "")
		if q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/models") {
			sendJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{}, "models": []any{}})
			return
		}
		sendJSON(w, http.StatusNotFound, map[string]any{"error": map[string]any{"type": "not_found_error", "message": "there is nothing here"}})
		return
	}
	r.Wire = wire
	r.understand()
	a, id := s.take(&r)
	f := newForm(wire, w, r, id)
	w.Header().Set("X-Request-Id", f.requestID())
	w.Header().Set("Request-Id", f.requestID())
	if a.Status != 0 {
		if a.After != "" {
			w.Header().Set("Retry-After", a.After)
		}
		sendJSON(w, a.Status, f.failure(a))
		return
	}
	if !r.Stream {
		s.whole(w, q, f, a)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	s.play(q, f, a)
}

// take notes a request and picks its answer.
func (s *Server) take(r *Request) (Answer, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	a := Answer{Parts: []Part{{Kind: Say, Text: "A short title"}}, Tokens: Tokens{1, 1, 0}}
	if !r.Side {
		if s.next < len(s.script) {
			a = s.script[s.next]
			s.next++
		} else {
			a = Answer{Parts: []Part{{Kind: Say, Text: "The script is over."}}, Tokens: Tokens{1, 1, 0}}
			s.wrong = append(s.wrong, fmt.Sprintf("request %d came after the end of the script", s.serial))
		}
		for _, want := range a.Expect {
			if !strings.Contains(r.Text(), want) {
				s.wrong = append(s.wrong, fmt.Sprintf("line %d: the request does not contain %q", a.Line, want))
			}
		}
	}
	r.Answer = a.Line
	s.requests = append(s.requests, *r)
	if s.Log != nil {
		s.Log("%s %s model=%s stream=%t tools=%d side=%t -> line %d", r.Method, r.Path, r.Model, r.Stream, len(r.Tools), r.Side, a.Line)
	}
	return a, s.serial
}

func (s *Server) note(r Request, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if s.Log != nil {
		s.Log("%s %s", r.Method, r.Path)
	}
}

// play streams an answer.
func (s *Server) play(q *http.Request, f form, a Answer) {
	f.begin(a.Tokens)
	for _, p := range a.Parts {
		switch p.Kind {
		case Think:
			f.think(p.Text)
		case Say:
			f.say(p.Text)
		case Call:
			f.call(p)
		case Wait:
			if !s.wait(q, f, p.Text) {
				return
			}
		case Overload:
			f.overload()
			return
		case Cut:
			// The client sees the connection end in the middle of a chunk.
			panic(http.ErrAbortHandler)
		case KeepAlive:
			s.wait(q, f, "")
			return
		case Refuse:
			f.finish(true, a.Tokens)
			return
		}
	}
	f.finish(false, a.Tokens)
}

// wait holds a stream with signs of life until its gate opens or the caller goes.
func (s *Server) wait(q *http.Request, f form, gate string) bool {
	s.mu.Lock()
	g := s.gate(gate)
	s.held[gate]++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.held[gate]--
		s.mu.Unlock()
	}()
	every := s.Beat
	if every <= 0 {
		every = 200 * time.Millisecond
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-g:
			return true
		case <-q.Context().Done():
			return false
		case <-t.C:
			f.ping()
		}
	}
}

// whole answers a request that asked for no stream.
func (s *Server) whole(w http.ResponseWriter, q *http.Request, f form, a Answer) {
	var parts []Part
	refused := false
	for _, p := range a.Parts {
		switch p.Kind {
		case Wait, KeepAlive:
			s.mu.Lock()
			g := s.gate(p.Text)
			s.mu.Unlock()
			select {
			case <-g:
			case <-q.Context().Done():
				return
			}
		case Cut:
			panic(http.ErrAbortHandler)
		case Overload:
			sendJSON(w, 529, f.failure(Answer{Status: 529}))
			return
		case Refuse:
			refused = true
		case Think, Say, Call:
			parts = append(parts, p)
		}
	}
	sendJSON(w, http.StatusOK, f.whole(parts, refused, a.Tokens))
}

func sendJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte(`{}`)
	}
	_, _ = w.Write(b)
}
