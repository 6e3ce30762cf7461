// Package oauth is the authorization server: the device grant for the CLI, the
// authorization code with PKCE for MCP clients, and the pages on which a person
// approves either. It is an edge over the use cases: what it decides is the form
// of requests and answers, never who may enter.
package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

const surface = "auth"

// Person is somebody whom an identity provider vouches for.
type Person struct {
	Email string // proven to be theirs
	Name  string
}

// People is an identity provider. Both halves of a sign-in are given the same
// redirect, nonce and verifier.
type People interface {
	// Begin returns the address at which the person proves who they are. It sends
	// them back to redirect with state and a code.
	Begin(ctx context.Context, redirect, state, nonce, verifier string) (string, error)
	// End exchanges the code for the person.
	End(ctx context.Context, redirect, code, nonce, verifier string) (Person, error)
}

// Config is what the surface needs.
type Config struct {
	edge.Base
	App *app.App
	// People finds the identity provider. It is nil where people prove who they are
	// by the owner's link.
	People func(ctx context.Context) (People, error)
	// Documents fetches the metadata documents of clients; see Guarded. Nil means
	// that no client is known by one.
	Documents *http.Client
}

type server struct{ Config }

// Paths of the server.
const (
	pathServer    = "/.well-known/oauth-authorization-server"
	pathDevice    = "/auth/device"
	pathToken     = "/auth/token"
	pathRevoke    = "/auth/revoke"
	pathRegister  = "/auth/register"
	pathAuthorize = "/auth/authorize"
	pathCallback  = "/auth/callback"
	pathOwner     = "/auth/owner"
	pathActivate  = "/activate"
)

// Grant types and endpoints in the protocol's words.
const (
	grantDevice  = "urn:ietf:params:oauth:grant-type:device_code"
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
)

// Routes returns the surface's table of routes.
func Routes(c Config) []edge.Route {
	s := &server{c}
	routes := []edge.Route{
		s.route("GET "+pathServer, s.metadata),
		s.route("POST "+pathToken, s.token),
		s.route("POST "+pathRevoke, s.revoke),
		s.route("POST "+pathDevice, s.device),
		s.route("POST "+pathRegister, s.register),
		s.route("GET "+pathAuthorize, s.authorize),
		s.route("POST "+pathAuthorize, s.decideClient),
		s.route("GET "+pathCallback, s.callback),
		s.route("GET "+pathOwner, s.owner),
		s.route("GET "+pathActivate, s.activate),
		s.route("POST "+pathActivate, s.decideDevice),
	}
	for _, r := range edge.Resources() {
		routes = append(routes, s.route("GET "+edge.Metadata+r.Path, s.resource(r)))
	}
	return routes
}

// New serves the surface alone.
func New(c Config) http.Handler { return edge.Router(Routes(c)...) }

// visit is one request to the server, whose own address is known.
type visit struct {
	*edge.Exchange
	at   string // the address of this server, which is also its issuer
	peer string
}

func (s *server) route(pattern string, handle func(visit)) edge.Route {
	_, path, _ := strings.Cut(pattern, " ")
	return edge.Route{Pattern: pattern, Class: edge.Bounded, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Serve(w, r, surface, func(x *edge.Exchange) {
			x.Note("command", path)
			v := visit{x, s.Address.Of(r), s.Address.Peer(r)}
			if v.at == "" {
				// Whoever got here past the distribution finds nothing: what this server
				// says of itself begins with an address, and there is none to trust.
				x.Fail(fault.New(fault.NotFound, "There is nothing at this address."))
				return
			}
			handle(v)
		})
	})}
}

