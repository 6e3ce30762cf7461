package supervisor

import (
	"context"
	"time"

	"github.com/lazyplane/lazyplane/pkg/turn"
)

// The waits that depend on the agent, as Options.After names them.
const (
	WaitRetry    = "retry"    // before the next attempt
	WaitWatchdog = "watchdog" // for the next completed step
	WaitHandover = "handover" // for a control plane that does not answer
)

// after is this machine's clock.
func after(ctx context.Context, _ string, d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	t := time.AfterFunc(d, func() { close(over) })
	context.AfterFunc(ctx, func() { t.Stop() })
	return over
}

// wait is one that can be begun again. Its end is never seen once it was stopped.
type wait struct {
	begin func() (over <-chan struct{}, stop context.CancelFunc)
	over  <-chan struct{}
	stop  context.CancelFunc
}

func (r *run) wait(ctx context.Context, what string, d time.Duration) *wait {
	w := &wait{begin: func() (<-chan struct{}, context.CancelFunc) {
		ctx, stop := context.WithCancel(ctx)
		return r.After(ctx, what, d), stop
	}}
	w.over, w.stop = w.begin()
	return w
}

func (w *wait) again() {
	w.stop()
	w.over, w.stop = w.begin()
}

// heed shows what the gateway saw of the model calls of this run of the agent: a
// CLI that tries again by itself need not say so for people to see it (FC-011).
func (r *run) heed() {
	if r.gateway == nil {
		return
	}
	s := r.gateway.Seen()
	switch {
	case s.Calls == 0:
	case s.Last == nil:
		r.tried, r.seen = 0, 0
		r.setRetry("")
	case s.Last.Class == turn.Overload, s.Last.Class == turn.Network, s.Last.Class == turn.Unreachable:
		if s.Row > r.seen {
			r.tried += s.Row - r.seen
			r.seen = s.Row
			r.setRetry(retryLine(r.tried, *s.Last))
		}
	}
}

// failed shows a failure that is followed by another attempt. Calls that the
// line has counted already are not counted again.
func (r *run) failed(attempts int, f turn.Failure) {
	if r.seen == 0 {
		r.tried++
	}
	r.tried = max(r.tried, attempts)
	r.setRetry(retryLine(r.tried, f))
}
