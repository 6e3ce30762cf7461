package agentcli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
	"github.com/lazyplane/lazyplane/pkg/sandbox/bwrap"
	"github.com/lazyplane/lazyplane/pkg/sandbox/plain"
	"github.com/lazyplane/lazyplane/pkg/sandbox/seatbelt"
	"github.com/lazyplane/lazyplane/pkg/supervisor"
)

// supervise runs one turn. Being asked to end, by SIGTERM, ends the agent and
// hands in what it left.
func (p Program) supervise(ctx context.Context, args []string, getenv func(string) string, s Stdio) error {
	f := flags("supervise", s)
	dir := f.String("protocol-dir", "", "directory the run lives in")
	tree := f.String("worktree", "", "worktree the command has to be for")
	lock := f.Int("lock-fd", -1, "descriptor that holds the run's lock")
	hosted := f.Bool("hosted", false, "the agent has a container of its own, and "+names.EnvStart+" says what to do")
	var place supervisor.Container
	f.StringVar(&place.Sockets, "sockets", names.HostedSockets, "with --hosted: directory of the sockets that the agent sees")
	f.StringVar(&place.Exec, "exec", names.HostedExec, "with --hosted: socket of the agent's helper")
	f.StringVar(&place.Helper, "helper", names.HostedHelper, "with --hosted: this program as the agent's container has it")
	f.StringVar(&place.Home, "home", names.HostedHome, "with --hosted: the agent's home directory")
	f.IntVar(&place.UID, "agent-uid", names.HostedUID, "with --hosted: the agent's user")
	if err := parse(f, args, false); err != nil {
		return err
	}
	if !filepath.IsAbs(*dir) {
		return fault.New(fault.Invalid, "lazy-agent supervise needs --protocol-dir with an absolute path")
	}
	if *hosted {
		if err := begin(*dir, getenv(names.EnvStart)); err != nil {
			return err
		}
	}
	bin, err := p.self()
	if err != nil {
		return err
	}
	o := supervisor.Options{
		Dir: *dir, Worktree: *tree, Version: p.Version, Bin: bin, Renderer: renderer(ctx, getenv), Find: p.Find,
		Catalogue: sync.OnceValue(p.Catalogue), Now: p.Now, After: p.After, NewID: p.NewID, Log: logger(getenv, s), Crash: p.Crash, Beat: p.Beat,
	}
	if *hosted {
		o.Container = &place
	}
	down, done := shutdown(ctx)
	defer done()
	o.Lock, o.Shutdown = inherited(*lock), down
	return supervisor.Run(ctx, o)
}

// begin writes down what a launch handed over in the environment, once: a
// supervisor that is started again in its container goes on from its files.
func begin(dir, given string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	var s spool.Start
	if ok, err := spool.Read(dir, spool.StartFile, &s); err != nil || ok {
		return err
	}
	if err := json.Unmarshal([]byte(given), &s); err != nil || s.Nonce == "" {
		return fault.Wrap(fault.Invalid, err, "%s does not say what to do", names.EnvStart)
	}
	return spool.Write(dir, spool.StartFile, s)
}

// renderer finds the sandbox of this machine. No sandbox is never a reason to go
// without one: that is a person's explicit choice (AG-028).
func renderer(ctx context.Context, getenv func(string) string) func(context.Context, bool, supervisor.Place) (sandbox.Renderer, error) {
	find := sync.OnceValues(func() (*bwrap.Renderer, error) { return bwrap.Find(ctx) })
	if runtime.GOOS == "linux" {
		go func() { _, _ = find() }() // bubblewrap is asked what it can do while the control plane is greeted
	}
	return func(_ context.Context, host bool, place supervisor.Place) (sandbox.Renderer, error) {
		switch {
		case host:
			return plain.Renderer{Home: getenv("HOME"), Path: place.Bin + string(filepath.ListSeparator) + getenv("PATH")}, nil
		case runtime.GOOS == "linux":
			return find()
		case runtime.GOOS == "darwin":
			tmp := filepath.Join(filepath.Dir(place.Home), "tmp")
			if err := os.MkdirAll(tmp, 0o700); err != nil {
				return nil, fmt.Errorf("make sandbox directory: %w", err)
			}
			return seatbelt.Renderer{Home: place.Home, Tmp: tmp}, nil
		}
		return nil, fault.New(fault.Unavailable, "there is no sandbox for agents on %s", runtime.GOOS).WithNext(sandbox.HostProcess)
	}
}

// broker carries out the one merge of an accept, with no agent near it (GT-023).
func (p Program) broker(ctx context.Context, args []string, getenv func(string) string, s Stdio) error {
	f := flags("broker", s)
	dir := f.String("protocol-dir", "", "directory the broker lives in")
	lock := f.Int("lock-fd", -1, "descriptor that holds the run's lock")
	hosted := f.Bool("hosted", false, names.EnvStart+" says what to do")
	if err := parse(f, args, false); err != nil {
		return err
	}
	if !filepath.IsAbs(*dir) {
		return fault.New(fault.Invalid, "lazy-agent broker needs --protocol-dir with an absolute path").
			WithNext("It is run by the system, for a merge that somebody has accepted: `lazy accept TASK`.")
	}
	if *hosted {
		if err := begin(*dir, getenv(names.EnvStart)); err != nil {
			return err
		}
	}
	down, done := shutdown(ctx)
	defer done()
	return supervisor.Land(ctx, supervisor.Options{
		Dir: *dir, Version: p.Version, Now: p.Now, Log: logger(getenv, s), Crash: p.Crash, Beat: p.Beat, Lock: inherited(*lock), Shutdown: down,
	})
}

// inherited is the run's lock as its launcher hands it over, nil for none.
func inherited(fd int) *os.File {
	if fd < 0 {
		return nil
	}
	// No program that is started from here may inherit the lock: it ends with this
	// process, and with nothing else.
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "run.lock")
}

// shutdown gives a channel that is closed when this process is asked to end, or
// done is called.
func shutdown(ctx context.Context) (asked <-chan struct{}, done func()) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE) // dropped, not ignored: programs inherit that
	down, done := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGINT)
	return down.Done(), done
}
