package edge

import (
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Address is how the world reaches this control plane. What a client has to find
// is found from it alone (LG-015), so it is never taken from a header that anybody
// can send.
type Address struct {
	// URL is the address where it is known beforehand, without a slash at its end.
	URL string
	// Proof is what the distribution in front sends along in names.HeaderEdge. Only
	// with it the host in names.HeaderHost is believed, and the viewer's address.
	Proof string
}

var hostShape = pattern.New(`^[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?$`)

func (a Address) proven(r *http.Request) bool {
	return a.Proof != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get(names.HeaderEdge)), []byte(a.Proof)) == 1
}

// Of returns the address that the request came in by, "" when nothing proves one.
func (a Address) Of(r *http.Request) string {
	if a.URL != "" {
		return a.URL
	}
	if host := strings.ToLower(r.Header.Get(names.HeaderHost)); a.proven(r) && hostShape.MatchString(host) {
		return "https://" + host
	}
	return ""
}

// Peer returns the network address of whoever sent the request. Behind the
// distribution it is the last but one of those that forwarded it: what comes
// before was sent along by the viewer, and the last one is the distribution.
func (a Address) Peer(r *http.Request) string {
	if a.proven(r) {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if n := len(hops) - 2; n >= 0 {
			if ip := net.ParseIP(strings.TrimSpace(hops[n])); ip != nil {
				return ip.String()
			}
		}
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// Metadata is where a protected resource says who gives out its tokens (RFC 9728).
const Metadata = "/.well-known/oauth-protected-resource"

// Resource is a part of the control plane that tokens are for.
type Resource struct {
	Path string // "" for the address itself, which is where agents of people call
	Name string
}

// Resources lists them. The address itself is one, so that a client needs nothing
// but what was printed.
func Resources() []Resource {
	return []Resource{
		{"", "the tools of lazy, for agents of a person"}, {"/mcp/_", "the tools of lazy, for agents of a person"}, {"/rpc", "the commands of lazy, for its CLI"},
	}
}

// challenge is the WWW-Authenticate of a request that was not let in: where its
// client learns how to be, if there is a way (RFC 9728 5.1).
func (b Base) challenge(r *http.Request, surface string) string {
	at := b.Address.Of(r)
	path, ok := map[string]string{"/": "", "/mcp/_": "/mcp/_"}[r.URL.Path]
	if surface == "rpc" {
		path, ok = "/rpc", true
	}
	if at == "" || !ok {
		return "Bearer"
	}
	c := `Bearer resource_metadata="` + at + Metadata + path + `"`
	if Bearer(r) != "" {
		c += `, error="invalid_token"`
	}
	return c
}

// Challenge adds to the answer how to be let in.
func (x *Exchange) Challenge() {
	x.W.Header().Set("WWW-Authenticate", x.base.challenge(x.R, x.Surface))
}
