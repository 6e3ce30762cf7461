// Package bwrap renders a sandbox plan with bubblewrap: own user, process, IPC,
// host name and network namespaces, no capability, and a root file system made
// of what the plan names.
package bwrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

var (
	_ sandbox.Renderer = (*Renderer)(nil)
	_ sandbox.Apart    = (*Renderer)(nil)
)

// Renderer starts processes under bubblewrap.
type Renderer struct {
	path    string
	noUsers bool // this bubblewrap can forbid further user namespaces
	lent    int  // the id outside that helpers run under; 0 is the agent's own
	unlent  string
	read    func(name string) string
}

// agentID is who the process is inside when the machine's user is root: agent
// CLIs refuse to run as root. Outside it stays the same user, so the files in
// the tree stay usable on both sides.
const agentID = 1000

// Find locates bubblewrap and asks what it can do.
func Find(ctx context.Context) (*Renderer, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "bubblewrap (bwrap) is not installed, so agents cannot be contained").
			WithNext("Install it: apt install bubblewrap, dnf install bubblewrap, or your system's way.").
			WithNext(sandbox.HostProcess)
	}
	out, err := exec.CommandContext(ctx, path, "--help").CombinedOutput()
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "bubblewrap at %s does not run", path).WithNext(sandbox.HostProcess)
	}
	r := &Renderer{path: path, noUsers: bytes.Contains(out, []byte("--disable-userns")), read: readFile}
	r.lent, r.unlent = lend(os.Geteuid(), r.read)
	return r, nil
}

// readFile returns the trimmed content of a file, "" for one that is not there.
func readFile(name string) string {
	b, _ := os.ReadFile(name)
	return strings.TrimSpace(string(b))
}

// Name returns the word shown to people.
func (*Renderer) Name() string { return "bubblewrap" }

