package oauth_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/integration/issuer"
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/oauth"
	"github.com/lazyplane/lazyplane/pkg/oauth/oidc"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

const verifier = "a-verifier-of-at-least-forty-three-characters-x"

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// logBook is what is logged.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// rig is the authorization server of a team whose people prove themselves to an
// issuer of the test. Ada is a member of acme, with the project shop.
type rig struct {
	t   *testing.T
	app *app.App
	url string
	idp *issuer.Issuer

	log *logBook
}

func newRig(t *testing.T, documents *http.Client) *rig {
	t.Helper()
	// The clock stands still, so that no window of a limit ends during a test.
	now := func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "lazy.db"), now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	idp, err := issuer.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(idp.Close)
	idp.Become(issuer.Person{Email: "ada@example.com", Name: "Ada", Verified: true})
	r := &rig{t: t, idp: idp, log: &logBook{}}
	ids := id.Gen{Rand: rand.Reader}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.app = app.New(app.Deps{
		Store: db, Key: []byte("0123456789abcdef0123456789abcdef"), Now: now, IDs: ids, Log: log,
		Settings: func(context.Context, string, string) (app.Settings, error) { return app.Settings{}, nil },
	})
	if _, err := r.app.Bootstrap(t.Context(), app.Bootstrap{Tenant: "acme", Project: "shop", Email: "ada@example.com", Name: "Ada"}); err != nil {
		t.Fatal(err)
	}
	provider := oidc.New(app.SignInConfig{Issuer: idp.URL, Client: idp.Client, Secret: idp.Secret}, http.DefaultClient)
	srv := httptest.NewUnstartedServer(nil)
	r.url = "http://" + srv.Listener.Addr().String()
	srv.Config.Handler = oauth.New(oauth.Config{
		Base: edge.Base{Log: log, Now: now, NewID: ids.New, Address: edge.Address{URL: r.url}},
		App:  r.app, Documents: documents,
		People: func(context.Context) (oauth.People, error) { return provider, nil },
	})
	srv.Start()
	t.Cleanup(srv.Close)
	return r
}

// browser is a person's: it keeps cookies and follows redirects, but not to
// clients, which listen nowhere.
func (r *rig) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(q *http.Request, _ []*http.Request) error {
		if at := q.URL.Scheme + "://" + q.URL.Host; at == r.url || at == r.idp.URL {
			return nil
		}
		return http.ErrUseLastResponse
	}}
}

// answer is what came back: its status, its body, and where it sends a client.
type answer struct {
	status int
	body   string
	header http.Header
}

func (a answer) to() url.Values {
	u, err := url.Parse(a.header.Get("Location"))
	if err != nil {
		return nil
	}
	return u.Query()
}

func (a answer) json() map[string]any {
	var m map[string]any
	_ = json.Unmarshal([]byte(a.body), &m)
	return m
}

func (r *rig) do(c *http.Client, method, path, kind, body string, header ...string) answer {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if kind != "" {
		q.Header.Set("Content-Type", kind)
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{res.StatusCode, string(b), res.Header}
}

func (r *rig) get(c *http.Client, path string) answer { return r.do(c, http.MethodGet, path, "", "") }

func (r *rig) post(c *http.Client, path string, form url.Values, header ...string) answer {
	return r.do(c, http.MethodPost, path, "application/x-www-form-urlencoded", form.Encode(), header...)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// form reads the hidden fields of a page's form.
func form(a answer) url.Values {
	out := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(a.body, -1) {
		out.Set(m[1], html.UnescapeString(m[2]))
	}
	return out
}

// register introduces a client.
func (r *rig) register(name string, redirects ...string) string {
	r.t.Helper()
	b, err := json.Marshal(map[string]any{"client_name": name, "redirect_uris": redirects})
	if err != nil {
		r.t.Fatal(err)
	}
	a := r.do(http.DefaultClient, http.MethodPost, "/auth/register", "application/json", string(b))
	id, _ := a.json()["client_id"].(string)
	if a.status != http.StatusCreated || id == "" {
		r.t.Fatalf("registered: %d %s", a.status, a.body)
	}
	return id
}

// ask is a right authorization request of a client.
func ask(client, redirect string) url.Values {
	return url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {redirect}, "state": {"the-state"},
		"code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"},
	}
}
