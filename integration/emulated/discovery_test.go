package emulated_test

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/integration/issuer"
	"github.com/lazyplane/lazyplane/integration/lambdafake"
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// address is what a deployment prints. The functions are not told it: they learn it
// from what the distribution sends along.
const address = "https://example.com"

// distribution puts a stack's API behind the address as the deployed one does: the
// stage is the origin's path, the API is called under a host of its own, and two
// headers are overwritten. It returns a client for which the address is this
// machine, and the API without the distribution in front.
func distribution(t *testing.T, s *emulated.Stack) (*http.Client, http.Handler) {
	t.Helper()
	const proof = "the-part-of-the-stacks-id"
	env := slices.DeleteFunc(slices.Clone(s.Env), func(v string) bool {
		return strings.HasPrefix(v, names.EnvURL+"=") || strings.HasPrefix(v, names.EnvRunner+"=")
	})
	env = append(env, names.EnvEdge+"="+proof)
	api := map[string]*lambdafake.Function{}
	for _, name := range []string{names.SurfaceMCP, names.SurfaceAuth, names.SurfaceRPC} {
		f, err := lambdafake.Start(lambdafake.Config{
			Name: name, Bin: filepath.Join(programs(t), name), Env: env, Timeout: 30 * time.Second, Slack: time.Minute, Log: io.Discard,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		api[name] = f
	}
	api[""], api[".well-known"], api["activate"] = api["mcp"], api["auth"], api["auth"]
	stage := http.StripPrefix("/prod", lambdafake.Gateway(api))
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(names.HeaderHost, r.Host)
		r.Header.Set(names.HeaderEdge, proof)
		r.Host = "api-id.execute-api.eu-west-1.amazonaws.com"
		r.URL.Path = "/prod" + r.URL.Path
		stage.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c := srv.Client()
	tr, ok := c.Transport.(*http.Transport)
	if !ok {
		t.Fatal("the server's client has no transport to change")
	}
	tr.DialContext = func(ctx context.Context, network, at string) (net.Conn, error) {
		if at == "example.com:443" {
			at = srv.Listener.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, at)
	}
	return c, stage
}

// visitor is somebody at a browser, who approves what is asked on a page of the
// address.
type visitor struct {
	t *testing.T
	c *http.Client
}

func newVisitor(t *testing.T, through *http.Client) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t, &http.Client{Transport: through.Transport, Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), editor) {
			return http.ErrUseLastResponse // the client's own address, where nobody listens
		}
		return nil
	}}}
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// approve opens a page, signs in on the way, approves, and returns the answer.
func (p *visitor) approve(at string) *http.Response {
	p.t.Helper()
	res := p.send(http.MethodGet, at, "")
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("the page answers %s %s, %v", res.Status, body, err)
	}
	form := url.Values{"answer": {"approve"}, "into": {tenant + "/" + project}}
	for _, m := range hiddenField.FindAllStringSubmatch(string(body), -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	page := *res.Request.URL
	page.RawQuery = ""
	return p.send(http.MethodPost, page.String(), form.Encode())
}

func (p *visitor) send(method, at, body string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := p.c.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	return res
}

// editor is where an MCP client takes its answer.
const editor = "http://127.0.0.1:1/callback"

// provide has people prove themselves to an issuer of the test, as an operator sets
// it up, and puts a person there.
func provide(t *testing.T, s *emulated.Stack) {
	t.Helper()
	i, err := issuer.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	i.Become(issuer.Person{Email: email, Name: person, Verified: true})
	event, err := json.Marshal(map[string]any{
		"source": feed.OperatorSource, "detail-type": feed.SignInType, "detail": app.SignInConfig{Issuer: i.URL, Client: i.Client, Secret: i.Secret},
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.Functions["events"].Call(t.Context(), event); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
}

// The official client of the protocol is told the address and nothing else.
func allIsFoundFromTheAddress(t *testing.T, s *emulated.Stack, _ *world) {
	req.Covers(t, "LG-014", "LG-015")
	through, direct := distribution(t, s)
	provide(t, s)
	for _, endpoint := range []string{address, address + "/", address + "/mcp/_"} {
		h, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
			DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
				ClientName: "An editor", RedirectURIs: []string{editor},
			}},
			RedirectURL: editor, Client: through, RequestRefreshToken: true,
			AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
				res := newVisitor(t, through).approve(args.URL)
				_ = res.Body.Close()
				to, err := res.Location()
				if err != nil {
					return nil, errors.New("the person is sent nowhere: " + res.Status)
				}
				return &auth.AuthorizationResult{Code: to.Query().Get("code"), State: to.Query().Get("state"), Iss: to.Query().Get("iss")}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		c := mcp.NewClient(&mcp.Implementation{Name: "an-editor", Version: "1"}, nil)
		session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: through, OAuthHandler: h}, nil)
		if err != nil {
			t.Fatalf("%s: %v", endpoint, err)
		}
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || !slices.ContainsFunc(tools.Tools, func(t *mcp.Tool) bool { return t.Name == "lazy_create" }) {
			t.Errorf("%s has the tools %v, %v", endpoint, tools, err)
		}
		out, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "lazy_list", Arguments: map[string]any{}})
		if err != nil || out.IsError {
			t.Errorf("%s: a tool answers %+v, %v", endpoint, out, err)
		}
		_ = session.Close()
	}
	// Headers that a viewer sends are overwritten; past the distribution they are not
	// believed, and there is nothing to be found.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/.well-known/oauth-authorization-server", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(names.HeaderHost, "evil.example")
	r.Header.Set(names.HeaderEdge, "a guess")
	res, err := through.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var meta struct {
		Issuer string `json:"issuer"`
	}
	if err := json.NewDecoder(res.Body).Decode(&meta); err != nil || meta.Issuer != address {
		t.Errorf("through the distribution the issuer is %q, %v", meta.Issuer, err)
	}
	past := r.Clone(t.Context())
	past.URL.Path = "/prod" + past.URL.Path
	w := httptest.NewRecorder()
	direct.ServeHTTP(w, past)
	if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "evil.example") {
		t.Errorf("past the distribution: %d %s", w.Code, w.Body)
	}
}
