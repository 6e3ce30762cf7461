// Package agent is the port to agent CLIs: a driver says how one is started, what
// its output means, and what kind of failure its end was. A driver never runs
// anything itself and holds no credential; the supervisor does the rest alike for
// all of them.
package agent

import (
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Launch is what a driver knows when it plans a start.
type Launch struct {
	Turn     id.Turn
	Kind     turn.Kind
	Prompt   string
	Session  string // the agent's own conversation to resume; "" on the first turn
	Followup string // why it is run once more in the same turn; "" the first time
	ReadOnly bool
	Sealed   bool // the sandbox shows the workspace read-only
	Model    string
	Effort   string
	Argv     []string // of the project's configuration
	Tree     string   // the work tree, as seen inside
	MCP      string   // the MCP configuration, as seen inside
	Home     string   // a directory inside that is the agent's own and lasts from turn to turn
	Root     bool     // the agent will see itself as root
	Program  string   // the installed program as seen inside; "" is a name on the PATH

	Gateway string // base URL of the model gateway, as seen inside; "" when the agent has none
	Key     string // the placeholder the gateway accepts during this turn
	Tools   Server // how the lazy tools are started, for a CLI with a configuration of its own
}

// Server is a stdio MCP server.
type Server struct {
	Name    string
	Command string
	Args    []string
	Reads   []string // its read-only tools, for a CLI that wants them approved by name
}

// File is something a CLI reads, written before every launch.
type File struct {
	Path string // relative to Launch.Home
	Data []byte
	Mode uint32 // permission bits
}

// Plan is how to start an agent. Its environment comes on top of what every agent
// is given.
type Plan struct {
	Argv    []string
	Env     []string
	Stdin   string
	Program string // what has to be installed; "" is Argv[0]
	Files   []File
}

// Event is something the agent's output told.
type Event struct {
	Session string // its own name of the conversation
	Text    string // its last words so far
	Step    bool   // it finished a step: this is progress, other output is not (FC-020)
	Tool    string // the tool it called in that step
	// Usage is what the CLI itself counted, which stands in only where no gateway
	// did.
	Usage []model.Usage
	// Failure is one that the CLI named; it is forgotten when a later step
	// completes.
	Failure *turn.Failure
}

// Reader turns the output of one run into events.
type Reader interface {
	// Line takes one line of stdout, without its end.
	Line(line []byte) []Event
	// End is called once after the last line.
	End() []Event
}

// End is how a run of an agent ended.
type End struct {
	Code   int    // 128 + signal for a killed one, -1 when the sandbox went with it
	Reason string // the exit code in words
	Tail   string // the last lines of stdout and stderr
	// Model is how the last model call failed, as the gateway saw it; nil when it
	// went well or none was made. It outweighs the wording of the output.
	Model *turn.Failure
	// Said is a failure that the CLI named in its own events.
	Said *turn.Failure
}

// Install says how a CLI comes onto a person's machine.
type Install struct {
	Program string // the command people type
	// Package and Native name the npm package that holds the program itself, where
	// the command is only a script that starts it: its directory beside or below
	// the script's own package, and the program in it. %s stands for the system
	// and the processor as npm names them, * for one directory of any name.
	Package string
	Native  string
	Get     string // how to install it, for people
	Site    string // where its maker describes it
}

// Installed is a driver of a CLI that people install for themselves.
type Installed interface {
	Driver
	// Install says how the CLI is found.
	Install() Install
	// Versions are the versions it is known to work with, oldest and newest. A
	// newer one is run all the same, and events it alone knows are passed over.
	Versions() (oldest, newest string)
	// Guards reports whether the CLI itself keeps a read-only turn from writing. For
	// one that cannot, the sandbox shows the workspace read-only during that turn.
	Guards() bool
	// Knows reports whether a conversation's name can be one of this CLI's: a task
	// may have been given another CLI since.
	Knows(session string) bool
	// Lost returns the words with which a run said that the CLI has no conversation
	// of the name it was to resume, or cannot read the one it has; "" when it ended
	// for another reason. It is asked only when no step was made.
	Lost(e End) string
	// Holds names the files below Launch.Home that a conversation is in, and those
	// beside it that the CLI makes again when they are missing. Each element of a
	// path is a pattern of path.Match. Before every launch, what is there and is no
	// regular file is moved away, since a CLI waits for ever at some of it; when the
	// conversation is lost, its own files are.
	Holds(session string) (own, made []string)
	// Keep names what has to survive from turn to turn below Launch.Home, so that
	// the conversation can be resumed.
	Keep() []string
}

// Driver knows one agent CLI.
type Driver interface {
	// ID is the name it is configured under.
	ID() string
	// Provider names the model.Provider whose credential the agent spends with
	// that model; "" when it needs none of ours.
	Provider(model string) string
	// Plan says how to start it; a launch that cannot work is refused here.
	Plan(l Launch) (Plan, error)
	// Reader reads the output of one run of l.
	Reader(l Launch) Reader
	// Classify sorts the end of a run; nil means that it ended normally.
	Classify(e End) *turn.Failure
}
