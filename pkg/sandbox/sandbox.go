// Package sandbox is the port to whatever contains an agent's process on a
// person's machine. One plan says what the process sees; a renderer turns it
// into a command: bubblewrap on Linux, Seatbelt on macOS, or nothing at all when
// a person asked for that (AG-028).
package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Mount shows a file or directory of the machine inside. Later mounts lie on
// top of earlier ones.
type Mount struct {
	Source string // real path on the machine
	Target string // absolute path inside; "" is Source
	RW     bool
	Stamp  string // what lies there now, so that another plan is another sandbox; not rendered
}

// At returns where the mount is inside.
func (m Mount) At() string {
	if m.Target == "" {
		return m.Source
	}
	return m.Target
}

// Limits are what the processes inside may use together; zero is no limit. The
// helper holds them: it ends everything inside that goes beyond one, and says
// which it was.
type Limits struct {
	Processes   int64 `json:"processes,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	DiskBytes   int64 `json:"disk_bytes,omitempty"` // of what the writable mounts hold
	OpenFiles   int64 `json:"open_files,omitempty"` // of each process
}

// Plan is all a contained process gets. What is not in it is not there: no
// network, no other process, no file, no variable.
type Plan struct {
	Argv     []string
	Dir      string   // working directory inside
	Env      []string // everything, with HOME, PATH and the like added when absent
	Mounts   []Mount
	System   []string // read-only roots of the operating system; nil is System()
	Helper   string   // the lazy-agent binary on the machine; "" is none
	Sockets  string   // a directory that holds nothing but unix sockets; "" is none
	TmpBytes int64    // size of /tmp and of the home directory; 0 is 2 GiB each
	Limits   Limits
	Terminal bool // keep the controlling terminal: the process runs on a pty made for it
	Outlives bool // it goes on when whoever started it ends (AG-006)
}

// View says where things of a plan are for the process inside.
type View struct {
	Helper  string
	Sockets string
	Home    string
	Tmp     string
	// Agent is the user that the helper starts everything as, where it is another
	// than its own; 0 is its own.
	Agent int
}

// Renderer turns plans into commands.
type Renderer interface {
	// Name is the word shown to people.
	Name() string
	// Probe proves that plans can be rendered on this machine, or says what a
	// person can do about it.
	Probe(ctx context.Context) error
	// View says where a process will find its helper and sockets, for Argv.
	View(p Plan) View
	// Command prepares the process; pass it to Start.
	Command(ctx context.Context, p Plan) (*exec.Cmd, error)
}

// Apart is a Renderer that runs the helper as another user than the agent where it
// may. Together ends that for this Renderer: it turned out not to work here.
type Apart interface{ Together(why string) }

// Where contained processes find things when paths inside are ours to choose.
const (
	HelperPath = "/lazy/bin/lazy-agent"
	SocketDir  = "/lazy/run"
	HomeDir    = "/home/agent"
)

// DefaultTmp is the size of a scratch file system.
const DefaultTmp = 2 << 30

// ErrPlan marks a plan that no renderer takes.
var ErrPlan = errors.New("plan is not valid")

// System returns the directories of the operating system that programs need to
// run. Nothing in them belongs to a person.
func System() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}
}

var envName = pattern.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Check refuses a plan that says nothing, or that a name could turn into more
// than it says.
func (p Plan) Check() error {
	bad := func(format string, args ...any) error {
		return fault.Wrap(fault.Invalid, ErrPlan, format, args...)
	}
	if len(p.Argv) == 0 || p.Argv[0] == "" || strings.HasPrefix(p.Argv[0], "-") {
		return bad("a contained process needs a program")
	}
	for _, s := range slices.Concat(p.Argv, p.Env, []string{p.Dir}) {
		if strings.Contains(s, "\x00") {
			return bad("a plan holds no NUL bytes")
		}
	}
	for _, kv := range p.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || !envName.MatchString(name) {
			return bad("%q is not a variable", kv)
		}
	}
	paths := []string{p.Dir}
	for _, m := range p.Mounts {
		paths = append(paths, m.Source, m.At())
	}
	for _, path := range append(paths, p.System...) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
			return bad("%q is not a clean absolute path below the root", path)
		}
	}
	return nil
}

// CheckSources refuses a mount whose source is missing or goes through a link:
// what it shows could be turned elsewhere by whoever can write the link.
func (p Plan) CheckSources() error {
	for _, m := range p.Mounts {
		real, err := filepath.EvalSymlinks(m.Source)
		if err != nil || real != m.Source {
			return fault.Wrap(fault.Conflict, errors.Join(ErrPlan, err), "%s is missing or is reached through a link", m.Source)
		}
	}
	return nil
}

// With returns env with defaults added for names it does not set.
func With(env []string, defaults ...string) []string {
	have := map[string]bool{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		have[name] = true
	}
	all := slices.Clone(env)
	for _, kv := range defaults {
		if name, _, _ := strings.Cut(kv, "="); !have[name] {
			all = append(all, kv)
		}
	}
	return all
}

// Start starts a rendered command and closes the descriptors that were only
// for it.
func Start(c *exec.Cmd) error {
	err := c.Start()
	for _, f := range c.ExtraFiles {
		err = errors.Join(err, f.Close())
	}
	c.ExtraFiles = nil
	return err
}

// HostProcess is the advice of every renderer that cannot work here.
const HostProcess = "Or run agents without a sandbox, on your own account: lazy up --host-process"

// Exists reports whether a path is there, without following a link.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
