package aws

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/oauth"
	"github.com/lazyplane/lazyplane/pkg/oauth/oidc"
)

// providerWait bounds one request to an identity provider.
const providerWait = 8 * time.Second

// People finds the identity provider that is configured. What an instance has
// discovered of it is kept until the configuration changes.
func (p *Plane) People() func(ctx context.Context) (oauth.People, error) {
	var mu sync.Mutex
	var last *oidc.Provider // guarded by mu
	client := &http.Client{Timeout: providerWait}
	return func(ctx context.Context) (oauth.People, error) {
		conf, err := p.App.SignInOf(ctx)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if last == nil || last.Config() != conf {
			last = oidc.New(conf, client)
		}
		return last, nil
	}
}
