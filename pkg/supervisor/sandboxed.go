package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

// The sockets an agent finds in its socket directory.
const (
	toolSocket  = "agent.sock"
	netSocket   = "net.sock"
	modelSocket = "model.sock"
)

// workspace is the recorded plan of the command (GT-003).
func (r *run) workspace() git.Workspace {
	c := r.cmd
	return git.Workspace{
		State: c.State, Tree: c.Tree, GitDir: c.GitDir, Objects: c.Objects, Shared: c.Shared,
		Borrowed: c.Borrowed, Branch: c.Branch, Base: c.Base,
	}
}

// enterBox finds the task's sandbox, which outlives turns with the servers the
// agent left running in it, or makes one (AG-006).
func (r *run) enterBox(ctx context.Context) error {
	if r.Container != nil {
		return r.joinContainer(ctx)
	}
	dir := r.sandboxDir()
	if r.sealed() { // it has nothing that the next turn would miss
		r.later(func() {
			if err := box.End(context.WithoutCancel(ctx), dir, r.Grace, time.After); err != nil {
				r.log.Warn("end the read-only sandbox", "err", err)
			}
		})
	}
	place := Place{Home: filepath.Join(dir, "home"), Bin: filepath.Join(dir, "bin")}
	for _, d := range []string{dir, filepath.Join(dir, "run"), place.Home, place.Bin} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make sandbox directory: %w", err)
		}
	}
	if err := linkHelper(place.Bin, r.Bin); err != nil {
		return err
	}
	rend, err := r.Renderer(ctx, r.cmd.Host, place)
	if err != nil {
		return err
	}
	plan, err := r.plan(dir)
	if err != nil {
		return err
	}
	err = r.findBox(ctx, rend, plan)
	apart, may := rend.(sandbox.Apart)
	if err == nil || !may || r.view.Agent == 0 || ctx.Err() != nil {
		return err
	}
	// A helper of its own user is more than this machine allows. The sandbox is
	// made without, now and for the task's later turns, which then find this one.
	r.log.Warn("the helper cannot be another user here", "err", err)
	apart.Together(err.Error())
	if err := spool.Write(r.boxDir(), togetherFile, struct{}{}); err != nil {
		return err
	}
	return r.findBox(ctx, rend, plan)
}

// togetherFile marks a task whose helper could not be another user.
const togetherFile = "together.json"

// sandboxDir is the directory of the sandbox that this turn uses: the task's, or
// one beside it that shows the workspace read-only, so that the task's goes on
// with what the agent left running in it (AG-006).
func (r *run) sandboxDir() string {
	if r.sealed() {
		return filepath.Join(r.boxDir(), spool.SealedBox)
	}
	return r.boxDir()
}

// findBox finds or makes the sandbox of a plan.
func (r *run) findBox(ctx context.Context, rend sandbox.Renderer, plan sandbox.Plan) error {
	dir := r.sandboxDir()
	if apart, ok := rend.(sandbox.Apart); ok {
		var none struct{}
		if found, err := spool.Read(r.boxDir(), togetherFile, &none); err != nil {
			return err
		} else if found {
			apart.Together("it was tried for this task")
		}
	}
	r.view = rend.View(plan)
	var err error
	if plan.Argv, err = r.helperArgv(plan); err != nil {
		return err
	}
	sum, err := digest(rend.Name(), plan)
	if err != nil {
		return err
	}
	r.tools = filepath.Join(r.view.Sockets, toolSocket)
	r.box = box.Client{Socket: filepath.Join(dir, spool.BoxSocket)}
	var old spool.Box
	if ok, err := spool.Read(dir, spool.BoxFile, &old); err != nil {
		return err
	} else if ok && old.Digest == sum && old.Alive() {
		if h, err := r.box.Health(ctx); err == nil && strings.HasPrefix(h.Sentinel, names.Sentinel) {
			r.settleDesk(h)
			return nil
		}
	}
	if err := box.End(ctx, dir, r.Grace, time.After); err != nil {
		return err
	}
	return r.makeBox(ctx, rend, plan, sum)
}

// linkHelper makes this program findable as lazy-agent where a sandbox has no
// paths of its own.
func linkHelper(dir, bin string) error {
	at := filepath.Join(dir, names.AgentBinary)
	if old, err := os.Readlink(at); err == nil && old == bin {
		return nil
	}
	temp := at + ".new"
	_ = os.Remove(temp)
	if err := os.Symlink(bin, temp); err != nil {
		return fmt.Errorf("link helper: %w", err)
	}
	if err := os.Rename(temp, at); err != nil {
		return fmt.Errorf("link helper: %w", err)
	}
	return nil
}

// plan is what the sandbox shows: the workspace as git laid it out, and the
// sockets. Nothing of the control plane, of this run or of a person is in it.
func (r *run) plan(dir string) (sandbox.Plan, error) {
	sockets := filepath.Join(dir, "run")
	if r.cmd.Host { // the socket is used at this path, which has to fit an address
		at, done, err := spool.Short(filepath.Join(sockets, toolSocket))
		if err != nil {
			return sandbox.Plan{}, err
		}
		sockets = filepath.Dir(at)
		r.later(done)
	}
	ws := r.workspace()
	p := sandbox.Plan{
		Dir: ws.Tree, Env: ws.Env(), Helper: r.Bin, Sockets: sockets, Outlives: true,
	}
	if !r.cmd.Host { // a host process is among the person's own, which are not ours to count
		p.Limits = sandbox.Limits(r.cmd.Limits)
	}
	installed, err := r.installed()
	if err != nil {
		return sandbox.Plan{}, err
	}
	p.Mounts = append(p.Mounts, installed...)
	home, err := r.agentHome()
	if err != nil {
		return sandbox.Plan{}, err
	}
	r.home = home
	if !r.cmd.Host {
		// At its real path, since not every sandbox can show it at another.
		p.Mounts = append(p.Mounts, sandbox.Mount{Source: home, RW: true})
	}
	for _, m := range ws.Mounts() {
		src := m.Source
		if src == "" {
			src = m.Path
		}
		p.Mounts = append(p.Mounts, sandbox.Mount{Source: src, Target: m.Path, RW: m.RW && !r.sealed()})
	}
	return p, nil
}

