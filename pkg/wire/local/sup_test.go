package local_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// sup is one supervisor with its agent.
type sup struct {
	h      *host
	spec   runner.Spec
	ref    string
	script func(*sup)
	ctx    context.Context // ends when the process is killed
	kill   context.CancelCauseFunc
	gone   chan struct{}

	cmd    turn.Command
	runner identity.Caller
	agent  identity.Caller
	tip    string
	calls  atomic.Int64

	exit   int
	reason string
	log    string
	ack    turn.Ack
	refuse error        // why the hello or the report was refused
	stop   atomic.Value // string: what the last beat asked for

	stubborn atomic.Bool // it does not end when it is told to from outside
	hidden   atomic.Bool // the machine holds it gone although it lives
}

func (s *sup) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

func (s *sup) report() runner.Report {
	return runner.Report{Sight: runner.Gone, ExitCode: s.exit, Reason: s.reason, Log: s.log}
}

// live is the life of the process.
func (s *sup) live() {
	defer func() {
		if s.ctx.Err() != nil && s.reason == "" {
			s.exit, s.reason = 137, context.Cause(s.ctx).Error()
		}
		close(s.gone)
		s.h.mu.Lock()
		deaf := s.h.deaf
		s.h.mu.Unlock()
		if deaf {
			return
		}
		tell := func() {
			if p := s.h.r.now(); p != nil {
				_ = p.app.RunnerGone(context.Background(), s.spec.Tenant, s.spec.Task, s.spec.Epoch, s.report())
			}
		}
		if post := s.h.r.post; post != nil {
			post("end of "+s.ref, tell)
			return
		}
		tell()
	}()
	s.script(s)
}

// end kills a process that would not hear.
func (s *sup) end(why string) { s.kill(errors.New(why)) }

// hide makes the machine report the process gone, which it is not.
func (s *sup) hide() {
	s.hidden.Store(true)
	rep, _ := s.h.Observe(s.ctx, s.ref)
	_ = s.h.r.app().RunnerGone(s.ctx, s.spec.Tenant, s.spec.Task, s.spec.Epoch, rep)
}

// die ends the process at once, as a crash does.
func (s *sup) die(code int, reason string) {
	s.exit, s.reason, s.log = code, reason, "last words\n"
	runtime.Goexit()
}

// plane calls the control plane, again and again while there is none.
func (s *sup) plane(f func(ctx context.Context, a *app.App) error) error {
	for {
		if s.ctx.Err() != nil {
			runtime.Goexit()
		}
		p := s.h.r.now()
		if p != nil {
			err := f(s.ctx, p.app)
			if s.ctx.Err() != nil {
				runtime.Goexit()
			}
			if !p.fuse.isDead() && fault.KindOf(err) != fault.Unavailable {
				return err
			}
		}
		s.sleep(time.Second)
	}
}

// sleep passes time unless the process is killed.
func (s *sup) sleep(d time.Duration) {
	select {
	case <-s.ctx.Done():
		runtime.Goexit()
	case <-time.After(d):
	}
}

// hello introduces the supervisor. It reports whether it may go on.
func (s *sup) hello() bool {
	s.refuse = s.plane(func(ctx context.Context, a *app.App) error {
		w, err := a.Hello(ctx, turn.Hello{Nonce: s.spec.Nonce, Key: "key-of-" + s.ref, PID: 4711, Started: s.ref, Version: "test"})
		if err != nil {
			return err
		}
		s.cmd, s.tip = w.Command, w.Command.Tip
		if s.runner, err = a.Authenticate(ctx, w.RunnerToken, "runner"); err != nil {
			return err
		}
		s.agent, err = a.Authenticate(ctx, w.TaskToken, "mcp")
		s.agent.Turn, s.agent.Epoch = w.Command.Turn, w.Command.Epoch
		return err
	})
	if s.refuse == nil {
		s.h.mu.Lock()
		s.h.greetings[s.ref] = greeting{cmd: s.cmd, runner: s.runner}
		s.h.mu.Unlock()
	}
	return s.refuse == nil
}

// begin is what every well supervisor does first.
func (s *sup) begin() {
	if !s.hello() {
		s.die(1, "refused")
	}
	s.merge()
	s.beat("running")
}

func (s *sup) beat(state string) error {
	return s.plane(func(ctx context.Context, a *app.App) error {
		out, err := a.Beat(ctx, s.runner, turn.BeatIn{Turn: s.cmd.Turn, Epoch: s.cmd.Epoch, State: state})
		if err == nil {
			s.stop.Store(out.Stop)
			if out.Tip != "" {
				s.tip = out.Tip
			}
		}
		return err
	})
}

// goOn keeps beating for as long as nothing ends the run, and returns why it was
// asked to stop, or that it was succeeded.
func (s *sup) goOn(most time.Duration) string {
	for end := time.Now().Add(most); time.Now().Before(end); s.sleep(15 * time.Second) {
		if err := s.beat("running"); err != nil {
			return fault.Code(err)
		}
		if why, _ := s.stop.Load().(string); why != "" {
			return why
		}
	}
	return ""
}

func (s *sup) write(name, text string) {
	if err := writeFile(s.cmd.Tree, name, text); err != nil {
		s.die(1, err.Error())
	}
}

// tool makes a tool call of the agent's, relayed by the supervisor.
func (s *sup) tool(name string, args in) (map[string]any, error) {
	return s.toolAs(s.agent, name, args)
}

