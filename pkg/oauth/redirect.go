package oauth

import (
	"net/url"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// hostName is a host with or without a port, and nothing that a header or a page
// could take for more.
var hostName = pattern.New(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$`)

// redirectable refuses an address that no code may be sent to. What is left is
// https, this machine over http, and the schemes that programs own by a reversed
// host name (RFC 8252 7).
func redirectable(uri string) error {
	bad := func(why string) error { return &app.GrantError{Code: "invalid_redirect_uri", Text: why} }
	u, err := url.Parse(uri)
	switch {
	case err != nil || len(uri) > 2000 || strings.ContainsAny(uri, "\\ \t\r\n\"<>`"):
		return bad("a redirect URI is not an address")
	case u.Fragment != "" || strings.Contains(uri, "#"):
		return bad("a redirect URI has no fragment")
	case u.User != nil:
		return bad("a redirect URI names no user")
	case u.Scheme == "https":
		if !hostName.MatchString(u.Host) {
			return bad("a redirect URI names a host")
		}
	case u.Scheme == "http":
		if !loopback(u.Hostname()) || !hostName.MatchString(strings.Replace(u.Host, "[::1]", "localhost", 1)) {
			return bad("over http a redirect URI is on this machine: 127.0.0.1, [::1] or localhost")
		}
	case !strings.Contains(u.Scheme, "."):
		return bad("a redirect URI of a program's own has a scheme such as com.example.app")
	}
	return nil
}

func loopback(host string) bool { return host == "127.0.0.1" || host == "::1" || host == "localhost" }

// redirects reports whether a client that registered all may be sent to uri:
// exactly one of them, but for the port of an address on this machine, which a
// program learns only when it listens (RFC 8252 7.3).
func redirects(all []string, uri string) bool {
	if redirectable(uri) != nil {
		return false
	}
	for _, one := range all {
		if one == uri {
			return true
		}
		a, aerr := url.Parse(one)
		b, berr := url.Parse(uri)
		if aerr != nil || berr != nil || a.Scheme != "http" || b.Scheme != "http" || !loopback(a.Hostname()) || a.Hostname() != b.Hostname() {
			continue
		}
		a.Host, b.Host = "", ""
		if a.String() == b.String() {
			return true
		}
	}
	return false
}

// back is the address that sends a client its answer. Who answers is said, too, so
// that a client of several servers cannot be led to confuse them (RFC 9207).
func back(redirect, issuer, state string, answer map[string]string) string {
	u, err := url.Parse(redirect)
	if err != nil {
		return ""
	}
	q := u.Query()
	for name, value := range answer {
		q.Set(name, value)
	}
	if state != "" {
		q.Set("state", state)
	}
	q.Set("iss", issuer)
	u.RawQuery = q.Encode()
	return u.String()
}

// origin is what a page must allow a form to end at, after the redirect.
func origin(redirect string) string {
	u, err := url.Parse(redirect)
	switch {
	case err != nil:
		return ""
	case u.Scheme == "http" || u.Scheme == "https":
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + ":"
}
