package supervisor

import (
	"os"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/install"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

// installed finds the agent's program where the person has installed it, and shows
// that and nothing else of theirs inside, read only. What is not found here may
// still be in the sandbox's own directories; the lookup inside decides.
func (r *run) installed() ([]sandbox.Mount, error) {
	d, ok := r.drv.(agent.Installed)
	if !ok {
		return nil, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	f, err := install.Find(d.Install(), home)
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.program = f.Program
	if r.cmd.Host {
		return nil, nil
	}
	for _, s := range sandbox.System() {
		if strings.HasPrefix(f.Root, s+"/") {
			return nil, nil
		}
	}
	return []sandbox.Mount{{Source: f.Root, Stamp: f.Stamp}}, nil
}

// sealed reports whether the workspace is shown read-only: in a read-only turn of
// a CLI that has no working guard of its own. That takes a sandbox of its own,
// which lasts as long as the turn.
func (r *run) sealed() bool {
	d, ok := r.drv.(agent.Installed)
	return ok && r.Container == nil && r.cmd.ReadOnly && !d.Guards() && !r.cmd.Host
}

// advice is how to install the agent's program.
func (r *run) advice() string {
	if d, ok := r.drv.(agent.Installed); ok {
		return "Install it: " + d.Install().Get
	}
	return "Install it where every user can run it, or name it by a path below the repository."
}
