// Package claude drives Claude Code (the command claude) as it is: one process
// per attempt, events as JSON lines, its conversation kept below the directory it
// is given.
package claude

import (
	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/wording"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// ID is the name of this driver in a project's configuration.
const ID = "claude-code"

// Driver implements agent.Driver for Claude Code.
type Driver struct{}

var _ agent.Installed = Driver{}

// ID returns "claude-code".
func (Driver) ID() string { return ID }

// Provider returns "claude" for every model.
func (Driver) Provider(string) string { return "claude" }

// Install says how it is found: the npm package's command is a script, and the
// program lies in the package of the platform.
func (Driver) Install() agent.Install {
	return agent.Install{
		Program: "claude", Package: "@anthropic-ai/claude-code-%s", Native: "claude",
		Get: "npm install -g @anthropic-ai/claude-code", Site: "https://code.claude.com/docs",
	}
}

// Versions are those whose recorded output the tests read.
func (Driver) Versions() (oldest, newest string) { return "2.1.58", "2.1.328" }

// Keep names the conversations. Everything else below the directory is ours or a
// cache.
func (Driver) Keep() []string { return []string{dir + "/projects"} }

// Holds names the one transcript.
func (Driver) Holds(session string) (own, made []string) {
	return []string{dir + "/projects/*/" + session + ".jsonl"}, nil
}

// Knows accepts what Claude Code names its conversations by.
func (Driver) Knows(session string) bool { return wording.UUID(session) }

// A transcript of which no line can be read is none to it, one that cannot be read
// at all fails its resume.
var lost = pattern.New(`(?i)no conversation found with session id|--resume requires a valid session id|failed to resume session`)

// Lost goes by its words: it says nothing else about it.
func (Driver) Lost(e agent.End) string { return wording.Found(lost, e) }

// Guards returns true: its plan mode refuses what writes.
func (Driver) Guards() bool { return true }

// Classify sorts the end of a run.
func (Driver) Classify(e agent.End) *turn.Failure { return wording.Classify(e) }
