package aws

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/secret"
)

// ForgeKey reads the private key of the forge App, as PEM: the only secret that is
// not in the table under a tenant's data key. What lies there and is no key was
// never put in, for a new secret is born with a random text.
func (p *Plane) ForgeKey(ctx context.Context, v secret.Version) (secret.Value, error) {
	name := p.Config.ForgeSecret
	if name == "" {
		return secret.Value{}, fault.New(fault.Unavailable, "this function was told of no forge App").
			WithNext("The stack is not deployed whole: it sets " + names.EnvForgeSecret + ".")
	}
	got, err := p.secrets.Read(ctx, name, v)
	if err != nil {
		return secret.Value{}, err
	}
	if err := privateKey(got.Reveal()); err != nil {
		p.secrets.Forget(name) // it may be put in at any moment
		return secret.Value{}, fault.Wrap(fault.Unavailable, err, "the private key of the forge App was not put in yet: what is there is none").
			WithNext("Put it in: aws secretsmanager put-secret-value --secret-id " + name + " --secret-string file://KEY.pem")
	}
	return got, nil
}

// privateKey says no more of what it is given than that it is none.
func privateKey(text []byte) error {
	block, _ := pem.Decode(text)
	if block == nil {
		return errors.New("it is not PEM")
	}
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return nil
	}
	if _, err := x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
		return errors.New("it is no PKCS #1 or PKCS #8 key")
	}
	return nil
}

// Check tries what only fails once it is needed.
func (p *Plane) Check(ctx context.Context) []feed.Checked {
	_, forge := p.ForgeKey(ctx, secret.Current)
	return []feed.Checked{
		feed.CheckOf("the key of tokens", p.Open(ctx)),
		feed.CheckOf("the forge App's key", forge),
	}
}
