// Package login signs a person's machine in to a control plane elsewhere: it finds
// the authorization server from the address alone, waits for the person to approve
// in a browser, keeps what it is given where only they can read it, and renews it.
package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// Client is what the CLI calls itself to an authorization server.
const Client = "lazy"

const (
	deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
	pollStep    = 5 * time.Second // RFC 8628 3.5
	pollMost    = time.Minute     // between polls that nobody answers
	lateMost    = 30 * time.Second
	answerMost  = 1 << 20
)

// Server is an authorization server as it describes itself (RFC 8414).
type Server struct {
	Issuer string `json:"issuer"`
	Token  string `json:"token_endpoint"`
	Revoke string `json:"revocation_endpoint"`
	Device string `json:"device_authorization_endpoint"`
}

// Address is the address of a control plane from what a person typed.
func Address(typed string) (string, error) {
	at := strings.TrimSuffix(strings.TrimSpace(typed), "/")
	if at != "" && !strings.Contains(at, "://") {
		at = "https://" + at
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", fault.New(fault.Invalid, "%q is not the address of a control plane", typed).WithNext("Give the address that was printed, as in: lazy login https://lazy.example.com")
	}
	if u.Scheme == "http" && u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost" && u.Hostname() != "::1" {
		return "", fault.New(fault.Invalid, "%s would carry your credential in the open", at).WithNext("Use https://" + u.Host)
	}
	return at, nil
}

// Discover finds the authorization server of a control plane. What it says must be
// about that very address: a server that sends credentials elsewhere is not
// believed.
func Discover(ctx context.Context, hc *http.Client, address string) (Server, error) {
	var s Server
	status, body, err := exchange(ctx, hc, http.MethodGet, address+"/.well-known/oauth-authorization-server", nil)
	if err != nil {
		return s, err
	}
	if status != http.StatusOK || json.Unmarshal(body, &s) != nil || s.Issuer == "" {
		return s, fault.New(fault.Invalid, "there is no control plane at %s that people sign in to", address).WithNext("Check the address.")
	}
	for _, at := range []string{s.Issuer, s.Token, s.Revoke, s.Device} {
		if at != "" && at != address && !strings.HasPrefix(at, address+"/") {
			return s, fault.New(fault.Invalid, "what answers at %s speaks for %s; nothing was sent there", address, at).WithNext("Use the address that was printed.")
		}
	}
	return s, nil
}

// Codes is a sign-in that waits for its person.
type Codes struct {
	Device   string `json:"device_code"`
	User     string `json:"user_code"`
	At       string `json:"verification_uri"`
	Complete string `json:"verification_uri_complete"`
	Expires  int64  `json:"expires_in"`
	Interval int64  `json:"interval"`
}

// Machine is what a sign-in says of where it was begun.
type Machine struct{ Name, ID, Project string }

// Begin begins a sign-in.
func (s Server) Begin(ctx context.Context, hc *http.Client, m Machine) (Codes, error) {
	var c Codes
	if s.Device == "" {
		return c, refusal.Of(refusal.SingleOwner)
	}
	status, body, err := exchange(ctx, hc, http.MethodPost, s.Device, url.Values{
		"client_id": {Client}, "machine": {m.Name}, "machine_id": {m.ID}, "project": {m.Project},
	})
	if err != nil {
		return c, err
	}
	if status != http.StatusOK {
		return c, said(status, body)
	}
	if json.Unmarshal(body, &c) != nil || c.Device == "" || c.User == "" || c.At == "" || c.Expires <= 0 {
		return c, fault.New(fault.Unavailable, "the control plane answered a sign-in with something else")
	}
	if c.Interval <= 0 {
		c.Interval = int64(pollStep / time.Second)
	}
	return c, nil
}

// Tokens is what a sign-in gives, and where it leads.
type Tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Tenant  string `json:"tenant"`
	Project string `json:"project"`
	Email   string `json:"email"`
}