func (s *sup) toolAs(who identity.Caller, name string, args in) (out map[string]any, err error) {
	key := fmt.Sprintf("%s-%d", s.ref, s.calls.Add(1))
	err = s.plane(func(ctx context.Context, a *app.App) error {
		var err error
		out, err = callOp(ctx, s.h.r.ops, a, who, name, args, key)
		return err
	})
	return out, err
}

func (s *sup) workspace() git.Workspace {
	return git.Workspace{
		State: s.cmd.State, Tree: s.cmd.Tree, GitDir: s.cmd.GitDir, Objects: s.cmd.Objects, Shared: s.cmd.Shared,
		Borrowed: s.cmd.Borrowed, Branch: s.cmd.Branch, Base: s.cmd.Base,
	}
}

func (s *sup) untrusted() *git.Untrusted {
	u, err := s.h.r.repo.Untrusted(s.workspace(), s.tip)
	if err != nil {
		s.die(1, err.Error())
	}
	return u
}

var robot = git.Person{Name: "robot", Email: "robot@example.com"}

// commit is the broker's part of lazy_commit. at is called between its durable
// steps: "prepared", "recorded", "moved".
func (s *sup) commit(msg string, at ...func(step string)) error {
	reach := func(step string) {
		for _, f := range at {
			f(step)
		}
	}
	for try := 0; ; try++ {
		u := s.untrusted()
		var parents []string
		if s.cmd.Merge != nil {
			if st, err := u.Status(s.ctx); err == nil && st.MidMerge {
				parents = []string{s.cmd.Merge.Upstream}
			}
		}
		c, err := u.Prepare(s.ctx, git.CommitSpec{Message: msg, Author: robot, When: time.Now(), MergeParents: parents})
		if err != nil {
			return err
		}
		reach("prepared")
		who := s.agent
		who.Commit = &identity.Commit{Parent: c.Parent, Commit: c.Commit, Tree: c.Tree, Drifted: c.Drifted}
		_, err = s.toolAs(who, "lazy_commit", in{"message": msg})
		if err != nil {
			if tip, ok := fault.Of(err).Details["tip"].(string); ok && try < 3 {
				s.tip = tip
				continue
			}
			return err
		}
		reach("recorded")
		// The plane may have finished the commit itself, and landed a subtask on it.
		if err := s.h.r.repo.FinishCommit(s.ctx, "refs/heads/"+s.cmd.Branch, c.Parent, c.Commit); err != nil {
			return err
		}
		reach("moved")
		s.tip = c.Commit
		if head, err := s.h.r.repo.BranchTip(s.ctx, s.cmd.Branch); err != nil || head != c.Commit {
			return err
		}
		return u.Refresh(s.ctx, c.Commit)
	}
}

// resume is begin for a workspace whose merge was left to the agent.
func (s *sup) resume() {
	if !s.hello() {
		s.die(1, "refused")
	}
	_ = s.beat("running")
}

// merge does the sync phase of a command that has one.
func (s *sup) merge() {
	m := s.cmd.Merge
	if m == nil {
		return
	}
	u := s.untrusted()
	res, err := u.MergeInto(s.ctx, m.Upstream, "merge "+m.Ref, robot, time.Now())
	if err != nil {
		s.settle(turn.Response{Outcome: "error", Failure: &turn.Failure{Class: turn.FatalConfig, Reason: err.Error()}})
	}
	call := func(in turn.GitIn) {
		if err := s.plane(func(ctx context.Context, a *app.App) error {
			_, err := a.Git(ctx, s.runner, in)
			return err
		}); err != nil {
			s.die(1, err.Error())
		}
	}
	call(turn.GitIn{Op: "merge", Target: m.Upstream, Unmerged: res.Files})
	if res.Commit == "" {
		return
	}
	tree, err := gitAt(s.h.r.dir, "rev-parse", res.Commit+"^{tree}")
	if err != nil {
		s.die(1, err.Error())
	}
	call(turn.GitIn{Op: "merge_commit", Target: m.Upstream, Parent: s.tip, Commit: res.Commit, Tree: strings.TrimSpace(tree)})
	if err := s.h.r.repo.MoveRef(s.ctx, "refs/heads/"+s.cmd.Branch, res.Commit, s.tip); err != nil {
		s.die(1, err.Error())
	}
	if err := u.Advance(s.ctx, res.Commit); err != nil {
		s.die(1, err.Error())
	}
	s.tip = res.Commit
}

// settle reports and ends the process.
func (s *sup) settle(resp turn.Response) {
	s.post(resp)
	s.exit, s.reason = 0, "reported"
	runtime.Goexit()
}

// post reports, until the report is taken.
func (s *sup) post(resp turn.Response) {
	resp.Turn, resp.Epoch, resp.Settled = s.cmd.Turn, s.cmd.Epoch, true
	if resp.Session == "" {
		resp.Session = "session-of-" + string(s.spec.Task)
	}
	resp.Head = s.tip
	if st, err := s.untrusted().Status(s.ctx); err == nil {
		resp.MergeState = st.Unmerged
		resp.Uncommitted = turn.Leftover{Paths: st.Dirty, Total: len(st.Dirty)}
	}
	s.refuse = s.plane(func(ctx context.Context, a *app.App) error {
		ack, err := a.Report(ctx, s.runner, resp)
		s.ack = ack
		return err
	})
}

func (s *sup) ok(text string) { s.settle(turn.Response{Outcome: "ok", Text: text}) }