// helperArgv starts the helper inside.
func (r *run) helperArgv(plan sandbox.Plan) ([]string, error) {
	argv := []string{r.view.Helper, "exec"}
	if r.view.Agent != 0 {
		argv = append(argv, "--as", strconv.Itoa(r.view.Agent))
	}
	if !r.cmd.Host && r.cmd.Network != "none" {
		argv = append(argv, "--net", filepath.Join(r.view.Sockets, netSocket))
	}
	if !r.cmd.Host && r.access != nil {
		argv = append(argv, "--model", filepath.Join(r.view.Sockets, modelSocket))
	}
	if (plan.Limits != sandbox.Limits{}) {
		b, err := json.Marshal(plan.Limits)
		if err != nil {
			return nil, fmt.Errorf("describe limits: %w", err)
		}
		argv = append(argv, "--limits", string(b))
		for _, m := range plan.Mounts {
			if m.RW {
				argv = append(argv, "--writable", m.At())
			}
		}
	}
	return argv, nil
}

// digest identifies what a sandbox was made from, so that a later turn with
// another plan gets a sandbox of its own.
func digest(name string, p sandbox.Plan) (string, error) {
	p.Sockets = "" // a short link to it may differ from turn to turn
	b, err := json.Marshal(struct {
		Name string
		Plan sandbox.Plan
	}{name, p})
	if err != nil {
		return "", fmt.Errorf("describe sandbox: %w", err)
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:]), nil
}

// makeBox starts the helper in a new sandbox. The helper inherits its socket
// listening, as its standard input, so that nothing inside can see or replace
// it; its log, which is its output, is also the lock that proves it alive.
func (r *run) makeBox(ctx context.Context, rend sandbox.Renderer, plan sandbox.Plan, sum string) error {
	dir := r.sandboxDir()
	log, err := spool.LockBox(dir)
	if err != nil {
		return err
	}
	if log == nil {
		return fault.New(fault.Unavailable, "an earlier sandbox of this task does not end")
	}
	defer log.Close()
	if err := log.Truncate(0); err != nil {
		return fmt.Errorf("clear sandbox log: %w", err)
	}
	l, err := spool.Listen(ctx, r.box.Socket)
	if err != nil {
		return err
	}
	defer l.Close()
	in, err := l.File()
	if err != nil {
		return fmt.Errorf("hand over socket: %w", err)
	}
	defer in.Close()
	c, err := rend.Command(context.WithoutCancel(ctx), plan)
	if err != nil {
		return err
	}
	c.Stdin, c.Stdout, c.Stderr = in, log, log
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setsid = true
	if err := sandbox.Start(c); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the sandbox (%s) cannot be started", rend.Name())
	}
	go func() { _ = c.Wait() }() // collected while we live; it outlives us
	who, err := spool.Identify(c.Process.Pid)
	if err == nil {
		err = spool.Write(dir, spool.BoxFile, spool.Box{Ident: who, Socket: r.box.Socket, Digest: sum})
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// Nothing but the helper may hold the listening end, or its death would not
	// be noticed by those who call it.
	_ = in.Close()
	_ = l.Close()
	r.Crash("box")
	h, err := r.box.Health(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		why := strings.TrimSpace(spool.Tail(filepath.Join(dir, spool.BoxLog)))
		return fault.Wrap(fault.Unavailable, err, "the sandbox (%s) did not start: %s", rend.Name(), lastOf(why)).
			WithNext("Run `lazy doctor`.")
	}
	err = spool.Write(dir, spool.BoxFile, spool.Box{
		Ident: who, Helper: box.HelperOf(who.PID), Socket: r.box.Socket, Digest: sum,
	})
	r.settleDesk(h)
	return err
}

// settleDesk says where the turn's own files lie inside. A host process has the
// person's own home, where nothing of ours belongs.
func (r *run) settleDesk(h box.Health) {
	r.models = h.Gateway
	if r.cmd.Host {
		r.desk = filepath.Join(r.boxDir(), "desk")
		r.mcp = filepath.Join(r.desk, "mcp.json")
		return
	}
	home := r.view.Home
	if h.Home != "" {
		home = h.Home
	}
	r.desk = filepath.Join(home, ".lazy")
	r.mcp = filepath.Join(home, ".claude.json")
}

func lastOf(s string) string {
	if s == "" {
		return "it said nothing"
	}
	if len(s) > 400 {
		s = s[len(s)-400:]
	}
	return s
}

// preflight proves that the agent's tools can be started where the agent will
// start them; without them every tool call would be lost behind an opaque
// protocol error (AG-013).
func (r *run) preflight(ctx context.Context) error {
	var out, errs tail
	x, err := r.box.Run(ctx, box.Command{Argv: []string{names.AgentBinary, "selfcheck"}, Dir: r.cmd.Tree}, nil, &out, &errs)
	if err == nil && x.Code == 0 && strings.HasPrefix(out.String(), names.Sentinel) {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said := strings.TrimSpace(out.String() + "\n" + errs.String())
	if err != nil {
		said = fault.Of(err).Public
	}
	return fault.Wrap(fault.Failed, err, "lazy-agent does not work inside the sandbox (it said %q)", said).
		WithNext("Reinstall lazy, or rebuild it, so that one lazy-agent for this machine is installed.")
}
