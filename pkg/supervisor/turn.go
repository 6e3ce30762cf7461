package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// result is how the work of a turn ended.
type result struct {
	stopped  *stopped
	failure  *turn.Failure
	attempts int
	wait     time.Duration // the turn goes on after it, in another run
	pace     *turn.Pace
}

// turn goes through the phases in their order (AG-005) and describes what is left
// at the end, whichever phase was the last.
func (r *run) turn(ctx context.Context) turn.Response {
	res, began := r.phases(ctx)
	if res.failure != nil {
		r.log.Error("the turn failed", "class", string(res.failure.Class), "reason", res.failure.Reason)
	}
	if res.stopped != nil {
		r.log.Info("the turn was ended", "why", res.stopped.why, "reason", res.stopped.text)
	}
	if r.keeper == nil {
		r.enter("settling", "post-turn")
		return r.settle(context.WithoutCancel(ctx), res, began)
	}
	if began { // as the agent left it, an unfinished merge included (UW-008)
		r.enter("settling", "save-workspace")
		r.keeper.end(ctx)
	}
	r.enter("settling", "post-turn")
	resp := r.settle(context.WithoutCancel(ctx), res, began)
	if len(resp.MergeState) > 0 {
		r.keeper.end(ctx)
	}
	if resp.Recovery == "" {
		resp.Recovery = r.keeper.patch
	}
	return resp
}

// phases prepares and works. began says whether an agent may have run.
func (r *run) phases(ctx context.Context) (res result, began bool) {
	fail := func(err error) (result, bool) {
		if s := stopOf(ctx); s != nil {
			return result{stopped: s}, began
		}
		if cause := errors.Unwrap(fault.Of(err)); cause != nil {
			r.log.Error("prepare", "err", cause)
		}
		return result{failure: failureOf(err)}, began
	}
	r.enter("preparing", "checks")
	if err := r.check(); err != nil {
		return fail(err)
	}
	if r.keeper != nil {
		r.enter("preparing", "restore-workspace")
		if err := r.keeper.reopen(ctx, r.vault); err != nil {
			return fail(err)
		}
	}
	drv, ok := r.Find(r.cmd.Agent, r.cmd.Argv)
	if !ok {
		return fail(fault.New(fault.Invalid, "there is no agent %q here", r.cmd.Agent).
			WithNext("Configure it under [agents] in lazy.toml, or choose another."))
	}
	r.drv = drv
	ready := make(chan error, 1) // the sandbox starts while git works
	go func() { ready <- r.enterBox(ctx) }()
	m, conflict, err := r.upstream(ctx)
	if boxErr := <-ready; err == nil {
		err = boxErr
	}
	if err != nil {
		return fail(err)
	}
	if r.cmd.Kind == turn.Sync && len(conflict) == 0 {
		return result{}, false
	}
	proof := make(chan error, 1) // what the agent will need is tried while the rest is made ready
	go func() { proof <- r.preflight(ctx) }()
	r.proven = func() error { return <-proof }
	if !r.sealed() {
		if err := r.prepareWorkspace(ctx); err != nil {
			return fail(err)
		}
	}
	if err := r.clearHandoff(); err != nil {
		return fail(err)
	}
	if err := r.handOver(); err != nil {
		return fail(err)
	}
	if r.keeper != nil {
		defer r.keeper.watch(ctx)()
	}
	stopTools, err := r.serveTools(ctx)
	if err != nil {
		return fail(err)
	}
	defer stopTools()
	stopNet, err := r.serveNetwork(ctx)
	if err != nil {
		return fail(err)
	}
	defer stopNet()
	stopModel, err := r.serveModel(ctx)
	if err != nil {
		return fail(err)
	}
	defer stopModel()
	r.enter("preparing", "write-mcp-config")
	began = true
	for {
		prompt := withConflict(r.cmd.Prompt, m, conflict)
		res = r.work(ctx, func(ctx context.Context) attempt { return r.launch(ctx, prompt, "") })
		if r.unproven != nil {
			began = false // and no agent was started
			return fail(r.unproven)
		}
		if r.cmd.Kind != turn.Sync || res.stopped != nil || res.failure != nil {
			break
		}
		// The agent has resolved one merge of a sync; the next may conflict as well.
		if m, conflict, err = r.sync(ctx); err != nil {
			return fail(err)
		}
		if len(conflict) == 0 {
			break
		}
	}
	if res.stopped == nil && res.failure == nil {
		res = r.followUp(ctx, res)
	}
	return res, began
}

// upstream opens the repository and brings the upstream in.
func (r *run) upstream(ctx context.Context) (m turn.Merge, conflict []string, err error) {
	if r.broker, err = newBroker(ctx, r); err != nil {
		return m, nil, err
	}
	if r.keeper != nil {
		r.keeper.attach(r.broker)
	}
	if r.Container != nil {
		r.broker.owned = r.handOver
	}
	if r.merges = toMerge(r.cmd); len(r.merges) > 0 {
		r.enter("preparing", "sync-with-upstream")
	}
	return r.sync(ctx)
}