// Wait polls until the person has decided or the server says that it is too late.
// It asks no sooner than it was told to, and each time it is told to slow down it
// waits five seconds longer from then on. A server that does not answer is asked
// again, ever more slowly.
func (s Server) Wait(ctx context.Context, hc *http.Client, now func() time.Time, c Codes) (Tokens, error) {
	end := now().Add(time.Duration(c.Expires)*time.Second + lateMost)
	interval := time.Duration(c.Interval) * time.Second
	pause, unanswered := interval, 0
	for {
		if err := client.Rest(ctx, pause); err != nil {
			return Tokens{}, err
		}
		status, body, err := exchange(ctx, hc, http.MethodPost, s.Token, url.Values{
			"grant_type": {deviceGrant}, "client_id": {Client}, "device_code": {c.Device},
		})
		if ctx.Err() != nil {
			return Tokens{}, ctx.Err()
		}
		if err != nil || status >= 500 || status == http.StatusTooManyRequests {
			// The person may decide meanwhile, and the code is valid as long as it is.
			unanswered = min(unanswered+1, 4)
			pause = max(interval, min(interval<<unanswered, pollMost))
			if !now().Before(end) {
				return Tokens{}, refusal.Of(refusal.LoginDeclined, "not approved in time")
			}
			continue
		}
		pause, unanswered = interval, 0
		switch code := errorCode(body); {
		case status == http.StatusOK:
			var t Tokens
			if json.Unmarshal(body, &t) != nil || t.Access == "" {
				return t, fault.New(fault.Unavailable, "the control plane answered a sign-in with something else")
			}
			return t, nil
		case code == "authorization_pending":
		case code == "slow_down":
			interval += pollStep
			pause = interval
		case code == "access_denied":
			return Tokens{}, refusal.Of(refusal.LoginDeclined, "declined")
		case code == "expired_token":
			return Tokens{}, refusal.Of(refusal.LoginDeclined, "not approved in time")
		default:
			return Tokens{}, said(status, body)
		}
		if !now().Before(end) {
			return Tokens{}, refusal.Of(refusal.LoginDeclined, "not approved in time")
		}
	}
}

// Renew exchanges a refresh token. ErrWithdrawn means that the sign-in is over.
func (s Server) Renew(ctx context.Context, hc *http.Client, refresh string) (Tokens, error) {
	var t Tokens
	status, body, err := exchange(ctx, hc, http.MethodPost, s.Token, url.Values{
		"grant_type": {"refresh_token"}, "client_id": {Client}, "refresh_token": {refresh},
	})
	switch {
	case err != nil:
		return t, err
	case errorCode(body) == "invalid_grant":
		return t, ErrWithdrawn
	case status != http.StatusOK:
		return t, said(status, body)
	}
	if json.Unmarshal(body, &t) != nil || t.Access == "" || t.Refresh == "" {
		return t, fault.New(fault.Unavailable, "the control plane answered a renewal with something else")
	}
	return t, nil
}

// ErrWithdrawn means that a sign-in has ended: its person has to sign in again.
var ErrWithdrawn = errors.New("login: the sign-in has ended")

// End withdraws a sign-in at the server.
func (s Server) End(ctx context.Context, hc *http.Client, token string) error {
	status, body, err := exchange(ctx, hc, http.MethodPost, s.Revoke, url.Values{"client_id": {Client}, "token": {token}})
	if err == nil && status != http.StatusOK {
		err = said(status, body)
	}
	return err
}

func exchange(ctx context.Context, hc *http.Client, method, at string, form url.Values) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, fmt.Errorf("build request: %w", err)
	}
	r.Header.Set("Accept", "application/json")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := hc.Do(r)
	if err != nil {
		u, _ := url.Parse(at)
		cause := err
		if inner, ok := errors.AsType[*url.Error](err); ok {
			cause = inner.Err
		}
		return 0, nil, &client.UnreachableError{Base: u.Scheme + "://" + u.Host, Err: cause}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, answerMost))
	return res.StatusCode, body, err
}

type oauthError struct {
	Code string `json:"error"`
	Text string `json:"error_description"`
}

func errorCode(body []byte) string {
	var e oauthError
	_ = json.Unmarshal(body, &e)
	return e.Code
}

// said is the error of an answer that is none of the expected ones.
func said(status int, body []byte) error {
	var e oauthError
	if json.Unmarshal(body, &e) != nil || e.Code == "" {
		return fault.New(fault.Unavailable, "the control plane answers with status %d", status)
	}
	if e.Code == string(refusal.SingleOwner) {
		return refusal.Of(refusal.SingleOwner)
	}
	kind := fault.Denied
	if status >= 500 || status == http.StatusTooManyRequests {
		kind = fault.Unavailable
	}
	return fault.New(kind, "the control plane refuses: %s", e.Text)
}
