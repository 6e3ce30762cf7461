// Package supervisor runs one turn: it exchanges its nonce for credentials and a
// command, prepares the workspace, drives the agent in its sandbox, serves the
// agent's tools over one unix socket, and hands in what the turn left. It is the
// trusted side: everything that comes from the agent is a claim to check, and no
// credential it holds is reachable from the sandbox (AG-022 to AG-024).
package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/gateway"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Options is all a supervisor is made from.
type Options struct {
	Dir      string   // the protocol directory
	Worktree string   // when set, the command's tree has to be this one (AG-003)
	Lock     *os.File // the run's lock, inherited; nil takes it here
	Version  string
	Bin      string // this program, which is also the sandbox's helper
	// Renderer finds the sandbox: the machine's own, or none when host is set.
	Renderer func(ctx context.Context, host bool, place Place) (sandbox.Renderer, error)
	Find     func(id string, argv []string) (agent.Driver, bool)
	// Container is set where the agent has a container of its own and nothing is to
	// be started for it.
	Container *Container
	Catalogue func() *op.Catalogue // asked for when the first tool is called
	Now       func() time.Time
	// After is a clock for the waits that depend on an agent: it fires once, after
	// d, unless ctx is done before. What names the wait. Nil is this machine's.
	After func(ctx context.Context, what string, d time.Duration) <-chan struct{}
	NewID func() string
	Log   *slog.Logger
	// Shutdown is closed when the process is asked to end.
	Shutdown <-chan struct{}
	// Crash is told of each point at which a death is interesting.
	Crash func(point string)
	Grace time.Duration // between asking an agent to end and killing it; 0 is 5 s
	Beat  time.Duration // between two beats; 0 is names.Beat
}

// Place is where a sandbox without a file system of its own keeps things.
type Place struct {
	Home string // a directory made for the processes
	Bin  string // a directory whose lazy-agent is this program
}

// run is one turn under way.
type run struct {
	Options
	start spool.Start
	cmd   turn.Command
	// merges is what is left to bring in before the agent runs.
	merges []turn.Merge
	link   *link
	drv    agent.Driver
	log    *slog.Logger

	box     box.Client
	view    sandbox.View
	desk    string // directory inside in which the turn's prompt and configuration lie
	mcp     string // the MCP configuration, as seen inside
	tools   string // the agent's socket, as seen inside
	program string // the agent's program, as seen inside; "" is found there by name
	broker  *broker
	after   []func() // to be called at the end, last first

	proven   func() error // waits for the preflight; nil once it has been asked
	unproven error        // why it failed, so that no agent was started

	stop context.CancelCauseFunc

	mu       sync.Mutex
	state    string        // guarded by mu: preparing, running, settling
	phase    string        // guarded by mu
	retry    string        // guarded by mu; the retry line
	steps    int64         // guarded by mu; completed steps
	declared bool          // guarded by mu; lazy_final succeeded in this run
	blocking bool          // guarded by mu; a blocking item was raised in this run
	session  string        // guarded by mu
	text     string        // guarded by mu; the agent's last message
	said     *turn.Failure // guarded by mu; the failure the agent named last
	counted  []model.Usage // guarded by mu; what the agent counted itself
	until    time.Time     // guarded by mu; model calls may begin before it
	noModel  string        // guarded by mu; why none may
	granted  chan struct{} // guarded by mu; closed at the next answer to a beat
	kick     chan struct{}
	progress chan struct{}

	vault   *turn.Vault
	keeper  *keeper // nil where the workspace outlives the run
	tried   int     // the number of the retry line
	seen    int     // failed model calls in a row of this run of the agent that it counts
	earlier string  // what a conversation begun afresh is told of the one that was lost
	lost    string  // the conversation that was lost
	lostWhy string  // how that showed
	muted   int     // attempts in a row that were mute

	access  *model.Access
	gateway *gateway.Gateway
	key     string
	models  string // the gateway's address, as seen inside
	home    string // the agent CLI's own directory, as seen inside

	setup       string
	setupFailed bool
	agentTime   time.Duration
	exitCode    int
}

// stopped is the cause of a context that ends the agent: why, in the words of the
// decision table, and what people read.
type stopped struct {
	why  string
	text string
}

func (s *stopped) Error() string { return s.text }

// ErrHeld means that another supervisor holds this run.
var ErrHeld = errors.New("another supervisor holds this run")

