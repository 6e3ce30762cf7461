package supervisor

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/supervisor/egress"
)

// serveNetwork gives the sandbox its only way out, for this turn; between turns
// nobody answers there (AG-027). A host process has the machine's network.
func (r *run) serveNetwork(ctx context.Context) (stop func(), err error) {
	policy, err := egress.Parse(r.cmd.Network)
	if err != nil {
		return nil, err
	}
	if r.cmd.Host || policy.None {
		return func() {}, nil
	}
	l, err := r.listen(ctx, netSocket)
	if err != nil {
		return nil, err
	}
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := &egress.Proxy{Policy: policy, Log: r.log}
		p.Serve(live, l)
	}()
	return func() {
		cancel()
		<-done
	}, nil
}
