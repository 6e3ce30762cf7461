// Package issuer is a small OpenID Connect issuer on this machine: it discovers,
// authorizes at once as whoever it is told, checks the client's secret and
// verifier, and signs identity tokens. It stands in for the provider that people
// prove themselves to, and for the person at its page.
package issuer

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"
)

// Person is who is at the issuer's page.
type Person struct {
	Email    string
	Verified any // email_verified as the issuer puts it; nil leaves it out
	Name     string
	Declines bool
}

// Issuer is a running issuer.
type Issuer struct {
	URL    string
	Client string
	Secret string
	// Bend, when set, changes the claims of a token before it is signed. It is set
	// before the issuer is asked.
	Bend func(claims map[string]any)

	srv *httptest.Server
	key *rsa.PrivateKey

	mu    sync.Mutex
	who   Person             // guarded by mu
	codes map[string]granted // guarded by mu
}

type granted struct {
	redirect, challenge, nonce string
	who                        Person
}

// Start starts an issuer; Close ends it.
func Start() (*Issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	i := &Issuer{Client: "lazy-at-issuer", Secret: "a secret of the client", key: key, codes: map[string]granted{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("GET /keys", i.keys)
	i.srv = httptest.NewServer(mux)
	i.URL = i.srv.URL
	return i, nil
}

// Close ends the issuer.
func (i *Issuer) Close() { i.srv.Close() }

// Become puts another person at the page.
func (i *Issuer) Become(p Person) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.who = p
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != i.Client || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" {
		http.Error(w, "not a request of the client", http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	back := url.Values{"state": {q.Get("state")}}
	if i.who.Declines {
		back.Set("error", "access_denied")
	} else {
		b := make([]byte, 16)
		_, _ = rand.Read(b)
		code := hex.EncodeToString(b)
		i.codes[code] = granted{q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("nonce"), i.who}
		back.Set("code", code)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	} else {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	}
	i.mu.Lock()
	g, known := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if id != i.Client || secret != i.Secret {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	if !known || g.redirect != r.PostFormValue("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "aud": i.Client, "sub": "subject-of-" + g.who.Email, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"nonce": g.nonce, "email": g.who.Email, "name": g.who.Name,
	}
	if g.who.Verified != nil {
		claims["email_verified"] = g.who.Verified
	}
	if i.Bend != nil {
		i.Bend(claims)
	}
	text, err := i.sign(claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": "opaque", "token_type": "Bearer", "expires_in": 3600, "id_token": text})
}

func part(v any) (string, error) {
	b, err := json.Marshal(v)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func (i *Issuer) sign(claims map[string]any) (string, error) {
	head, err := part(map[string]string{"alg": "RS256", "typ": "JWT", "kid": "one"})
	if err != nil {
		return "", err
	}
	body, err := part(claims)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(head + "." + body))
	sig, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	return head + "." + body + "." + base64.RawURLEncoding.EncodeToString(sig), err
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	number := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	answer(w, http.StatusOK, map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": number(i.key.N), "e": number(big.NewInt(int64(i.key.E))),
	}}})
}
