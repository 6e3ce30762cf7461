// Package agentcli is the program under its second name, lazy-agent: what runs
// beside and inside a sandbox. People do not call it; the system and agents do.
package agentcli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// Program is one build of lazy-agent.
type Program struct {
	Version   string
	Revision  string
	Bin       string               // path of this program; "" asks the system
	Catalogue func() *op.Catalogue // built only where it is used: most modes start often and need none
	Find      func(id string, argv []string) (agent.Driver, bool)
	Now       func() time.Time
	NewID     func() string
	Crash     func(point string) // told of points at which a death is interesting
	// After is the clock of a supervisor's waits for its agent; nil is this machine's.
	After func(ctx context.Context, what string, d time.Duration) <-chan struct{}
	Beat  time.Duration // between two beats of a supervisor; 0 is what the control plane expects
}

// Stdio are the streams of a process.
type Stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// mode is one way to run the program.
type mode struct {
	name string
	doc  string
	run  func(p Program, ctx context.Context, args []string, getenv func(string) string, s Stdio) error
}

func modes() []mode {
	return []mode{
		{"supervise", "run one turn from its protocol directory (the default)", Program.supervise},
		{"exec", "be the first process inside a sandbox", Program.exec},
		{"install", "put this program where another container can start it", Program.install},
		{"mcp", "serve the task's tools over stdio", Program.mcp},
		{"call", "call one of the task's tools and print its result", Program.call},
		{"pair", "hand a terminal to the agent's interactive program", Program.pair},
		{"broker", "carry out the merge of an accept", Program.broker},
		{"selfcheck", "prove that this program runs here", Program.selfcheck},
	}
}

// Main runs the program and returns its exit code. argv excludes the program's
// name.
func (p Program) Main(ctx context.Context, argv []string, getenv func(string) string, s Stdio) int {
	err := p.dispatch(ctx, argv, getenv, s)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		return 0
	}
	f := fault.Of(err)
	if f.Kind == fault.Internal && f.Err != nil {
		fmt.Fprintln(s.Err, "lazy-agent:", f.Err)
		return fault.Exit(err)
	}
	fmt.Fprintln(s.Err, f.Public)
	for _, n := range f.Next {
		if n.For == "" || n.For == "agent" || n.For == "mcp" {
			fmt.Fprintln(s.Err, n.Text)
		}
	}
	return fault.Exit(err)
}

func (p Program) dispatch(ctx context.Context, argv []string, getenv func(string) string, s Stdio) error {
	name := "supervise"
	if len(argv) > 0 && !strings.HasPrefix(argv[0], "-") {
		name, argv = argv[0], argv[1:]
	} else if len(argv) > 0 {
		switch argv[0] {
		case "--version", "-version":
			return p.selfcheck(ctx, nil, getenv, s)
		case "--revision", "-revision":
			return p.sayRevision(s)
		case "--help", "-h", "-help":
			name = "help"
		}
	}
	if name == "help" || len(argv) == 0 && name == "supervise" {
		return usage(s.Out)
	}
	for _, m := range modes() {
		if m.name == name {
			return m.run(p, ctx, argv, getenv, s)
		}
	}
	return fault.New(fault.Invalid, "lazy-agent has no mode %q", name).WithNext("Run `lazy-agent --help`.")
}

func usage(w io.Writer) error {
	var b strings.Builder
	b.WriteString("lazy-agent runs agents and serves them their tools. It is started by lazy and by agents.\n\n")
	for _, m := range modes() {
		fmt.Fprintf(&b, "  lazy-agent %-10s %s\n", m.name, m.doc)
	}
	b.WriteString("\n  lazy-agent --version | --revision\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// selfcheck prints the sentinel by which a launcher knows that the program runs
// where it looked (AG-012, WF-11).
func (p Program) selfcheck(_ context.Context, _ []string, _ func(string) string, s Stdio) error {
	_, err := fmt.Fprintln(s.Out, p.sentinel())
	return err
}

func (p Program) sentinel() string { return names.Sentinel + " " + p.Version }

func (p Program) sayRevision(s Stdio) error {
	_, err := fmt.Fprintf(s.Out, "%s\nrevision %s\n", p.sentinel(), p.Revision)
	return err
}

// pair is refused: no terminal relay exists in this build.
func (p Program) pair(context.Context, []string, func(string) string, Stdio) error {
	return fault.New(fault.Denied, "pairing is not available in version %s of lazy-agent", p.Version).
		WithNext("Give the agent its instructions with `lazy unblock`.")
}

// flags returns a flag set that reports misuse as a fault.
func flags(name string, s Stdio) *flag.FlagSet {
	f := flag.NewFlagSet("lazy-agent "+name, flag.ContinueOnError)
	f.SetOutput(s.Err)
	return f
}

// parse takes the arguments; anything left over, unless rest allows it, is misuse.
func parse(f *flag.FlagSet, args []string, rest bool) error {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fault.Wrap(fault.Invalid, err, "%s: %v", f.Name(), err)
	}
	if !rest && f.NArg() > 0 {
		return fault.New(fault.Invalid, "%s: unexpected argument %q", f.Name(), f.Arg(0))
	}
	return nil
}

func logger(getenv func(string) string, s Stdio) *slog.Logger {
	level := slog.LevelInfo
	if getenv(names.EnvDebug) != "" {
		level = slog.LevelDebug
	}
	return telemetry.New(s.Err, telemetry.Options{Level: level})
}

func (p Program) self() (string, error) {
	if p.Bin != "" {
		return p.Bin, nil
	}
	bin, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return bin, nil
}