// Probe starts an empty sandbox with the switches a real one has.
func (r *Renderer) Probe(ctx context.Context) error {
	said, err := r.try(ctx, sandbox.Plan{Argv: []string{"true"}, Dir: "/tmp"})
	if err == nil {
		return r.probeApart(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	why, remedy := Restriction(r.read)
	if why == "" {
		why = firstLine(said)
	}
	f := fault.Wrap(fault.Unavailable, fmt.Errorf("bwrap: %s", strings.TrimSpace(said)),
		"bubblewrap cannot make a sandbox on this machine: %s", why)
	if remedy != "" {
		f = f.WithNext(remedy)
	}
	return f.WithNext(sandbox.HostProcess)
}

// try runs a plan to its end and returns what it said about a failure.
func (r *Renderer) try(ctx context.Context, p sandbox.Plan) (said string, err error) {
	c, err := r.Command(ctx, p)
	if err != nil {
		return err.Error(), err
	}
	var text bytes.Buffer
	c.Stderr = &text
	if err = sandbox.Start(c); err == nil {
		err = c.Wait()
	}
	return text.String(), err
}

// probeApart finds out whether a helper can be somebody else here, with a program
// that ends at once in its place. That it cannot takes no sandbox away.
func (r *Renderer) probeApart(ctx context.Context) error {
	if r.lent == 0 {
		return nil
	}
	stand, err := exec.LookPath("true")
	if err == nil {
		stand, err = filepath.EvalSymlinks(stand)
	}
	if err != nil {
		return nil //nolint:nilerr // nothing to try it with
	}
	said, err := r.try(ctx, sandbox.Plan{Argv: []string{sandbox.HelperPath}, Dir: "/tmp", Helper: stand})
	if err != nil && ctx.Err() == nil {
		r.Together("it was tried: " + firstLine(said+"\n"+err.Error()))
	}
	return ctx.Err()
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimPrefix(s, "bwrap: ")
}

// View returns the fixed paths inside.
func (r *Renderer) View(p sandbox.Plan) sandbox.View {
	v := sandbox.View{Home: sandbox.HomeDir, Tmp: "/tmp"}
	if r.lent > 0 && p.Helper != "" {
		v.Agent = agentID
	}
	if p.Helper != "" {
		v.Helper = sandbox.HelperPath
	}
	if p.Sockets != "" {
		v.Sockets = sandbox.SocketDir
	}
	return v
}

// Command prepares the process. Everything but the program's own arguments
// travels through a descriptor: other users of the machine can read arguments,
// and a variable of bubblewrap's own environment could change bubblewrap.
func (r *Renderer) Command(ctx context.Context, p sandbox.Plan) (*exec.Cmd, error) {
	if err := errors.Join(p.Check(), p.CheckSources()); err != nil {
		return nil, err
	}
	copies, binds := etc()
	files := append(copies, syntheticEtc(os.Geteuid())...)
	c := exec.CommandContext(ctx, r.path)
	c.Env = []string{"PATH=/usr/bin:/bin"}
	fd := func(name, content string) (int, error) {
		f, err := sealed(name, content)
		if err != nil {
			return 0, fmt.Errorf("render sandbox: %w", err)
		}
		c.ExtraFiles = append(c.ExtraFiles, f)
		return 2 + len(c.ExtraFiles), nil
	}
	args := r.args(p)
	for _, name := range binds {
		args = append(args, "--ro-bind-try", name, name)
	}
	for _, f := range files {
		n, err := fd(f.path, f.content)
		if err != nil {
			return nil, errors.Join(err, closeAll(c.ExtraFiles))
		}
		args = append(args, "--perms", "0444", "--file", fmt.Sprint(n), f.path)
	}
	args = append(args, r.last(p)...)
	n, err := fd("args", strings.Join(args, "\x00")+"\x00")
	if err != nil {
		return nil, errors.Join(err, closeAll(c.ExtraFiles))
	}
	c.Args = append([]string{r.path, "--args", fmt.Sprint(n), "--"}, p.Argv...)
	if r.apart(p) {
		r.setApart(c)
	}
	return c, nil
}

func closeAll(files []*os.File) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// args are the switches up to the first mount of the plan.
func (r *Renderer) args(p sandbox.Plan) []string {
	apart := r.apart(p)
	a := []string{"--unshare-all", "--unshare-user"}
	if apart { // it is in a user namespace of its own already
		a = []string{"--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"}
	}
	a = append(a, "--hostname", "lazy", "--clearenv", "--cap-drop", "ALL")
	if apart {
		for _, c := range helperRights() {
			a = append(a, "--cap-add", c)
		}
	}
	if !p.Outlives {
		a = append(a, "--die-with-parent")
	}
	if p.Helper != "" && p.Argv[0] == sandbox.HelperPath {
		// The helper is the first process of its namespace: what runs beside it
		// can neither kill nor stop it (AG-026).
		a = append(a, "--as-pid-1")
	}
	if r.noUsers && !apart {
		a = append(a, "--disable-userns")
	}
	if os.Geteuid() == 0 && !apart {
		a = append(a, "--uid", fmt.Sprint(agentID), "--gid", fmt.Sprint(agentID))
	}
	if !p.Terminal {
		a = append(a, "--new-session")
	}
	system := p.System
	if system == nil {
		system = sandbox.System()
	}
	for _, path := range system {
		a = append(a, systemArgs(path)...)
	}
	size := p.TmpBytes
	if size <= 0 {
		size = sandbox.DefaultTmp
	}
	a = append(a, "--proc", "/proc", "--dev", "/dev")
	for _, t := range [][2]string{{"/tmp", "1777"}, {"/var/tmp", "1777"}, {sandbox.HomeDir, "0755"}} {
		a = append(a, "--size", fmt.Sprint(size), "--perms", t[1], "--tmpfs", t[0])
	}
	if apart {
		a = append(a, "--size", fmt.Sprint(size), "--perms", "1777", "--tmpfs", "/dev/shm")
		for _, d := range []string{"/etc", "/etc/ssl", "/etc/pki", "/var", "/home"} {
			a = append(a, "--perms", "0755", "--dir", d)
		}
		for _, d := range above(p, system, []string{sandbox.HomeDir, "/tmp", "/var/tmp"}) {
			a = append(a, "--perms", "0755", "--dir", d)
		}
	}
	return a
}

// systemArgs shows a system directory as it is: a link stays a link, as /bin is
// on most machines.
func systemArgs(path string) []string {
	if target, err := os.Readlink(path); err == nil {
		return []string{"--symlink", target, path}
	}
	return []string{"--ro-bind-try", path, path}
}

// last are the plan's mounts and what has to come after them: the root file
// system itself is closed when everything is in place.
func (r *Renderer) last(p sandbox.Plan) []string {
	var a []string
	for _, m := range p.Mounts {
		bind := "--ro-bind"
		if m.RW {
			bind = "--bind"
		}
		a = append(a, bind, m.Source, m.At())
	}
	if p.Helper != "" {
		a = append(a, "--ro-bind", p.Helper, sandbox.HelperPath)
	}
	if p.Sockets != "" {
		a = append(a, "--ro-bind", p.Sockets, sandbox.SocketDir)
	}
	a = append(a, "--remount-ro", "/")
	env := sandbox.With(p.Env, "HOME="+sandbox.HomeDir, "USER=agent", "LOGNAME=agent", "SHELL=/bin/sh", "LANG=C.UTF-8",
		"TMPDIR=/tmp", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:"+filepath.Dir(sandbox.HelperPath))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		a = append(a, "--setenv", name, value)
	}
	return append(a, "--chdir", p.Dir)
}