// Run supervises the turn that is described in the protocol directory, to its
// end. Started again there, it hands in the answer that was left, or says that
// the run was cut off; it never runs an agent twice.
func Run(ctx context.Context, o Options) (err error) {
	if o.After == nil {
		o.After = after
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	self, err := o.hold()
	if err != nil {
		return err
	}
	defer o.Lock.Close()
	defer func() { o.recordExit(err) }()
	r := &run{Options: o, state: "preparing", kick: make(chan struct{}, 1), progress: make(chan struct{}, 1), granted: make(chan struct{})}
	if err := r.begun(); err != nil {
		return err
	}
	defer r.link.close()
	var tok spool.Token
	if began, err := spool.Read(o.Dir, spool.TokenFile, &tok); err != nil {
		return err
	} else if began {
		return r.again(ctx, tok)
	}
	asked := o.Now()
	if err := r.hello(ctx, self); err != nil {
		return err
	}
	r.grant(asked, turn.BeatOut{ModelUntil: r.cmd.ModelUntil})
	resp := r.supervise(ctx)
	if r.Container != nil {
		r.leaveContainer()
	}
	return r.handIn(ctx, resp)
}

// hold takes the run's directory for this process, which names itself there.
func (o *Options) hold() (self spool.Ident, err error) {
	if o.Crash == nil {
		o.Crash = func(string) {}
	}
	if o.Lock == nil {
		if o.Lock, err = spool.Lock(o.Dir); err != nil {
			return self, err
		}
		if o.Lock == nil {
			return self, fault.Wrap(fault.Conflict, ErrHeld, "another supervisor holds this run")
		}
	}
	if self, err = spool.Self(); err == nil {
		err = spool.Write(o.Dir, spool.SelfFile, self)
	}
	if err != nil {
		return self, errors.Join(err, o.Lock.Close())
	}
	o.Crash("self")
	return self, nil
}

// begun reads what the launch handed over, and opens the way to the control plane.
func (r *run) begun() error {
	if ok, err := spool.Read(r.Dir, spool.StartFile, &r.start); err != nil {
		return err
	} else if !ok {
		return fault.New(fault.Invalid, "%s holds no %s, so there is nothing to supervise", r.Dir, spool.StartFile)
	}
	r.log = r.Log.With("tenant", r.start.Tenant, "task", r.start.Task.Short(), "turn", string(r.start.Turn), "epoch", r.start.Epoch)
	r.link = newLink(r.start, r.log)
	return nil
}

// recordExit leaves the end of this process for whoever looks after a restart.
func (o Options) recordExit(err error) {
	x := spool.Exit{Code: fault.Exit(err), Reason: runner.Reason(fault.Exit(err)), At: o.Now()}
	if err != nil {
		x.Reason = fault.Of(err).Public
		if fault.KindOf(err) == fault.Internal {
			x.Reason = err.Error()
		}
	}
	if werr := spool.Write(o.Dir, spool.ExitFile, x); werr != nil && !errors.Is(werr, fs.ErrNotExist) {
		o.Log.Error("record exit", "err", werr)
	}
}

// hello exchanges the nonce. A control plane that is away is waited for as long
// as the nonce lives, and an answer that was lost is asked for again under the
// same key, also by a supervisor that takes this one's place: a second claim
// under another key is an alarm.
func (r *run) hello(ctx context.Context, self spool.Ident) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.Shutdown: // nobody waits for a control plane after being asked to end
			cancel()
		case <-ctx.Done():
		}
	}()
	key, err := r.helloKey()
	if err != nil {
		return err
	}
	w, err := r.link.hello(ctx, turn.Hello{Nonce: r.start.Nonce, Key: key, PID: self.PID, Started: self.Mark, Version: r.Version})
	if err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	if w.Command.Turn != r.start.Turn || w.Command.Task != r.start.Task || w.Command.Epoch != r.start.Epoch {
		return fault.New(fault.Internal, "the command is for another run")
	}
	r.Crash("hello")
	r.cmd, r.access, r.vault = w.Command, w.Model, w.Vault
	r.link.use(w.RunnerToken, w.TaskToken)
	if r.keeper, err = newKeeper(r, w.Vault); err != nil {
		return err
	}
	public := w.Command
	public.Prompt = "" // it may quote people; the control plane has it
	return errors.Join(
		spool.Write(r.Dir, spool.CommandFile, public),
		spool.Write(r.Dir, spool.TokenFile, spool.Token{Runner: w.RunnerToken, Task: w.TaskToken}),
	)
}

// helloKey is the key of this run's hello, kept before it is used for whoever takes
// this process's place. Of a machine that lost its power nobody does: the run is gone.
func (r *run) helloKey() (string, error) {
	var h spool.Hello
	if ok, err := spool.Read(r.Dir, spool.HelloFile, &h); err != nil || ok {
		return h.Key, err
	}
	h.Key = rand.Text()
	return h.Key, spool.Write(r.Dir, spool.HelloFile, h)
}

