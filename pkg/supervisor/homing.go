package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/lazyplane/lazyplane/pkg/client"
)

// homing asks who refused a credential before it lets the refusal through. A
// control plane that was killed may still have its process number, while that of
// another project has its port already: what that one says of a credential it
// cannot know means nothing, and would end the run's work for good.
type homing struct {
	l    *link
	next http.RoundTripper
}

// RoundTrip makes a call.
func (h homing) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := h.next.RoundTrip(q)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	p, ok := h.l.look()
	if !ok || p.root == "" {
		return resp, nil // nobody says who it ought to be
	}
	if err := h.home(q.Context(), q.URL.Scheme, q.URL.Host, p.root); err != nil {
		_ = resp.Body.Close()
		return nil, &client.UnreachableError{Base: h.l.base, Err: err}
	}
	if q.GetBody == nil && q.Body != nil {
		return resp, nil
	}
	// It is ours by now; whether it was that refused is not known, and a refused
	// call has done nothing.
	_ = resp.Body.Close()
	again := q.Clone(q.Context())
	if q.GetBody != nil {
		if again.Body, err = q.GetBody(); err != nil {
			return nil, err
		}
	}
	return h.next.RoundTrip(again)
}

// home reports whether the control plane that answers now is that of our project.
func (h homing) home(ctx context.Context, scheme, host, root string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+host+"/daemon/status", nil)
	if err != nil {
		return err
	}
	resp, err := h.next.RoundTrip(q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var s struct {
		Root string `json:"projectRoot"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&s); err != nil {
		return fmt.Errorf("ask who answers: %w", err)
	}
	if s.Root != root {
		return errAway
	}
	return nil
}
