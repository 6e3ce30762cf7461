package edge_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

func asked(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp/_", nil)
	r.RemoteAddr = "198.51.100.1:443"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestAnAddressIsNeverTakenFromWhatAnybodyCanSend(t *testing.T) {
	behind := edge.Address{Proof: "proof"}
	for name, c := range map[string]struct {
		at     edge.Address
		header []string
		want   string
	}{
		"configured":        {edge.Address{URL: "https://lazy.example", Proof: "proof"}, []string{names.HeaderHost, "evil.example", names.HeaderEdge, "proof"}, "https://lazy.example"},
		"proven":            {behind, []string{names.HeaderHost, "D1.CloudFront.net", names.HeaderEdge, "proof"}, "https://d1.cloudfront.net"},
		"no proof":          {behind, []string{names.HeaderHost, "evil.example"}, ""},
		"wrong proof":       {behind, []string{names.HeaderHost, "evil.example", names.HeaderEdge, "poof"}, ""},
		"nothing to prove":  {edge.Address{}, []string{names.HeaderHost, "evil.example", names.HeaderEdge, ""}, ""},
		"forwarded":         {behind, []string{"X-Forwarded-Host", "evil.example", "Host", "evil.example"}, ""},
		"a path in it":      {behind, []string{names.HeaderHost, "d1.example/evil", names.HeaderEdge, "proof"}, ""},
		"a user in it":      {behind, []string{names.HeaderHost, "d1.example@evil.example", names.HeaderEdge, "proof"}, ""},
		"quotes in it":      {behind, []string{names.HeaderHost, `d1.example"`, names.HeaderEdge, "proof"}, ""},
		"no host with it":   {behind, []string{names.HeaderEdge, "proof"}, ""},
		"nothing to be had": {behind, nil, ""},
	} {
		r := asked(c.header...)
		r.Host = "evil.example"
		if got := c.at.Of(r); got != c.want {
			t.Errorf("%s: the address is %q, want %q", name, got, c.want)
		}
	}
}

func TestThePeerIsTheOneThatTheDistributionSaw(t *testing.T) {
	at := edge.Address{Proof: "proof"}
	for name, c := range map[string]struct{ forwarded, proof, want string }{
		"direct":        {"", "", "198.51.100.1"},
		"claimed":       {"203.0.113.9, 203.0.113.8", "", "198.51.100.1"},
		"through":       {"203.0.113.9, 130.176.0.1", "proof", "203.0.113.9"},
		"through, lied": {"10.0.0.1, 203.0.113.9, 130.176.0.1", "proof", "203.0.113.9"},
		"one hop":       {"130.176.0.1", "proof", "198.51.100.1"},
		"no address":    {"x, 130.176.0.1", "proof", "198.51.100.1"},
	} {
		if got := at.Peer(asked("X-Forwarded-For", c.forwarded, names.HeaderEdge, c.proof)); got != c.want {
			t.Errorf("%s: the peer is %s, want %s", name, got, c.want)
		}
	}
}

func TestWhoIsNotLetInLearnsWhereToAsk(t *testing.T) {
	b := edge.Base{
		Log: slog.New(slog.DiscardHandler), Now: time.Now, NewID: func() string { return "id" },
		Address: edge.Address{URL: "https://lazy.example"},
	}
	const meta = `Bearer resource_metadata="https://lazy.example/.well-known/oauth-protected-resource`
	for _, c := range []struct{ path, surface, token, want string }{
		{"/", "mcp", "", meta + `"`},
		{"/mcp/_", "mcp", "", meta + `/mcp/_"`},
		{"/mcp/_", "mcp", "old", meta + `/mcp/_", error="invalid_token"`},
		{"/mcp/some-task", "mcp", "", "Bearer"},
		{"/rpc/whoAmI", "rpc", "", meta + `/rpc"`},
		{"/runner/beat", "runner", "", "Bearer"},
	} {
		r := httptest.NewRequest(http.MethodPost, c.path, nil)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		b.Serve(w, r, c.surface, func(x *edge.Exchange) { x.Fail(refusal.Of(refusal.Unauthenticated)) })
		if got := w.Header().Get("WWW-Authenticate"); got != c.want || w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s, want %s", c.path, w.Code, got, c.want)
		}
	}
}
