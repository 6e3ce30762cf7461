package mcpserver_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/identity"
)

// fixed knows one caller.
type fixed struct{ who identity.Caller }

func (f fixed) Authenticate(context.Context, string, string) (identity.Caller, error) {
	return f.who, nil
}

// timed is a client that notes when each line reached it.
type timed struct {
	mu     sync.Mutex
	header http.Header
	began  time.Time
	part   string
	lines  []string
	at     []time.Duration
}

func (w *timed) Header() http.Header { return w.header }
func (w *timed) WriteHeader(int)     {}
func (w *timed) Flush()              {}

func (w *timed) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.part += string(p)
	for {
		line, rest, ok := strings.Cut(w.part, "\n")
		if !ok {
			return len(p), nil
		}
		w.part = rest
		if line != "" {
			w.lines, w.at = append(w.lines, line), append(w.at, time.Since(w.began))
		}
	}
}
