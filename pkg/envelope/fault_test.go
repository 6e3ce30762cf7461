package envelope_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// example builds a refusal with its slots filled by their own names.
func example(code refusal.Code) *fault.Error {
	args := make([]any, refusal.Slots(code))
	for i := range args {
		args[i] = fmt.Sprintf("value%d", i)
	}
	return refusal.Of(code, args...)
}

func TestEveryRefusalSurvivesTheTripWithItsExitCode(t *testing.T) {
	req.Covers(t, "RP-004", "RP-011")
	for _, row := range refusal.Rows() {
		want := example(row.Code)
		r := envelope.Refuse(want, envelope.To("rpc", identity.Owner), "r1")
		if r.Status != fault.HTTP(want) {
			t.Errorf("%s: status %d, want %d", row.Code, r.Status, fault.HTTP(want))
		}
		got := r.Fault()
		if got == nil || got.Code != want.Code || got.Kind != want.Kind || got.Public != want.Public || fault.Exit(got) != fault.Exit(want) {
			t.Errorf("%s came back as %+v", row.Code, got)
		}
	}
	for _, k := range fault.Kinds() {
		got := envelope.Refuse(fault.New(k, "x"), nil, "r1").Fault()
		if got.Kind != k {
			t.Errorf("kind %s came back as %s", k, got.Kind)
		}
	}
}

func TestUnknownErrorsSayNothingOfTheirCause(t *testing.T) {
	r := envelope.Refuse(errors.New("open /home/ada/.lazy/key: secret lzy_owner_x"), envelope.To("rpc", identity.Owner), "r-17")
	if r.Status != 500 || string(r.Body) != `{"error":{"code":"internal","message":"internal error","next":[],"details":{"request":"r-17"}}}` {
		t.Errorf("got %d %s", r.Status, r.Body)
	}
	wrapped := fault.Wrap(fault.Unavailable, errors.New("dial 10.0.0.7"), "the store is away")
	if r := envelope.Refuse(wrapped, nil, "r"); strings.Contains(string(r.Body), "10.0.0.7") {
		t.Errorf("the cause leaked: %s", r.Body)
	}
}

func TestFaultReadsTheOtherFormsOfAnError(t *testing.T) {
	for name, c := range map[string]struct {
		reply envelope.Reply
		code  string
		exit  int
	}{
		"rejection of a tool route": {envelope.Reply{Status: 400, Body: json.RawMessage(`{"error":"message: expected a value, got nothing","fields":[{"path":"message","problem":"x"}]}`)}, "invalid_arguments", 2},
		"refused tool result":       {envelope.Reply{Status: 409, Body: json.RawMessage(`{"content":[],"structuredContent":{"error":{"code":"accept_check_failed","message":"m","next":[],"details":{}}},"isError":true}`)}, "accept_check_failed", 1},
		"a proxy's page":            {envelope.Reply{Status: 503, Body: json.RawMessage(`<html>gone</html>`)}, "unavailable", 1},
		"plain text":                {envelope.Reply{Status: 403, Body: json.RawMessage("Forbidden: invalid Host header")}, "denied", 2},
		"nothing":                   {envelope.Reply{Status: 401}, "unauthenticated", 4},
	} {
		f := c.reply.Fault()
		if f == nil || f.Code != c.code || fault.Exit(f) != c.exit || f.Public == "" {
			t.Errorf("%s: got %+v", name, f)
		}
	}
	if f := (envelope.Reply{Status: 202}).Fault(); f != nil {
		t.Errorf("a success became %v", f)
	}
}

// shell finds a command line of lazy's in a text.
var shell = regexp.MustCompile("(`|[Rr]un )lazy [a-z]")

// people are the texts that name a command and say that a person runs it, and
// those that no tool can answer.
func people() map[refusal.Code]string {
	return map[refusal.Code]string{
		refusal.ParentBranchPR: "says that only a person asks for it",
		refusal.LocalOnly:      "answers commands of /rpc, which no tool has",
	}
}

func TestNoAgentIsEverHandedAShellCommand(t *testing.T) {
	req.Covers(t, "OT-030")
	for _, row := range refusal.Rows() {
		if row.CLIOnly || people()[row.Code] != "" {
			continue
		}
		for _, k := range []identity.Kind{identity.Task, identity.Builder, ""} {
			_, e := envelope.Render(example(row.Code), envelope.To("mcp", k), "")
			if shell.MatchString(e.Text()) {
				t.Errorf("%s tells a %s to run a command: %q", row.Code, k, e.Text())
			}
		}
	}
}

func TestAdviceIsForTheReaderAlone(t *testing.T) {
	req.Covers(t, "OT-030")
	next := []fault.Next{
		{Text: "all"},
		{For: "cli", Text: "cli"},
		{For: "web", Text: "web"},
		{For: "mcp", Text: "mcp"},
		{For: "person", Text: "person"},
		{For: "builder", Text: "builder"},
		{For: "agent", Text: "agent"},
		{For: "operator", Text: "operator"},
	}
	for _, c := range []struct {
		surface string
		kind    identity.Kind
		want    []string
	}{
		{"rpc", identity.Owner, []string{"all", "cli", "person"}},
		{"rpc", identity.User, []string{"all", "cli", "person"}},
		{"rpc", "", []string{"all", "cli", "person"}},
		{"rpc", identity.Operator, []string{"all", "cli", "operator"}},
		{"mcp", identity.Builder, []string{"all", "mcp", "builder"}},
		{"mcp", identity.Task, []string{"all", "mcp", "agent"}},
		{"mcp", "", []string{"all", "mcp"}},
		{"runner", identity.Runner, []string{"all"}},
		{"web", identity.Session, []string{"all", "web", "person"}},
	} {
		if got := envelope.To(c.surface, c.kind).Advice(next); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: got %v, want %v", c.surface, c.kind, got, c.want)
		}
	}
}
