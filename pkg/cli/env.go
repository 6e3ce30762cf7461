// Package cli is what people type: one file per command, each a thin form of an
// operation of the catalogue. A command may touch nothing but its Env, so every
// one of them runs inside a test. Results go to stdout and everything said
// about the work to stderr or, for the verbs that narrate, beside the result.
package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/login"
)

// Env is everything a command may touch.
type Env struct {
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	Getenv  func(string) string
	Environ func() []string
	Now     func() time.Time
	Dir     string // working directory
	TempDir string
	Self    string // path of the running program
	Version string
	Build   Build

	// TTY reports whether one of In, Out, Err is a person's terminal, and Piped
	// whether In is a pipe or a file, whose end will come.
	TTY   func(stream any) bool
	Piped func() bool
	Width func() int

	// Masked prints a question on the person's terminal and reads a line that is not
	// shown. It fails when the terminal is gone or the person interrupts.
	Masked func(question string) (string, error)

	// Exec runs a program in the foreground, on the person's terminal.
	Exec func(ctx context.Context, argv []string) error
	// Session runs a program in the foreground with an environment of its own, and
	// leaves what the terminal sends to it.
	Session func(ctx context.Context, argv, env []string) error
	// Output runs a program in dir and returns what it printed. Its error carries
	// what the program said about it.
	Output func(ctx context.Context, dir string, argv ...string) (string, error)
	// LookPath finds a program.
	LookPath func(name string) (string, error)
	// Detach starts a program in a session of its own, its output in log.
	Detach func(argv, env []string, dir, log string) error
	// Alive reports whether a process of this machine still runs.
	Alive func(pid int) bool
	// Keys is the person's keychain; nil where there is none.
	Keys login.Keys
	// Own runs an operation about this machine's own model credentials where there is
	// no project; nil where nothing keeps any.
	Own func(ctx context.Context, home, command string, in any) (json.RawMessage, error)
	// Transport reaches control planes elsewhere; nil is the usual one.
	Transport *http.Transport
	// Lock takes a lock that ends with the process; false when another has it.
	Lock func(path string) (unlock func(), ok bool, err error)
	// Up runs the control plane in this process until ctx ends.
	Up func(ctx context.Context, o UpOptions) error
	// Emulate runs the hosted stack on this machine until ctx ends.
	Emulate func(ctx context.Context, o EmulateOptions) error
	// Protect reports what keeps agents in their place on this machine; nil reports
	// nothing.
	Protect func(ctx context.Context) []Protection
	// Probe says why agents cannot be sandboxed here; nil when they can.
	Probe func(ctx context.Context) error
	// Agents are the agent CLIs that lazy starts by itself, with what was found of
	// them on this machine; nil knows of none.
	Agents func() []AgentCLI

	json  bool
	lines *bufio.Reader
}

// Protection is one thing that contains agents, and whether it is in force.
type Protection struct {
	Name   string
	Holds  bool
	Detail string
	Remedy string
}

// AgentCLI is an agent that needs no command in lazy.toml.
type AgentCLI struct {
	ID      string
	Found   string // its command on this machine; "" when it is not installed
	Get     string // how to install it
	Service string // whose credential it spends, unless its model says otherwise
}

// Build says what the program was built from.
type Build struct {
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// UpOptions is what the control plane of one project is started with.
type UpOptions struct {
	Paths       config.Paths
	Project     config.Project
	Port        int // 0 takes the first free one of the window
	HostProcess bool
	Version     string
	// Credentials is the folder of the person's stored model credentials; "" is the
	// one of Paths.
	Credentials string
	// Ready is called once the plane answers.
	Ready func(url string)
	// Missing, when set, is told before it which agents' model service has no stored
	// credential, by agent.
	Missing func(services map[string]string)
	Model   string // that those agents are to run with; "" is their own choice
}

// EmulateOptions is what the emulated hosted stack is started with.
type EmulateOptions struct {
	Repo        string
	Dir         string // of everything the stack keeps
	HostProcess bool
	// Ready is called once the stack answers, with a person's token.
	Ready func(url, token string)
}
