package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
)

// Documents of clients: how large, how long to wait, how many one origin may have
// fetched.
const (
	documentMost  = 8 << 10
	documentWait  = 5 * time.Second
	documentsMost = 30
	documentsIn   = 15 * time.Minute
)

// Guarded is a client for addresses that others chose: it reaches public hosts
// alone, by no proxy, and follows no redirect, so that nobody can have this server
// look at what only it can reach.
func Guarded() *http.Client {
	d := &net.Dialer{Timeout: documentWait, Control: func(_, address string, _ syscall.RawConn) error {
		host, err := netip.ParseAddrPort(address)
		if err != nil || !public(host.Addr()) {
			return errPrivate
		}
		return nil
	}}
	return &http.Client{
		Timeout:       documentWait,
		Transport:     &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errPrivate = errors.New("oauth: that address is not a public one")

// notPublic are the ranges that net/netip has no word for.
func notPublic() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "64:ff9b::/96", "2002::/16"} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() {
		return false
	}
	for _, p := range notPublic() {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// client finds the client that an authorization is asked for: one that registered,
// or one whose id is the address of a document about it.
func (s *server) client(v visit, id string) (app.OAuthClient, error) {
	unknown := &app.GrantError{Code: app.InvalidClient, Text: "nobody knows this client; it has to register again"}
	if !strings.HasPrefix(id, "https://") && !strings.HasPrefix(id, "http://") {
		c, ok, err := s.App.RegisteredClient(v.R.Context(), id)
		if err == nil && !ok {
			err = unknown
		}
		return c, err
	}
	u, err := url.Parse(id)
	if err != nil || s.Documents == nil || u.Scheme != "https" || u.Path == "" || u.Path == "/" || u.User != nil || strings.Contains(id, "#") || len(id) > 500 {
		return app.OAuthClient{}, unknown
	}
	if err := s.App.Allow(v.R.Context(), "document", v.peer, documentsMost, documentsIn); err != nil {
		return app.OAuthClient{}, err
	}
	c, err := s.document(v.R.Context(), id)
	if err != nil {
		return app.OAuthClient{}, &app.GrantError{Code: app.InvalidClient, Text: "the document of this client cannot be had, or is not about it"}
	}
	return c, nil
}

func (s *server) document(ctx context.Context, id string) (app.OAuthClient, error) {
	ctx, cancel := context.WithTimeout(ctx, documentWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, id, http.NoBody)
	if err != nil {
		return app.OAuthClient{}, err
	}
	r.Header.Set("Accept", "application/json")
	res, err := s.Documents.Do(r)
	if err != nil {
		return app.OAuthClient{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, documentMost+1))
	if err != nil {
		return app.OAuthClient{}, err
	}
	var doc struct {
		ID string `json:"client_id"`
		registration
	}
	if res.StatusCode != http.StatusOK || len(b) > documentMost || json.Unmarshal(b, &doc) != nil || doc.ID != id {
		return app.OAuthClient{}, errDocument
	}
	if doc.Auth != "" && doc.Auth != "none" {
		return app.OAuthClient{}, errDocument // it would prove itself by something else
	}
	if err := doc.check(); err != nil {
		return app.OAuthClient{}, err
	}
	return app.OAuthClient{ID: id, Name: doc.Name, Redirects: doc.Redirects}, nil
}

var errDocument = errors.New("oauth: not the document of that client")
