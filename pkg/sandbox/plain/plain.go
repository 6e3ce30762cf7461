// Package plain renders a sandbox plan without any containment: the process
// runs as the person, on the person's files. It exists for --host-process and
// for containers that are a sandbox themselves.
package plain

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

var _ sandbox.Renderer = Renderer{}

// Renderer starts processes directly.
type Renderer struct {
	Home string // HOME of the processes
	Path string // PATH of the processes
}

// Name returns the word shown on every turn that ran this way (AG-028).
func (Renderer) Name() string { return "host-process" }

// Probe has nothing to prove.
func (Renderer) Probe(context.Context) error { return nil }

// View returns the machine's own paths.
func (r Renderer) View(p sandbox.Plan) sandbox.View {
	return sandbox.View{Helper: p.Helper, Sockets: p.Sockets, Home: r.Home, Tmp: os.TempDir()}
}

// Command prepares the process with the plan's program, directory and variables.
// It inherits nothing else of this process.
func (r Renderer) Command(ctx context.Context, p sandbox.Plan) (*exec.Cmd, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	env := sandbox.With(p.Env, "HOME="+r.Home, "PATH="+r.Path, "TMPDIR="+os.TempDir(), "LANG=C.UTF-8")
	name := p.Argv[0]
	if filepath.Base(name) == name {
		if found, ok := lookIn(r.Path, name); ok {
			name = found
		}
	}
	c := exec.CommandContext(ctx, name, p.Argv[1:]...)
	c.Dir, c.Env = p.Dir, env
	return c, nil
}

// lookIn finds a program on the processes' PATH, which need not be this one's.
func lookIn(path, name string) (string, bool) {
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, name)
		if fi, err := os.Stat(full); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 && filepath.IsAbs(full) {
			return full, true
		}
	}
	return "", false
}