// serverMetadata is the document of RFC 8414.
type serverMetadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Device        string   `json:"device_authorization_endpoint,omitempty"`
	Responses     []string `json:"response_types_supported"`
	Modes         []string `json:"response_modes_supported"`
	Grants        []string `json:"grant_types_supported"`
	Methods       []string `json:"code_challenge_methods_supported"`
	TokenAuth     []string `json:"token_endpoint_auth_methods_supported"`
	RevokeAuth    []string `json:"revocation_endpoint_auth_methods_supported"`
	Scopes        []string `json:"scopes_supported"`
	Iss           bool     `json:"authorization_response_iss_parameter_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
}

// scope is the one scope there is. What a token may do follows from its kind.
const scope = "lazy"

func (s *server) metadata(v visit) {
	m := serverMetadata{
		Issuer: v.at, Authorization: v.at + pathAuthorize, Token: v.at + pathToken, Registration: v.at + pathRegister, Revocation: v.at + pathRevoke,
		Responses: []string{"code"}, Modes: []string{"query"}, Grants: []string{grantCode, grantRefresh}, Methods: []string{"S256"},
		TokenAuth: []string{"none"}, RevokeAuth: []string{"none"}, Scopes: []string{scope, "offline_access"}, Iss: true, Documents: s.Documents != nil,
	}
	if !s.App.Local {
		m.Device, m.Grants = v.at+pathDevice, append(m.Grants, grantDevice)
	}
	v.Answer(http.StatusOK, m)
}

// resource is the document of RFC 9728 about one resource. Its address must be
// the very one that the client asked about.
func (s *server) resource(r edge.Resource) func(visit) {
	return func(v visit) {
		v.Answer(http.StatusOK, map[string]any{
			"resource": v.at + r.Path, "authorization_servers": []string{v.at}, "bearer_methods_supported": []string{"header"},
			"scopes_supported": []string{scope}, "resource_name": r.Name,
			// Of a client that knows the address alone: where the others are.
			"lazy_mcp_endpoint": v.at + "/mcp/_", "lazy_rpc_endpoint": v.at + "/rpc",
		})
	}
}

// target checks the resource that a client asks a token for (RFC 8707). None is
// the one there is.
func target(v visit, form url.Values) error {
	for _, want := range form["resource"] {
		known := false
		for _, r := range edge.Resources() {
			known = known || strings.TrimSuffix(want, "/") == v.at+r.Path
		}
		if !known {
			return &app.GrantError{Code: app.InvalidTarget, Text: "the resource is none of this server"}
		}
	}
	return nil
}

// refuse answers a program in the words of RFC 6749 5.2.
func (v visit) refuse(err error) {
	status, code, public := http.StatusBadRequest, "", ""
	if e, ok := errors.AsType[*app.GrantError](err); ok {
		code, public = e.Code, e.Text
		if code == app.InvalidClient {
			status = http.StatusUnauthorized
		}
	} else {
		f := fault.Of(err)
		status, code, public = fault.HTTP(f), f.Code, f.Public
		if f.Kind == fault.Unavailable || f.Kind == fault.Limited {
			code = "temporarily_unavailable"
		} else if f.Kind == fault.Internal {
			code = "server_error"
		}
	}
	body, merr := json.Marshal(map[string]string{"error": code, "error_description": public})
	if merr != nil {
		v.Fail(merr)
		return
	}
	v.Reply(envelope.Reply{Status: status, Body: body}, err)
}

// formMost bounds a form, in bytes.
const formMost = 16 << 10

// form reads the body of a form, refusing what is given twice (RFC 6749 3.2).
func (v visit) form() (url.Values, error) {
	b, err := v.Body(formMost)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(b))
	if err != nil {
		return nil, &app.GrantError{Code: app.InvalidRequest, Text: "the body is not a form"}
	}
	return form, once(form)
}

func once(form url.Values) error {
	for name, values := range form {
		if len(values) > 1 && name != "resource" {
			return &app.GrantError{Code: app.InvalidRequest, Text: "a parameter is given twice"}
		}
	}
	return nil
}

// clientOf reads who the client says it is. Some send their id the way a client
// with a secret does, and an empty secret with it.
func (v visit) clientOf(form url.Values) string {
	if id := form.Get("client_id"); id != "" {
		return id
	}
	if id, secret, ok := v.R.BasicAuth(); ok && secret == "" {
		if plain, err := url.QueryUnescape(id); err == nil {
			return plain
		}
	}
	return ""
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
