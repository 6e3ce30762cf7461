package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// EnvMCP names the agent's MCP configuration, for a command that wants to hand it
// to a CLI.
const EnvMCP = "LAZY_MCP_CONFIG"

// promptFile is the prompt's name on the turn's desk.
const promptFile = "prompt.md"

// baseEnv is what every process of the turn is given, on top of what the sandbox
// itself sets. Declared variables cannot replace ours. None is a secret.
func (r *run) baseEnv() []string {
	set := map[string]string{}
	maps.Copy(set, r.cmd.Env)
	maps.Copy(set, map[string]string{
		names.EnvSocket: r.tools, names.EnvTask: string(r.cmd.Task), names.EnvTaskCode: r.cmd.Code,
		names.EnvTurnKind: string(r.cmd.Kind), names.EnvPromptFile: filepath.Join(r.desk, promptFile),
		EnvMCP: r.mcp,
	})
	if r.cmd.ReadOnly {
		set[names.EnvReadOnly] = "1"
	}
	var env []string
	for k, v := range set {
		env = append(env, k+"="+v)
	}
	if r.Container != nil { // elsewhere the sandbox itself has them
		env = append(env, r.workspace().Env()...)
	}
	slices.Sort(env)
	return env
}

// mcpConfig is the one place the agent's MCP configuration is made (WF-04, AG-008).
func (r *run) mcpConfig() ([]byte, error) {
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	s := r.server()
	return json.Marshal(map[string]map[string]server{
		"mcpServers": {s.Name: {Command: s.Command, Args: s.Args}},
	})
}

// server is how the agent's tools are started inside.
func (r *run) server() agent.Server {
	args := []string{"mcp", "--task-id", string(r.cmd.Task), "--worktree", r.cmd.Tree}
	if r.cmd.ReadOnly {
		args = append(args, "--read-only")
	}
	s := agent.Server{Name: names.AgentBinary, Command: names.AgentBinary, Args: args}
	if r.cmd.ReadOnly {
		for _, o := range r.Catalogue().Tools(identity.Task) {
			if o.Effect == op.Read {
				s.Reads = append(s.Reads, o.Tool)
			}
		}
	}
	return s
}

// attempt is one run of the agent.
type attempt struct {
	end     agent.End
	took    time.Duration
	stopped *stopped // why the supervisor ended it, nil when it ended by itself
	broken  error    // the sandbox or the start failed
	commits int64    // made during it
	session string   // the conversation it was to resume
	lost    string   // why its CLI cannot go on with that
	mute    bool     // it failed to, without a step, a model call or a reason that is known
}

// errWatchdog ends an attempt that makes no progress.
var errWatchdog = errors.New("no progress")

// launch runs the agent once. It is the only place that starts one, and it writes
// the MCP configuration and the prompt first, every time (AG-008, AG-009).
func (r *run) launch(ctx context.Context, prompt, followup string) attempt {
	began := r.Now()
	before := r.broker.made()
	a := r.launchIn(ctx, prompt, followup)
	if r.afresh(ctx, &a) {
		a = r.launchIn(ctx, prompt, followup)
	} else if a.lost != "" && a.stopped == nil {
		a.stopped = stopOf(ctx)
	}
	a.took = r.Now().Sub(began)
	a.commits = r.broker.made() - before
	r.agentTime += a.took
	r.exitCode = a.end.Code
	return a
}

