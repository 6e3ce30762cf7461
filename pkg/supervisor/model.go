package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/gateway"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// serveModel opens the gateway for this turn: the placeholder is made here and is
// worth nothing once the returned function was called (CM-032). An agent that
// needs no model has no gateway.
func (r *run) serveModel(ctx context.Context) (stop func(), err error) {
	if r.access == nil {
		return func() {}, nil
	}
	if r.key, err = gateway.NewKey(rand.Reader); err != nil {
		return nil, fmt.Errorf("make placeholder: %w", err)
	}
	l, err := r.listenModel(ctx)
	if err != nil {
		return nil, err
	}
	g := &gateway.Gateway{Access: *r.access, Key: r.key, Permit: r.permit, Log: r.log, Now: r.Now}
	r.mu.Lock()
	r.gateway = g
	r.mu.Unlock()
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- g.Serve(live, l) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			r.log.Error("model gateway", "err", err)
		}
	}, nil
}

// listenModel is on a socket that the helper carries a port inside to, or, for an
// agent without a sandbox, on a port of this machine.
func (r *run) listenModel(ctx context.Context) (net.Listener, error) {
	if !r.cmd.Host {
		return r.listen(ctx, modelSocket)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for model calls: %w", err)
	}
	r.models = "http://" + l.Addr().String()
	return l, nil
}

// agentHome is the directory outside that an agent CLI keeps its configuration and
// conversation in. It lasts as long as the task's sandboxes do.
func (r *run) agentHome() (string, error) {
	if r.Container != nil {
		return filepath.Join(r.Container.Home, "agent"), os.MkdirAll(filepath.Join(r.Container.Home, "agent"), 0o755)
	}
	dir := filepath.Join(r.boxDir(), "agent")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make agent directory: %w", err)
	}
	return dir, nil
}

// grant takes what a beat's reply, to a beat sent then, says of model calls. What
// the reply names is a moment of another clock, so the time counts from here.
func (r *run) grant(sent time.Time, out turn.BeatOut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out.NoModel != "" && r.noModel == "" {
		select {
		case r.kick <- struct{}{}: // say at once that it was heard (GN-03)
		default:
		}
	}
	r.noModel = out.NoModel
	if out.NoModel == "" && !out.ModelUntil.IsZero() {
		r.until = sent.Add(names.ModelPermission)
	}
	close(r.granted)
	r.granted = make(chan struct{})
}

// permit lets a model call begin under the permission of a beat's reply of at most
// 30 s ago. Without one it beats at once and holds the call for the reply, so
// that a short restart of the control plane fails no turn (SY-044, GN-10). A stop
// ends the turn at its next call, which is this one.
func (r *run) permit(ctx context.Context) error {
	if used := model.Total(r.gateway.Usage()); r.cmd.Tokens > 0 && used >= r.cmd.Tokens {
		// No later call could be allowed, so the turn ends here instead of an agent
		// asking again and again.
		why := fmt.Sprintf("the task's token budget is spent: this turn used %d of the %d tokens that were left", used, r.cmd.Tokens)
		r.stop(&stopped{turn.StopBudget, why})
		return fault.New(fault.Denied, "%s", why)
	}
	most := time.NewTimer(names.ModelHold)
	defer most.Stop()
	for {
		r.mu.Lock()
		until, no, next := r.until, r.noModel, r.granted
		r.mu.Unlock()
		if no != "" {
			r.stop(&stopped{turn.StopGround, "the agent wanted to call its model while " + no})
			return fault.New(fault.Denied, "no model may be called now: %s", no)
		}
		if r.Now().Before(until) {
			return nil
		}
		select {
		case r.kick <- struct{}{}:
		default:
		}
		select {
		case <-next:
		case <-most.C:
			return fault.New(fault.Unavailable, "no model may be called: the control plane does not answer")
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), fault.New(fault.Unavailable, "the turn is over"))
		}
	}
}
