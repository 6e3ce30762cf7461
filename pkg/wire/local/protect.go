package local

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
	"github.com/lazyplane/lazyplane/pkg/sandbox/bwrap"
)

// Protection is one thing that keeps an agent in its place, and whether it is in
// force on this machine.
type Protection struct {
	Name   string
	Holds  bool
	Detail string
	Remedy string
}

// looks is what is asked inside a sandbox that was made for it.
const looks = `echo uid=$(id -u); echo caps=$(grep -c '^Cap\(Eff\|Prm\|Inh\|Amb\):[[:space:]]*0*$' /proc/self/status)
grep NoNewPrivs /proc/self/status; echo devices=$(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \n')
echo home=$(ls -A "$PROBE_HOME" 2>/dev/null | head -n 1); echo procs=$(ls /proc | grep -c '^[0-9]*$')
(unshare -Ur true) 2>/dev/null && echo nested=yes; touch /usr/lazy-probe 2>/dev/null && echo system=writable; true`

// Protections makes a sandbox as agents get it and reports what holds in it, by
// looking from inside. An error says why there is none.
func Protections(ctx context.Context) ([]Protection, error) {
	if runtime.GOOS != "linux" {
		if err := Probe(ctx); err != nil {
			return nil, err
		}
		return []Protection{
			{Name: "contain", Holds: false, Detail: "Seatbelt renders the same plan as on Linux, and nobody has proven it on this system", Remedy: "See docs/security.md; run untrusted repositories on Linux."},
			{Name: "limits", Holds: false, Detail: "[limits] are not held on this system"},
		}, nil
	}
	r, err := bwrap.Find(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.Probe(ctx); err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir()
	c, err := r.Command(ctx, sandbox.Plan{Argv: []string{"sh", "-c", looks}, Dir: "/tmp", Env: []string{"PROBE_HOME=" + home}})
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err = sandbox.Start(c); err == nil {
		err = c.Wait()
	}
	if err != nil {
		return nil, fault.Wrap(fault.Failed, err, "a sandbox was made and cannot be looked at: %s", strings.TrimSpace(errs.String()))
	}
	return append(judge(out.String()), helper(r.HelperApart()), Protection{
		Name: "limits", Holds: true,
		Detail: "[limits] are measured several times a second, and everything inside ends beyond one; a burst may go beyond them for that long",
	}), nil
}

// helper says who the first process of a sandbox is. It holds the limits and starts
// the agent, so what an agent can do to it counts.
func helper(apart bool, why string) Protection {
	p := Protection{Name: "helper", Holds: apart, Detail: "the sandbox's first process is another user than the agent, which can neither signal, trace nor slow it"}
	if !apart {
		p.Detail = "NOT in force: the sandbox's first process runs as the agent's own user (" + why +
			"). The agent cannot end, stop, trace or read it, but can change its priority and limits, which harms its own turn only"
		p.Remedy = "Nothing has to be done. Run by root, or in a container of its own, lazy starts it as another user."
	}
	return p
}

// judge reads what was seen inside.
func judge(seen string) []Protection {
	has := func(line string) bool { return strings.Contains("\n"+seen, "\n"+line+"\n") }
	nnp := strings.Join(strings.Fields(seen), " ")
	all := []Protection{
		{Name: "rights", Holds: !has("uid=0") && has("caps=4") && strings.Contains(nnp, "NoNewPrivs: 1"), Detail: "no root, no capability, and no program can gain any"},
		{Name: "files", Holds: has("home=") && !has("system=writable"), Detail: "of the machine only the system's programs, read-only; nothing of your home"},
		{Name: "processes", Holds: !strings.Contains(seen, "procs=\n") && few(seen), Detail: "no process of the machine is seen; limits and the end of a task reach all of the sandbox's own"},
		{Name: "network", Holds: has("devices=lo"), Detail: "no device but the sandbox's own loopback; the way out is a proxy that refuses loopback, link-local and private addresses"},
		{
			Name: "kernel", Holds: !has("nested=yes"), Detail: "no further user namespaces, which reach more of the kernel",
			Remedy: "Install bubblewrap 0.8 or newer, which can forbid them.",
		},
	}
	for i := range all {
		if all[i].Holds {
			all[i].Remedy = ""
		} else {
			all[i].Detail = "NOT in force: " + all[i].Detail
		}
	}
	return all
}

// few reports whether no more processes were seen than the look itself is.
func few(seen string) bool {
	_, rest, ok := strings.Cut(seen, "procs=")
	n, _, _ := strings.Cut(rest, "\n")
	return ok && len(n) == 1 && n != "0"
}