// again continues a run whose supervisor died: what it had to say is handed in,
// and a run that had not said anything yet has crashed.
func (r *run) again(ctx context.Context, tok spool.Token) error {
	r.link.use(tok.Runner, tok.Task)
	var resp turn.Response
	ok, err := spool.Read(r.Dir, spool.ResponseFile, &resp)
	if err != nil {
		return err
	}
	if !ok {
		if _, err := spool.Read(r.Dir, spool.CommandFile, &r.cmd); err != nil {
			return err
		}
		resp = turn.Response{
			Turn: r.start.Turn, Epoch: r.start.Epoch, Outcome: "crashed", Settled: true, ExitCode: -1, Host: r.start.Host,
			Failure: &turn.Failure{Class: turn.Unknown, Reason: "the supervisor ended in the middle of the turn"},
			Log:     spool.Tail(filepath.Join(r.Dir, spool.AgentLog)), Text: "",
		}
	}
	return r.handIn(ctx, resp)
}

// handIn keeps the answer until the control plane has it (CR-017, SY-049): it is
// durable here first, and posted until it is taken or refused for good.
func (r *run) handIn(ctx context.Context, resp turn.Response) error {
	var ack spool.Acked
	if done, err := spool.Read(r.Dir, spool.AckedFile, &ack); err != nil || done {
		return err
	}
	if err := spool.WriteSync(r.Dir, spool.ResponseFile, resp); err != nil {
		return err
	}
	r.Crash("response")
	got, err := r.link.report(ctx, resp, func() bool {
		_, gone := os.Stat(r.Dir)
		return !errors.Is(gone, fs.ErrNotExist)
	})
	ack.Ack = got
	switch fault.KindOf(err) {
	case "":
	case fault.Unauthenticated, fault.Denied, fault.NotFound, fault.Conflict, fault.Invalid, fault.TooLarge:
		ack.Refused = fault.Code(err) // it will never be taken
	default:
		return fmt.Errorf("hand in answer: %w", err)
	}
	r.Crash("reported")
	return errors.Join(spool.Write(r.Dir, spool.AckedFile, ack), err)
}

// supervise runs the turn and returns what it left. Nothing in it is fatal to the
// answer: whatever went wrong is in the response.
func (r *run) supervise(ctx context.Context) turn.Response {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.stop = stop
	if !r.cmd.Deadline.IsZero() {
		left := r.cmd.Deadline.Sub(r.Now())
		age := time.AfterFunc(max(left, 0), func() {
			stop(&stopped{turn.StopAge, "the turn reached its maximum age"})
		})
		defer age.Stop()
	}
	var side sync.WaitGroup
	beats, endBeats := context.WithCancel(ctx)
	side.Go(func() { r.beats(beats) })
	side.Go(func() { r.awaitShutdown(beats) })
	resp := r.turn(work)
	for _, f := range slices.Backward(r.after) {
		f()
	}
	r.enter("settling", "")
	endBeats()
	side.Wait()
	return resp
}

// awaitShutdown turns the end of this process, asked for by its launcher, into
// the end of the agent.
func (r *run) awaitShutdown(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-r.Shutdown:
		var s spool.Stop
		_, _ = spool.Read(r.Dir, spool.StopFile, &s)
		switch s.Why {
		case turn.StopAsked, turn.StopAge, turn.StopWatchdog:
			r.stop(&stopped{s.Why, "the run was ended: " + s.Why})
		case "":
			r.stop(&stopped{turn.StopShutdown, "the runner was shut down"})
		default:
			r.stop(&stopped{turn.StopShutdown, "the run was ended: " + s.Why})
		}
	}
}

// enter moves the run to a state and phase and says so at once.
func (r *run) enter(state, phase string) {
	r.mu.Lock()
	r.state, r.phase = state, phase
	r.mu.Unlock()
	r.log.Info("phase", "state", state, "phase", phase)
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// step counts a completed step: this is progress, output is not (FC-020).
func (r *run) step() {
	r.mu.Lock()
	r.steps++
	r.mu.Unlock()
	select {
	case r.progress <- struct{}{}:
	default:
	}
}

// later registers what has to be undone at the end of the run.
func (r *run) later(f func()) { r.after = append(r.after, f) }

// boxDir is the directory of the task's sandbox.
func (r *run) boxDir() string { return spool.BoxDir(r.Dir) }

// watchdog is how long the agent may go without progress.
func (r *run) watchdog() time.Duration {
	if r.cmd.WatchdogMS > 0 {
		return time.Duration(r.cmd.WatchdogMS) * time.Millisecond
	}
	return names.Watchdog
}
