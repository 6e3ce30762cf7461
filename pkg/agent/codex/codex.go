// Package codex drives OpenAI's Codex CLI (the command codex) as it is: one
// process per attempt, events as JSON lines, everything it is told in the one
// configuration file of the directory it is given.
package codex

import (
	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/wording"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// ID is the name of this driver in a project's configuration.
const ID = "codex"

// Driver implements agent.Driver for Codex.
type Driver struct{}

var _ agent.Installed = Driver{}

// ID returns "codex".
func (Driver) ID() string { return ID }

// Provider returns "codex" for every model.
func (Driver) Provider(string) string { return "codex" }

// Install says how it is found: the npm package's command is a script, and the
// program lies in the package of the platform, with the tools it brings.
func (Driver) Install() agent.Install {
	return agent.Install{
		Program: "codex", Package: "@openai/codex-%s", Native: "vendor/*/bin/codex",
		Get: "npm install -g @openai/codex", Site: "https://developers.openai.com/codex",
	}
}

// Versions are those whose recorded output the tests read.
func (Driver) Versions() (oldest, newest string) { return "0.134.0", "0.169.0" }

// Keep names the conversations. The databases beside them are made again from
// those when they are missing.
func (Driver) Keep() []string { return []string{dir + "/sessions"} }

// Knows accepts what Codex names its threads by. It takes any other name for a
// thread's title and begins a thread of its own when there is none.
func (Driver) Knows(session string) bool { return wording.UUID(session) }

// Holds names the transcript of a thread, and the databases beside it.
func (Driver) Holds(session string) (own, made []string) {
	return []string{dir + "/sessions/*/*/*/rollout-*-" + session + ".jsonl"},
		[]string{dir + "/*.sqlite", dir + "/*.sqlite-wal", dir + "/*.sqlite-shm"}
}

// Whatever keeps it from resuming comes with the name of that call; early versions
// had other words.
var lost = pattern.New(`(?i)thread/resume failed|no rollout found for|no saved session found|(thread|session|conversation) not found`)

// Lost goes by its words: it says nothing else about it.
func (Driver) Lost(e agent.End) string { return wording.Found(lost, e) }

// Guards returns false: its read-only mode needs namespaces of its own, which
// there are none of inside a sandbox.
func (Driver) Guards() bool { return false }

// Classify sorts the end of a run.
func (Driver) Classify(e agent.End) *turn.Failure { return wording.Classify(e) }
