package command_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/command"
	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDriversAreListedOnceAndFoundByName(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range drivers.Drivers() {
		if seen[d.ID()] {
			t.Errorf("two drivers are named %s", d.ID())
		}
		seen[d.ID()] = true
	}
	if d, ok := drivers.Find("mine", []string{"./agent"}); !ok || d.ID() != command.ID {
		t.Error("an agent with a command of its own is not found")
	}
	if _, ok := drivers.Find("mine", nil); ok {
		t.Error("an agent nobody knows is found")
	}
}

func TestTheSessionIsTheSameForEveryAttemptOfATurn(t *testing.T) {
	a, b := command.Session(agent.Launch{Turn: "t1"}), command.Session(agent.Launch{Turn: "t1"})
	if a != b || len(a) != 36 || a == command.Session(agent.Launch{Turn: "t2"}) {
		t.Errorf("sessions %q %q", a, b)
	}
	if got := command.Session(agent.Launch{Turn: "t2", Session: a}); got != a {
		t.Errorf("a resumed session became %q", got)
	}
}

func TestACommandWithoutArgvIsRefusedWithAdvice(t *testing.T) {
	for _, argv := range [][]string{nil, {}, {" "}} {
		_, err := command.Driver{}.Plan(agent.Launch{Argv: argv})
		if f := fault.Of(err); f.Kind != fault.Invalid || len(f.Next) == 0 {
			t.Errorf("%q: %v", argv, err)
		}
	}
	p, err := command.Driver{}.Plan(agent.Launch{Argv: []string{"x", "y"}, Prompt: "do", Followup: "uncommitted"})
	if err != nil || p.Stdin != "do" || strings.Join(p.Argv, " ") != "x y" || strings.Join(p.Env, " ") != "LAZY_FOLLOWUP=uncommitted" {
		t.Errorf("plan %+v, %v", p, err)
	}
}

func TestTheLastParagraphIsTheMessage(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"one":                            "one",
		"noise\n\n two\nthree\n\n":       "two\nthree",
		"a\r\n\r\nb\r\n":                 "b",
		"x\n\ncolour \x1b[31mred":        `colour \u001b[31mred`,
		strings.Repeat("l\n", 100):       strings.TrimSpace(strings.Repeat("l\n", 40)),
		strings.Repeat("é", 9000) + "\n": strings.Repeat("é", 8000),
	} {
		r := command.Driver{}.Reader(agent.Launch{Turn: "t"})
		for line := range strings.SplitSeq(strings.TrimSuffix(in, "\n"), "\n") {
			for _, e := range r.Line([]byte(line)) {
				if e.Step {
					t.Error("a line of output counts as a step")
				}
			}
		}
		e := r.End()
		if len(e) != 1 || e[0].Text != want || e[0].Session == "" {
			t.Errorf("%.40q: %+v", in, e)
		}
	}
}

func TestOnlyTheExitCodeDecidesAndNothingIsGuessedFatal(t *testing.T) {
	req.Covers(t, "FC-001", "CR-002")
	if f := (command.Driver{}).Classify(agent.End{Code: 0, Tail: "Invalid API key"}); f != nil {
		t.Errorf("a normal end: %+v", f)
	}
	for code, reason := range map[int]string{
		1: "exit code 1", 137: "OOM killed or SIGKILL (exit code 137)", 143: "terminated by SIGTERM (exit code 143)",
		127: "the command was not found (exit code 127)", 129: "ended by signal 1 (exit code 129)", -1: "gone without an exit code",
	} {
		f := command.Driver{}.Classify(agent.End{Code: code, Tail: "first\nInvalid API key · Please run /login\n"})
		if f == nil || f.Class != turn.Unknown || f.Reason != reason+": Invalid API key · Please run /login" {
			t.Errorf("%d: %+v", code, f)
		}
		if runner.Reason(code) != reason {
			t.Errorf("%d in words: %q", code, runner.Reason(code))
		}
	}
}