func (r *run) launchIn(ctx context.Context, prompt, followup string) attempt {
	session := r.resumes()
	if session == "" {
		prompt = r.earlier + prompt
	}
	if d, ok := r.drv.(agent.Installed); ok && session != "" && !d.Knows(session) {
		why := d.ID() + " names none of its conversations like that"
		return attempt{session: session, lost: why, broken: errors.New(why)}
	}
	if why := r.unblock(ctx, session); why != "" {
		return attempt{session: session, lost: why, broken: errors.New(why)}
	}
	l := agent.Launch{
		Turn: r.cmd.Turn, Kind: r.cmd.Kind, Prompt: prompt, Session: session, Followup: followup,
		ReadOnly: r.cmd.ReadOnly, Model: r.cmd.Model, Effort: r.cmd.Effort, Argv: r.cmd.Argv, Tree: r.cmd.Tree, MCP: r.mcp,
		Sealed: r.sealed(), Home: r.home, Program: r.program, Root: r.cmd.Host && os.Geteuid() == 0, Tools: r.server(),
	}
	if r.access != nil {
		l.Gateway, l.Key = r.models, r.key
	}
	plan, err := r.drv.Plan(l)
	if err != nil {
		return attempt{broken: err}
	}
	program := plan.Program
	if program == "" {
		program = plan.Argv[0]
	}
	if err := r.lookup(ctx, program, plan.Env); err != nil {
		return attempt{broken: err, stopped: stopOf(ctx)}
	}
	conf, err := r.mcpConfig()
	if err != nil {
		return attempt{broken: err}
	}
	files := []box.File{
		{Dir: filepath.Dir(r.mcp), Name: filepath.Base(r.mcp), Mode: 0o600, Data: conf},
		{Dir: r.desk, Name: promptFile, Mode: 0o600, Data: []byte(prompt)},
	}
	for _, f := range plan.Files {
		at := filepath.Join(r.home, f.Path)
		files = append(files, box.File{Dir: filepath.Dir(at), Name: filepath.Base(at), Mode: fs.FileMode(f.Mode), Data: f.Data})
	}
	for _, f := range files {
		if err := r.box.Write(ctx, f); err != nil {
			return attempt{broken: err, stopped: stopOf(ctx)}
		}
	}
	log, err := openTranscript(filepath.Join(r.Dir, spool.AgentLog))
	if err != nil {
		return attempt{broken: fmt.Errorf("open agent log: %w", err)}
	}
	defer log.close()
	r.seen = 0
	if r.gateway != nil {
		r.gateway.Begin()
	}
	r.mu.Lock()
	r.said = nil
	before := r.steps
	r.mu.Unlock()
	var last tail
	out := &lines{to: r.drv.Reader(l), take: r.take}
	env := append(r.baseEnv(), names.EnvSession+"="+l.Session)
	if prove := r.proven; prove != nil {
		r.proven = nil
		if r.unproven = prove(); r.unproven != nil {
			return attempt{broken: r.unproven, stopped: stopOf(ctx)}
		}
	}
	p, err := r.box.Start(ctx, box.Command{
		Argv: plan.Argv, Env: append(env, plan.Env...), Dir: r.cmd.Tree, Main: true,
	}, strings.NewReader(plan.Stdin), tee{out, log, &last}, tee{log, &last})
	if err != nil {
		return attempt{broken: err, stopped: stopOf(ctx)}
	}
	r.Crash("agent")
	r.enter("running", "")
	a := attempt{session: session}
	a.stopped = r.watch(ctx, p)
	x, err := p.Exit()
	out.end()
	r.heed() // what was told in the last moment
	a.end = agent.End{Code: x.Code, Reason: runner.Reason(x.Code), Tail: last.String()}
	r.mu.Lock()
	a.end.Said = r.said
	moved := r.steps > before
	r.mu.Unlock()
	if r.gateway != nil {
		a.end.Model = r.gateway.Last()
	}
	if errors.Is(err, box.ErrLimit) && a.stopped == nil {
		a.broken = err // no retry helps; a person decides
	} else if err != nil && a.stopped == nil {
		a.end.Reason = "the sandbox ended under the agent"
	}
	if d, ok := r.drv.(agent.Installed); ok && !moved && a.stopped == nil && a.broken == nil {
		a.lost = d.Lost(a.end)
		a.mute = session != "" && r.gateway != nil && r.gateway.Seen().Calls == 0 && mute(d, a.end)
	}
	return a
}

// resumes is the conversation to continue: the one this turn has begun, or the
// one of an earlier turn.
func (r *run) resumes() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session != "" {
		return r.session
	}
	return r.cmd.Session
}

// take notes what the agent's output told.
func (r *run) take(events []agent.Event) {
	for _, e := range events {
		r.mu.Lock()
		if e.Session != "" {
			r.session = e.Session
		}
		if e.Text != "" {
			r.text = e.Text
		}
		if e.Failure != nil {
			r.said = e.Failure
		} else if e.Step {
			r.said = nil
		}
		r.counted = counted(r.counted, e.Usage)
		r.mu.Unlock()
		if e.Step {
			r.step()
		}
	}
}

// counted adds what an agent says that it spent.
func counted(have, more []model.Usage) []model.Usage {
	for _, u := range more {
		i := slices.IndexFunc(have, func(h model.Usage) bool { return h.Model == u.Model && h.Credential == u.Credential })
		if i >= 0 {
			have[i] = have[i].Add(u)
		} else {
			have = append(have, u)
		}
	}
	return have
}

// watch waits for the agent's end and brings it about when the turn is stopped or
// makes no progress (FC-020). It returns why it did.
func (r *run) watch(ctx context.Context, p *box.Process) *stopped {
	limit := r.watchdog()
	idle := r.wait(ctx, WaitWatchdog, limit)
	defer func() { idle.stop() }()
	var news <-chan struct{}
	if r.gateway != nil {
		news = r.gateway.News()
	}
	for {
		select {
		case <-p.Done():
			return nil
		case <-news:
			r.heed()
		case <-r.progress:
			idle.again()
		case <-idle.over:
			r.log.Warn("no progress", "limit", limit)
			r.end(p)
			return &stopped{turn.StopWatchdog, errWatchdog.Error()}
		case <-ctx.Done():
			r.end(p)
			return stopOf(ctx)
		}
	}
}

// end asks the agent's process group to end and kills it after the grace.
func (r *run) end(p *box.Process) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.Signal(s)
		t := time.NewTimer(r.Grace)
		select {
		case <-p.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
	p.Abandon() // the helper does not answer; it kills what a lost supervisor leaves
	<-p.Done()
}

// stopOf is why a context is over, nil when it is not.
func stopOf(ctx context.Context) *stopped {
	if ctx.Err() == nil {
		return nil
	}
	if s, ok := errors.AsType[*stopped](context.Cause(ctx)); ok {
		return s
	}
	return &stopped{turn.StopShutdown, "the supervisor was ended"}
}

// tee writes to each of several sinks; one that fails does not keep the others.
type tee []interface{ Write([]byte) (int, error) }

func (t tee) Write(p []byte) (int, error) {
	for _, w := range t {
		_, _ = w.Write(p)
	}
	return len(p), nil
}

// failureOf words what kept an agent from starting, with what a person can do.
func failureOf(err error) *turn.Failure {
	of := fault.Of(err)
	f := &turn.Failure{Class: classOf(err), Reason: of.Public}
	if of.Kind == fault.Internal {
		f.Reason = err.Error()
	}
	for _, n := range of.Next {
		if n.For == "" || n.For == "person" || n.For == "cli" {
			f.Reason += " " + n.Text
		}
	}
	return f
}
