// Package seatbelt renders a sandbox plan as a Seatbelt profile for macOS. The
// profile is compared with a golden file; that it contains a process has to be
// seen on a Mac, so doctor calls it unproven there (AG-028).
package seatbelt

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

var _ sandbox.Renderer = Renderer{}

const program = "/usr/bin/sandbox-exec"

// Renderer starts processes under sandbox-exec.
type Renderer struct {
	Home string // a directory made for the processes, writable to them
	Tmp  string // another one, for temporary files
}

// Name returns the word shown to people.
func (Renderer) Name() string { return "seatbelt" }

// Probe runs an empty profile.
func (Renderer) Probe(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, program, "-p", "(version 1)(allow default)", "/usr/bin/true").CombinedOutput()
	if err != nil {
		return fault.Wrap(fault.Unavailable, fmt.Errorf("%w: %s", err, out), "sandbox-exec does not run on this machine, so agents cannot be contained").
			WithNext(sandbox.HostProcess)
	}
	return nil
}

// View returns real paths: Seatbelt hides files but moves none.
func (r Renderer) View(p sandbox.Plan) sandbox.View {
	return sandbox.View{Helper: p.Helper, Sockets: p.Sockets, Home: r.Home, Tmp: r.Tmp}
}

// Command prepares the process. A mount that shows a file under another path
// cannot be rendered here; its target is hidden instead.
func (r Renderer) Command(ctx context.Context, p sandbox.Plan) (*exec.Cmd, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, append([]string{"-p", r.Profile(p), "--"}, p.Argv...)...)
	c.Dir = p.Dir
	c.Env = sandbox.With(p.Env, "HOME="+r.Home, "TMPDIR="+r.Tmp, "USER=agent", "LOGNAME=agent", "LANG=en_US.UTF-8",
		"PATH=/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin")
	return c, nil
}

// system is what programs on macOS need to start, apart from the plan.
func system() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer/CommandLineTools", "/Library/Preferences/Logging",
		"/opt/homebrew", "/private/etc/ssl", "/private/var/db/timezone", "/private/var/select", "/private/var/db/dyld",
	}
}

// Profile writes the plan in the profile language. The last matching rule wins,
// so mounts keep their order.
func (r Renderer) Profile(p sandbox.Plan) string {
	var b strings.Builder
	b.WriteString(`(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx") (regex #"^/dev/ttys[0-9]+$"))
(allow file-read* (literal "/") (literal "/dev/random") (literal "/dev/urandom") (literal "/dev/dtracehelper"))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.system.logger") (global-name "com.apple.trustd.agent"))
`)
	roots := p.System
	if roots == nil {
		roots = system()
	}
	for _, s := range roots {
		fmt.Fprintf(&b, "(allow file-read* file-map-executable (subpath %s))\n", quote(s))
	}
	for _, s := range []string{r.Home, r.Tmp} {
		fmt.Fprintf(&b, "(allow file-read* file-write* (subpath %s))\n", quote(s))
	}
	for _, m := range p.Mounts {
		at := quote(m.At())
		switch {
		case m.Target != "" && m.Target != m.Source:
			fmt.Fprintf(&b, "(deny file-read* file-write* (subpath %s))\n", at)
		case m.RW:
			fmt.Fprintf(&b, "(allow file-read* file-write* (subpath %s))\n", at)
		default:
			fmt.Fprintf(&b, "(allow file-read* (subpath %s))\n(deny file-write* (subpath %s))\n", at, at)
		}
	}
	if p.Helper != "" {
		fmt.Fprintf(&b, "(allow file-read* (literal %s))\n", quote(p.Helper))
	}
	b.WriteString("(deny network*)\n")
	if p.Sockets != "" {
		fmt.Fprintf(&b, "(allow file-read* (subpath %s))\n", quote(p.Sockets))
		fmt.Fprintf(&b, "(allow network-outbound (remote unix-socket (subpath %s)))\n", quote(p.Sockets))
	}
	return b.String()
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
