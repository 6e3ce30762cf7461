package local_test

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/login"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// ask makes one request of a browser and returns where it leads and what it shows.
func ask(t *testing.T, c *http.Client, method, at, form string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

// The official client of the protocol is told a laptop's address; its owner proves
// who they are by the link.
func TestTheOwnerLetsAClientInByTheirLink(t *testing.T) {
	req.Covers(t, "LG-014", "OP-010")
	paths, err := config.PathsIn(t.TempDir(), repository(t, scripted))
	if err != nil {
		t.Fatal(err)
	}
	p := up(t, paths)
	const redirect = "http://127.0.0.1:1/callback"
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	approve := func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
		if res, page := ask(t, browser, http.MethodGet, args.URL, ""); res.StatusCode != http.StatusUnauthorized || !strings.Contains(page, "lazy dashboard") {
			t.Errorf("before the link: %s %s", res.Status, page)
		}
		var link struct {
			Link string `json:"link"`
		}
		owner := &client.Client{Base: p.URL, Token: p.Token}
		if err := owner.Call(t.Context(), "mintLoginLink", nil, &link); err != nil {
			t.Fatal(err)
		}
		if res, page := ask(t, browser, http.MethodGet, p.URL+link.Link, ""); res.StatusCode != http.StatusOK {
			t.Errorf("the link: %s %s", res.Status, page)
		}
		if res, page := ask(t, http.DefaultClient, http.MethodGet, p.URL+link.Link, ""); res.StatusCode != http.StatusForbidden {
			t.Errorf("the link again: %s %s", res.Status, page)
		}
		_, page := ask(t, browser, http.MethodGet, args.URL, "")
		form := url.Values{"answer": {"approve"}, "into": {regexp.MustCompile(`<option value="([^"]*)">`).FindStringSubmatch(page)[1]}}
		for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
			form.Set(m[1], html.UnescapeString(m[2]))
		}
		res, page := ask(t, browser, http.MethodPost, p.URL+"/auth/authorize", form.Encode())
		to, err := res.Location()
		if err != nil {
			t.Fatalf("approved: %s %s", res.Status, page)
		}
		return &auth.AuthorizationResult{Code: to.Query().Get("code"), State: to.Query().Get("state"), Iss: to.Query().Get("iss")}, nil
	}
	h, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "An editor", RedirectURIs: []string{redirect},
		}},
		RedirectURL: redirect, AuthorizationCodeFetcher: approve,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "an-editor", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: p.URL, OAuthHandler: h}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	out, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "lazy_list", Arguments: map[string]any{}})
	if err != nil || out.IsError {
		t.Errorf("a tool answers %+v, %v", out, err)
	}
	// There is one credential here, so no machine signs in.
	s, err := login.Discover(t.Context(), http.DefaultClient, p.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), http.DefaultClient, login.Machine{Name: "m"}); fault.Code(err) != string(refusal.SingleOwner) {
		t.Errorf("a sign-in on a laptop: %v", err)
	}
	if res, page := ask(t, http.DefaultClient, http.MethodPost, p.URL+"/auth/device", "client_id=lazy"); res.StatusCode != http.StatusBadRequest || !strings.Contains(page, "single_owner") {
		t.Errorf("a sign-in on a laptop: %s %s", res.Status, page)
	}
}
