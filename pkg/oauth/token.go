package oauth

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// What one origin may begin. Each is a row that nobody may ever come back for.
const (
	devicesMost  = 30
	devicesIn    = 15 * time.Minute
	registerMost = 20
	registerAll  = 500
	registerIn   = time.Hour
)

// tokens is the answer of RFC 6749 5.1. Tenant, project and email are for the CLI,
// which says where it is signed in.
type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int64  `json:"expires_in"`
	Refresh string `json:"refresh_token"`
	Scope   string `json:"scope"`
	Tenant  string `json:"tenant"`
	Project string `json:"project"`
	Email   string `json:"email,omitempty"`
}

// token is the token endpoint.
func (s *server) token(v visit) {
	form, err := v.form()
	if err == nil {
		err = target(v, form)
	}
	if err != nil {
		v.refuse(err)
		return
	}
	ctx, client := v.R.Context(), v.clientOf(form)
	v.Note("grant", known(form.Get("grant_type"), grantCode, grantRefresh, grantDevice))
	var out app.Issued
	switch form.Get("grant_type") {
	case grantDevice:
		out, err = s.App.PollDevice(ctx, form.Get("device_code"), client)
	case grantCode:
		out, err = s.App.RedeemCode(ctx, app.CodeUse{
			Code: form.Get("code"), Client: client, Redirect: form.Get("redirect_uri"), Verifier: form.Get("code_verifier"),
		})
	case grantRefresh:
		out, err = s.App.Refresh(ctx, form.Get("refresh_token"), client)
	default:
		err = &app.GrantError{Code: "unsupported_grant_type", Text: "the grant is none that the server's metadata names"}
	}
	if err != nil {
		v.refuse(err)
		return
	}
	v.Who.Tenant, v.Who.Project, v.Who.Kind = out.Tenant, out.Project, out.Kind
	v.Answer(http.StatusOK, tokens{
		Access: out.Access, Type: "Bearer", Expires: seconds(out.Expires), Refresh: out.Refresh, Scope: scope,
		Tenant: out.Tenant, Project: out.Project, Email: out.Email,
	})
}

// known is word where it is one of all: logs hold nothing that was only sent.
func known(word string, all ...string) string {
	for _, w := range all {
		if w == word {
			return w
		}
	}
	return "other"
}

// revoke is RFC 7009. A token that is worth nothing is answered like any other.
func (s *server) revoke(v visit) {
	form, err := v.form()
	if err == nil {
		err = s.App.RevokeGrant(v.R.Context(), form.Get("token"), v.clientOf(form))
	}
	if err != nil {
		v.refuse(err)
		return
	}
	v.Answer(http.StatusOK, struct{}{})
}

// device begins a device grant (RFC 8628 3.1). machine, machine_id and project are
// the CLI's own.
func (s *server) device(v visit) {
	form, err := v.form()
	if err == nil && v.clientOf(form) != app.ClientCLI {
		err = &app.GrantError{Code: "unauthorized_client", Text: "only the CLI signs in with a device code; other clients use an authorization code"}
	}
	if err == nil {
		err = s.App.Allow(v.R.Context(), "device", v.peer, devicesMost, devicesIn)
	}
	if err != nil {
		v.refuse(err)
		return
	}
	codes, err := s.App.BeginDevice(v.R.Context(), app.DeviceAsk{
		Machine: form.Get("machine"), ID: form.Get("machine_id"), Project: form.Get("project"), From: v.peer,
	})
	if err != nil {
		v.refuse(err)
		return
	}
	v.Answer(http.StatusOK, map[string]any{
		"device_code": codes.Device, "user_code": codes.User, "expires_in": seconds(codes.Expires), "interval": seconds(codes.Interval),
		"verification_uri": v.at + pathActivate, "verification_uri_complete": v.at + pathActivate + "?user_code=" + codes.User,
	})
}

// registration is what a client says of itself (RFC 7591). Of the rest that it may
// say nothing is kept.
type registration struct {
	Name      string   `json:"client_name"`
	Redirects []string `json:"redirect_uris"`
	Auth      string   `json:"token_endpoint_auth_method"`
	Grants    []string `json:"grant_types"`
	Responses []string `json:"response_types"`
}

// register keeps a client that introduces itself. Every client is a public one:
// what proves it is the verifier of each exchange.
func (s *server) register(v visit) {
	var in registration
	body, err := v.Body(formMost)
	if err == nil && json.Unmarshal(body, &in) != nil {
		err = &app.GrantError{Code: "invalid_client_metadata", Text: "the body is not the JSON object of a client"}
	}
	if err == nil {
		err = in.check()
	}
	if err == nil {
		err = s.App.Allow(v.R.Context(), "register", v.peer, registerMost, registerIn)
	}
	if err == nil {
		err = s.App.Allow(v.R.Context(), "register", "all", registerAll, registerIn)
	}
	if err != nil {
		v.refuse(err)
		return
	}
	c, err := s.App.RegisterClient(v.R.Context(), in.Name, in.Redirects)
	if err != nil {
		v.refuse(err)
		return
	}
	v.Answer(http.StatusCreated, map[string]any{
		"client_id": c.ID, "client_id_issued_at": c.Created.Unix(), "client_name": c.Name, "redirect_uris": c.Redirects,
		"token_endpoint_auth_method": "none", "grant_types": []string{grantCode, grantRefresh}, "response_types": []string{"code"},
	})
}

func (in *registration) check() error {
	in.Name, _ = text.Cut(text.Line(in.Name), 80)
	if n := len(in.Redirects); n < 1 || n > 10 {
		return &app.GrantError{Code: "invalid_redirect_uri", Text: "a client has 1 to 10 redirect URIs"}
	}
	for _, uri := range in.Redirects {
		if err := redirectable(uri); err != nil {
			return err
		}
	}
	return nil
}
