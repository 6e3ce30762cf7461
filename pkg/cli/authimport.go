package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/model"
)

// found is a credential that this machine has already.
type found struct {
	what   string // in words
	where  string
	scheme model.Scheme
	secret string
	note   string // what to know about it
}

// findCredential looks at the places where a service's own program keeps its
// credential. Nothing is read unless a person asked for it with --import.
func (e *Env) findCredential(p model.Provider) (found, error) {
	var looked []string
	for _, v := range credentialVars(p.Name) {
		if s := strings.TrimSpace(e.Getenv(v.name)); s != "" {
			return found{what: schemeText(v.scheme), where: "the environment variable " + v.name, scheme: v.scheme, secret: s}, nil
		}
		looked = append(looked, v.name)
	}
	home := e.Getenv("HOME")
	for _, f := range credentialFiles(p.Name) {
		path := filepath.Join(home, filepath.FromSlash(f.path))
		looked = append(looked, path)
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return found{}, fault.Wrap(fault.Failed, err, "%s cannot be read", path)
		}
		got, err := f.read(b, e.Now())
		if err != nil {
			return found{}, fault.New(fault.Failed, "%s: %s", path, err.Error()).WithNext("Store one by hand: lazy auth add " + p.Name)
		}
		got.where = path
		return got, nil
	}
	return found{}, fault.New(fault.Failed, "this machine has no credential of %s to import", p.Title).
		WithNext("Looked at: " + strings.Join(looked, ", ")).WithNext("Store one by hand: lazy auth add " + p.Name)
}

type credentialVar struct {
	name   string
	scheme model.Scheme
}

func credentialVars(provider string) []credentialVar {
	switch provider {
	case "claude":
		return []credentialVar{{"CLAUDE_CODE_OAUTH_TOKEN", model.Subscription}, {"ANTHROPIC_API_KEY", model.APIKey}}
	case "codex":
		return []credentialVar{{"OPENAI_API_KEY", model.APIKey}, {"CODEX_API_KEY", model.APIKey}}
	}
	return nil
}

type credentialFile struct {
	path string // below the home directory
	read func(b []byte, now time.Time) (found, error)
}

func credentialFiles(provider string) []credentialFile {
	switch provider {
	case "claude":
		return []credentialFile{{".claude/.credentials.json", claudeLogin}}
	case "codex":
		return []credentialFile{{".codex/auth.json", codexLogin}}
	}
	return nil
}

// The errors of a login file never repeat any of it.
var (
	errLogin    = errors.New("it is not a login as this version of lazy knows it")
	errPlanOnly = errors.New("it holds the login of a ChatGPT plan, which only its own program can renew; an API key is needed")
)

// claudeLogin reads what `claude` keeps of its login. The token in it is renewed
// by that program and lives for hours.
func claudeLogin(b []byte, now time.Time) (found, error) {
	var v struct {
		OAuth struct {
			Token   string `json:"accessToken"`
			Expires int64  `json:"expiresAt"` // milliseconds
		} `json:"claudeAiOauth"`
	}
	if json.Unmarshal(b, &v) != nil || v.OAuth.Token == "" {
		return found{}, errLogin
	}
	f := found{what: "token of a Claude login", scheme: model.Subscription, secret: v.OAuth.Token}
	if v.OAuth.Expires > 0 {
		at := time.UnixMilli(v.OAuth.Expires)
		f.note = "that token ends at " + at.Local().Format("2006-01-02 15:04") +
			" and lazy does not renew it; `claude setup-token` makes one that lasts: lazy auth rotate"
		if !at.After(now) {
			return found{}, errors.New("the login in it has expired; `claude setup-token` makes a token that lasts")
		}
	}
	return f, nil
}

// codexLogin reads what `codex` keeps of its login.
func codexLogin(b []byte, _ time.Time) (found, error) {
	var v struct {
		Key    string          `json:"OPENAI_API_KEY"`
		Tokens json.RawMessage `json:"tokens"`
	}
	switch {
	case json.Unmarshal(b, &v) != nil:
		return found{}, errLogin
	case v.Key != "":
		return found{what: "API key", scheme: model.APIKey, secret: v.Key}, nil
	case len(v.Tokens) > 0 && string(v.Tokens) != "null":
		return found{}, errPlanOnly
	}
	return found{}, errLogin
}
