package supervisor

import (
	"cmp"
	"context"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// refusedMost is how many beats in a row may be refused for their credential
// before the run believes it: another program may have taken the port for a while.
const refusedMost = 3

// beats tells the control plane of the run every names.Beat and at every change, and
// acts on what comes back (AG-029). A control plane that is away changes nothing:
// the agent works on and its answer is kept (CR-017).
func (r *run) beats(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(r.Beat, names.Beat))
	defer tick.Stop()
	refused := 0
	for {
		sent := r.Now()
		out, err := r.link.beat(ctx, r.sign())
		away, lost := apart(err)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			refused = 0
			r.grant(sent, out)
			if out.Stop != "" {
				r.stop(stopFor(out.Stop))
			}
		case away || lost:
			r.log.Debug("no control plane", "err", err)
		case refusal.Is(err, refusal.Fenced), refusal.Is(err, refusal.SessionEnded):
			r.stop(&stopped{turn.StopAsked, "another run has taken over"})
			return
		case fault.KindOf(err) == fault.Unauthenticated:
			if refused++; refused >= refusedMost {
				r.stop(&stopped{turn.StopAsked, "the run's credential is no longer accepted"})
				return
			}
		default:
			r.log.Warn("beat refused", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.kick:
		}
	}
}

// stopFor is the stop that a beat's reply asks for.
func stopFor(why string) *stopped {
	switch why {
	case turn.StopAge:
		return &stopped{turn.StopAge, "the turn reached its maximum age"}
	case turn.StopWatchdog, turn.StopShutdown:
		return &stopped{why, "the run was ended: " + why}
	case turn.StopAsked:
		return &stopped{turn.StopAsked, "a stop was asked for"}
	}
	return &stopped{turn.StopAsked, "a stop was asked for: " + why}
}

// sign is the present state as a beat carries it.
func (r *run) sign() turn.BeatIn {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := turn.BeatIn{
		Turn: r.start.Turn, Epoch: r.start.Epoch, State: r.state, Phase: r.phase, Progress: r.steps, Retry: r.retry, NoModel: r.noModel,
	}
	if r.gateway != nil {
		in.Usage, in.Readings = r.gateway.Usage(), r.gateway.Readings()
	}
	return in
}
