package local

import (
	"context"
	"sync"

	"github.com/lazyplane/lazyplane/pkg/seal"
	sealfile "github.com/lazyplane/lazyplane/pkg/seal/file"
)

func (o Options) credentials() string {
	if o.Credentials != "" {
		return o.Credentials
	}
	return o.Paths.Credentials()
}

// Unconfigured names the project's agents whose model service has no stored
// credential, with that service: their turns are refused (FC-012). model is the one
// they are to run with, "" their own choice.
func (p *Plane) Unconfigured(ctx context.Context, model string) (map[string]string, error) {
	return p.app.Unconfigured(ctx, Tenant, p.project, model)
}

// sealer makes its keys when the first secret comes: most projects have none.
type sealer struct {
	open func() (*seal.Envelope, error)
}

var _ seal.Sealer = sealer{}

func newSealer(dir string) sealer {
	return sealer{sync.OnceValues(func() (*seal.Envelope, error) { return sealfile.New(dir) })}
}

func (s sealer) Seal(ctx context.Context, tenant, purpose string, plain []byte) ([]byte, error) {
	e, err := s.open()
	if err != nil {
		return nil, err
	}
	return e.Seal(ctx, tenant, purpose, plain)
}

func (s sealer) Open(ctx context.Context, tenant, purpose string, sealed []byte) ([]byte, error) {
	e, err := s.open()
	if err != nil {
		return nil, err
	}
	return e.Open(ctx, tenant, purpose, sealed)
}
