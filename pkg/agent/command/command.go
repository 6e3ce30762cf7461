// Package command drives any program as an agent: the prompt is on its stdin and
// in a file, its tools are `lazy-agent call`, its last lines are its message, and
// its exit code is all it says about a failure.
package command

import (
	"strings"

	"github.com/google/uuid"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// ID is the name of this driver in a project's configuration.
const ID = "command"

// Driver implements agent.Driver for a configured command.
type Driver struct{}

var _ agent.Driver = Driver{}

// EnvFollowup tells a command why it runs once more in the same turn.
const EnvFollowup = "LAZY_FOLLOWUP"

// The message kept of an output: its last lines, bounded.
const (
	messageLines = 40
	messageChars = 8_000
)

// ID returns "command".
func (Driver) ID() string { return ID }

// Provider returns "": what a command calls is its own affair.
func (Driver) Provider(string) string { return "" }

// Plan starts the configured argv, with the prompt on its stdin.
func (Driver) Plan(l agent.Launch) (agent.Plan, error) {
	if len(l.Argv) == 0 || strings.TrimSpace(l.Argv[0]) == "" {
		return agent.Plan{}, fault.New(fault.Invalid, "the agent %q has no command to run", ID).
			WithNext("Set command = [\"program\", …] under [agents.command] in lazy.toml.")
	}
	p := agent.Plan{Argv: l.Argv, Stdin: l.Prompt}
	if l.Followup != "" {
		p.Env = append(p.Env, EnvFollowup+"="+l.Followup)
	}
	return p, nil
}

// Reader keeps the last lines. A command has no conversation of its own, so the
// session it resumes, or else one named after its turn, stands for it.
func (Driver) Reader(l agent.Launch) agent.Reader { return &reader{session: Session(l)} }

// Session returns the session of a launch: the one it resumes, or a new one that
// every attempt of the same turn names alike.
func Session(l agent.Launch) string {
	if l.Session != "" {
		return l.Session
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("lazy command session "+string(l.Turn))).String()
}

type reader struct {
	session string
	lines   []string
}

// Line keeps a line if it says something.
func (r *reader) Line(line []byte) []agent.Event {
	s := strings.TrimRight(string(line), "\r")
	if len(r.lines) == messageLines {
		r.lines = append(r.lines[:0], r.lines[1:]...)
	}
	r.lines = append(r.lines, s)
	return nil
}

// End makes the last paragraph the message: what follows the last empty line, or
// all that was kept.
func (r *reader) End() []agent.Event {
	msg := strings.TrimSpace(strings.Join(r.lines, "\n"))
	if i := strings.LastIndex(msg, "\n\n"); i >= 0 {
		msg = strings.TrimSpace(msg[i:])
	}
	if n := len([]rune(msg)); n > messageChars {
		msg = string([]rune(msg)[n-messageChars:])
	}
	msg, _ = text.Escape(msg)
	return []agent.Event{{Session: r.session, Text: msg}}
}

// Classify knows exit codes only: anything but 0 is unknown, never guessed fatal
// (FC-001).
func (Driver) Classify(e agent.End) *turn.Failure {
	if e.Code == 0 {
		return nil
	}
	reason := e.Reason
	if reason == "" {
		reason = runner.Reason(e.Code)
	}
	if tail := lastLine(e.Tail); tail != "" {
		reason += ": " + tail
	}
	return &turn.Failure{Class: turn.Unknown, Reason: reason}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	s = text.Line(s[strings.LastIndexByte(s, '\n')+1:])
	s, _ = text.Cut(s, 300)
	return s
}
