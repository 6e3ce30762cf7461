package supervisor

import (
	"context"
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/wording"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// unblock moves away what stands in the place of a file of the agent's CLI and is
// none: it would wait at a named pipe for as long as the watchdog lets it. It
// returns what that says of the conversation that is to be resumed, "" when
// nothing.
func (r *run) unblock(ctx context.Context, session string) string {
	d, ok := r.drv.(agent.Installed)
	if !ok || r.home == "" {
		return ""
	}
	own, made := d.Holds(session)
	moved := r.aside(ctx, own, false)
	r.aside(ctx, made, false)
	if session == "" || len(moved) == 0 {
		return ""
	}
	return fmt.Sprintf("%s was %s", moved[0].Path, moved[0].What)
}

// aside moves files of the agent's CLI away. What cannot be moved is left to the
// CLI to fail at.
func (r *run) aside(ctx context.Context, paths []string, all bool) []box.Moved {
	if len(paths) == 0 {
		return nil
	}
	moved, err := r.box.Aside(ctx, box.Aside{Dir: r.home, Paths: paths, All: all})
	if err != nil {
		r.log.Warn("move damaged files away", "err", err)
	}
	for _, m := range moved {
		r.log.Warn("moved a damaged file of the agent away", "path", m.Path, "was", m.What)
	}
	return moved
}

// muteMost is how often an agent may fail to resume without a step, a model call
// or a known reason before the conversation is held to be the reason.
const muteMost = 2

// mute reports whether a run failed for a reason that nobody knows and by itself.
func mute(d agent.Driver, e agent.End) bool {
	f := d.Classify(e)
	return f != nil && f.Class == turn.Unknown && e.Code > 0 && e.Code < 128
}

// afresh decides whether an attempt is followed by another one that begins a
// conversation of its own, since that of the attempt cannot go on.
func (r *run) afresh(ctx context.Context, a *attempt) bool {
	if r.muted++; !a.mute || a.lost != "" {
		r.muted = 0
	}
	if a.lost == "" && r.muted == muteMost { // words of a version that nobody has read yet
		a.lost = fmt.Sprintf("it ended %d times when it was to go on with it, before it called the model: %s", muteMost, wording.Short(wording.Tail(a.end.Tail)))
	}
	if a.lost == "" {
		return false
	}
	var moved []box.Moved
	if d, ok := r.drv.(agent.Installed); ok && r.home != "" {
		own, _ := d.Holds(a.session)
		moved = r.aside(ctx, own, true)
	}
	if a.session == "" {
		return len(moved) > 0 // it could not even begin one beside what was there
	}
	return r.giveUp(ctx, a.session, a.lost)
}

// giveUp gives up a conversation that the agent's CLI cannot go on with, so
// that the next run of the agent begins another. What people and the agent said
// in the lost one comes from the control plane's record, as a handover before the
// prompt; a conversation that this turn itself began said nothing beside the
// prompt. It reports whether there is anything to go on with.
func (r *run) giveUp(ctx context.Context, lost, why string) bool {
	r.log.Warn("the agent's conversation is lost; a fresh one is begun", "session", lost, "why", why)
	r.mu.Lock()
	inherited := r.cmd.Session != ""
	r.session, r.cmd.Session, r.lost, r.lostWhy, r.said = "", "", lost, strings.TrimSpace(why), nil
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
