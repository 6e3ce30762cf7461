package supervisor

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// afresh gives up a conversation that the agent's CLI does not have any more, so
// that the next run of the agent begins another. What people and the agent said
// in the lost one comes from the control plane's record, as a handover before the
// prompt; a conversation that this turn itself began said nothing beside the
// prompt. It reports whether there is anything to go on with.
func (r *run) afresh(ctx context.Context, lost string) bool {
	r.log.Warn("the agent's conversation is lost; a fresh one is begun", "session", lost)
	r.mu.Lock()
	inherited := r.cmd.Session != ""
	r.session, r.cmd.Session, r.lost, r.said = "", "", lost, nil
	r.mu.Unlock()
	if !inherited {
		return true
	}
	in := r.sign()
	in.Lost = lost
	for pause := names.ReconnectFirst; ; pause = min(2*pause, names.ReconnectMost) {
		out, err := r.link.beat(ctx, in)
		if err == nil {
			r.earlier = out.Handover
			return true
		}
		if !passing(err) {
			r.log.Error("no handover", "err", err)
			return true
		}
		w := r.wait(ctx, WaitHandover, pause)
		select {
		case <-w.over:
			w.stop()
		case <-ctx.Done():
			w.stop()
			return false
		}
	}
}