// withConflict tells the agent of a merge that was left for it to resolve (GT-012).
func withConflict(prompt string, m turn.Merge, files []string) string {
	if len(files) == 0 {
		return prompt
	}
	return fmt.Sprintf("%s\n\n## Unresolved merge\n%s was merged into your branch and conflicts in:\n%s\nResolve each file, stage it with git add, and commit with lazy_commit before anything else.\n",
		prompt, m.Ref, bullets(files))
}

func bullets(paths []string) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "- %s\n", p)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// work runs the agent until it ends normally, is ended, or fails for good.
func (r *run) work(ctx context.Context, launch func(context.Context) attempt) result {
	var p pace
	if r.cmd.Pace != nil {
		p.Pace = *r.cmd.Pace
	}
	for {
		a := launch(ctx)
		switch {
		case a.stopped != nil && a.stopped.why == turn.StopWatchdog && stopOf(ctx) == nil:
			// Whether the attempt left commits decides (FC-021); what cannot be
			// read counts as none, and our own count can always be read.
			again := a.commits == 0 && p.Relaunched < names.WatchdogRelaunches
			if !again {
				return result{
					stopped: &stopped{turn.StopWatchdog, watchdogText(r.watchdog(), p.Relaunched, a.commits)}, attempts: p.Attempts + 1,
				}
			}
			p.Relaunched++
			r.setRetry(fmt.Sprintf("attempt %d (watchdog): relaunched after %s without progress", p.Attempts+p.Relaunched+1, r.watchdog()))
			continue
		case a.stopped != nil:
			return result{stopped: a.stopped, attempts: p.Attempts + 1}
		case a.broken != nil:
			return result{failure: failureOf(a.broken), attempts: p.Attempts + 1}
		}
		f := r.drv.Classify(a.end)
		if f == nil {
			r.setRetry("")
			return result{attempts: p.Attempts + 1}
		}
		pause, more := p.next(*f, a.took)
		f.Attempts = p.Attempts
		if !more {
			r.setRetry("")
			return result{failure: f, attempts: p.Attempts}
		}
		r.failed(p.Attempts, *f)
		if pause >= names.RunHold && r.mayLeave(ctx) {
			r.log.Info("the turn is left waiting", "for", pause)
			return result{failure: f, attempts: p.Attempts, wait: pause, pace: &p.Pace}
		}
		w := r.wait(ctx, WaitRetry, pause)
		select {
		case <-w.over:
			w.stop()
		case <-ctx.Done():
			w.stop()
			return result{stopped: stopOf(ctx), attempts: p.Attempts}
		}
	}
}

// mayLeave reports whether the wait before the next attempt can do without this
// run. An unfinished merge cannot: it would be taken back with the run's end
// (GT-013).
func (r *run) mayLeave(ctx context.Context) bool {
	if r.broker == nil || r.cmd.Kind == turn.Sync || stopOf(ctx) != nil {
		return false
	}
	st, err := r.broker.status(ctx)
	return err == nil && !st.MidMerge && len(st.Unmerged) == 0
}

// setRetry sets the retry line and says so at once (FC-011).
func (r *run) setRetry(line string) {
	r.mu.Lock()
	changed := r.retry != line
	r.retry = line
	state := r.state
	r.mu.Unlock()
	if !changed {
		return
	}
	if line != "" {
		r.enter(state, "retrying")
		r.log.Info("Phase: retrying " + line)
	} else {
		r.enter(state, "")
	}
}

// watchdogText says which guard fired and all that a person asks next (FC-023).
func watchdogText(limit time.Duration, relaunched int, commits int64) string {
	s := fmt.Sprintf("the no-progress watchdog ended the agent: no completed step in %s (output that merely keeps a connection alive is not progress)", limit)
	switch {
	case relaunched > 0:
		s += "; it had been relaunched once already"
	case commits > 0:
		s += fmt.Sprintf("; it was not relaunched, because the attempt had made commits (%d)", commits)
	}
	return s
}

// followUp asks an agent that declared its work final, once, about paths it has
// not committed (UW-002). An agent that waits for a decision, or declared
// nothing, is not asked (UW-004), and nothing is ever committed for it (UW-003).
func (r *run) followUp(ctx context.Context, res result) result {
	r.mu.Lock()
	ask := r.declared && !r.blocking && r.cmd.Kind == turn.Work
	r.mu.Unlock()
	if !ask {
		return res
	}
	st, err := r.broker.status(ctx)
	if err != nil || len(st.Dirty) == 0 {
		if err != nil {
			r.log.Warn("look for uncommitted paths", "err", err)
		}
		return res
	}
	r.enter("running", "uncommitted files")
	shown := st.Dirty[:min(len(st.Dirty), names.UncommittedKept)]
	prompt := fmt.Sprintf(`You declared your work final, but %d path(s) in the worktree are not committed, so they are on no branch and would be in no review:
%s
Commit what belongs to the task with lazy_commit, and discard the rest. You are asked this once; nothing is committed for you.
`, len(st.Dirty), bullets(shown))
	a := r.launch(ctx, prompt, "uncommitted")
	r.setRetry("")
	if a.stopped != nil && a.stopped.why != turn.StopWatchdog {
		return result{stopped: a.stopped, attempts: res.attempts}
	}
	// The turn itself has ended normally; how the agent took the question does
	// not change that.
	r.exitCode = 0
	return res
}
