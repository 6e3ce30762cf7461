// Package opencode drives OpenCode (the command opencode) as it is: one process
// per attempt, events as JSON lines, everything it is told in the variable whose
// configuration outranks all files.
package opencode

import (
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/wording"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// ID is the name of this driver in a project's configuration.
const ID = "opencode"

// Driver implements agent.Driver for OpenCode.
type Driver struct{}

var _ agent.Installed = Driver{}

// ID returns "opencode".
func (Driver) ID() string { return ID }

// Provider follows the model's prefix: openai/ and chat/ spend an OpenAI
// credential, everything else Anthropic's.
func (Driver) Provider(model string) string {
	if p, _ := split(model); p == providerAnthropic {
		return "claude"
	}
	return "codex"
}

// The providers of OpenCode that the gateway serves. Chat is any model of OpenAI's
// that is to be spoken with in the Chat Completions format.
const (
	providerAnthropic = "anthropic"
	providerOpenAI    = "openai"
	providerChat      = "chat"
)

// split takes a model apart. A bare name is OpenAI's when it looks like one of
// theirs.
func split(model string) (provider, name string) {
	if p, rest, ok := strings.Cut(model, "/"); ok {
		switch p {
		case providerOpenAI, providerChat, providerAnthropic:
			return p, rest
		}
	}
	for _, prefix := range []string{"gpt", "o1", "o3", "o4", "codex"} {
		if strings.HasPrefix(model, prefix) {
			return providerOpenAI, model
		}
	}
	return providerAnthropic, model
}

// Install says how it is found: the npm package's command is a script, and the
// program lies in the package of the platform.
func (Driver) Install() agent.Install {
	return agent.Install{
		Program: "opencode", Package: "opencode-%s", Native: "bin/opencode",
		Get: "npm install -g opencode-ai", Site: "https://opencode.ai/docs",
	}
}

// Versions are those whose recorded output the tests read.
func (Driver) Versions() (oldest, newest string) { return "1.18.3", "1.18.33" }

// Keep names the database of conversations, and the files of versions that had
// none.
func (Driver) Keep() []string {
	return []string{dir + "/data/opencode/opencode.db", dir + "/data/opencode/opencode.db-wal", dir + "/data/opencode/storage"}
}

// Knows accepts what OpenCode names its sessions by.
func (Driver) Knows(session string) bool { return strings.HasPrefix(session, "ses_") }

// Holds names the database, in which all conversations are.
func (Driver) Holds(string) (own, made []string) {
	db := dir + "/data/opencode/opencode.db"
	return []string{db, db + "-wal", db + "-shm"}, nil
}

// The words after the first are those of SQLite for a file that is no database or
// cannot be opened, and for one of another layout.
var lost = pattern.New(`(?i)session not found|file is not a database|database disk image is malformed|unable to open database|disk I/O error|database schema is corrupt|SQLITE_(CORRUPT|NOTADB|CANTOPEN|IOERR)|no such (table|column)`)

// Lost goes by its words: it says nothing else about it.
func (Driver) Lost(e agent.End) string { return wording.Found(lost, e) }

// Guards returns true: its plan agent has no tool that writes.
func (Driver) Guards() bool { return true }

// Classify sorts the end of a run. Some versions end with code 0 after an error
// that ended the conversation.
func (Driver) Classify(e agent.End) *turn.Failure {
	if e.Code == 0 && e.Said != nil {
		e.Code = 1
	}
	return wording.Classify(e)
}
