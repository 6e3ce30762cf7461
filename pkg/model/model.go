// Package model names the services that agents' models are called at, what a run
// is given to reach one, and what was spent there.
package model

import (
	"fmt"
	"log/slog"
	"time"
)

// Wire is the format spoken with a service.
type Wire string

// The wire formats the gateway knows how to count. OpenAI stands for both
// Responses and Chat Completions.
const (
	Anthropic Wire = "anthropic"
	OpenAI    Wire = "openai"
)

// Scheme is how a credential is presented to its service.
type Scheme string

// The schemes. A subscription token is a bearer of a person's own plan.
const (
	APIKey       Scheme = "api-key"
	Subscription Scheme = "subscription"
)

// Provider is a service that credentials are stored for.
type Provider struct {
	Name     string // as typed after `lazy auth add`
	Title    string
	Wire     Wire
	Upstream string // base URL without a trailing slash and the version, which begins each path
	Schemes  []Scheme
}

// Providers returns every provider, each once.
func Providers() []Provider {
	return []Provider{
		{"claude", "Anthropic (Claude)", Anthropic, "https://api.anthropic.com", []Scheme{APIKey, Subscription}},
		{"codex", "OpenAI (Codex and other OpenAI models)", OpenAI, "https://api.openai.com", []Scheme{APIKey}},
	}
}

// Find returns the provider of that name.
func Find(name string) (Provider, bool) {
	for _, p := range Providers() {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// Access is what one run is given to reach its model. Only the supervisor's
// memory ever holds it; an agent is given a placeholder instead (CM-031).
type Access struct {
	Provider   string `json:"provider"`
	Wire       Wire   `json:"wire"`
	Upstream   string `json:"upstream"`
	Scheme     Scheme `json:"scheme"`
	Credential string `json:"credential"` // its label, which is no secret
	Secret     string `json:"secret"`
}

// String leaves the secret out.
func (a Access) String() string {
	return fmt.Sprintf("%s at %s as %s", a.Provider, a.Upstream, a.Credential)
}

// GoString leaves the secret out.
func (a Access) GoString() string { return a.String() }

// LogValue leaves the secret out.
func (a Access) LogValue() slog.Value { return slog.StringValue(a.String()) }

// Usage is what one model was asked and answered under one credential, in tokens
// as the service counted them. Input does not contain what was read from or
// written to a cache.
type Usage struct {
	Model      string `json:"model"`
	Credential string `json:"credential"`
	Requests   int64  `json:"requests"`
	Input      int64  `json:"input_tokens"`
	Output     int64  `json:"output_tokens"`
	CacheRead  int64  `json:"cache_read_tokens,omitempty"`
	CacheWrite int64  `json:"cache_write_tokens,omitempty"`
}

// Tokens is everything counted, cached or not.
func (u Usage) Tokens() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Add counts b onto u, which are of the same model and credential.
func (u Usage) Add(b Usage) Usage {
	u.Requests += b.Requests
	u.Input += b.Input
	u.Output += b.Output
	u.CacheRead += b.CacheRead
	u.CacheWrite += b.CacheWrite
	return u
}

// Reading is the newest word of a service about the limits of a credential: the
// rate-limit headers of its last answer, as received (US-001).
type Reading struct {
	Credential string            `json:"credential"`
	At         time.Time         `json:"at"`
	Headers    map[string]string `json:"headers"`
}
