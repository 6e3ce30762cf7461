package enginetest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/statemachines"
)

// Shipped returns the text of a shipped definition.
func Shipped(t testing.TB, name string) []byte {
	t.Helper()
	src, err := statemachines.Source(name)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func shipped() []Case {
	return append(turns(), append(recoveries(), accepts()...)...)
}

const soon = 200 * time.Millisecond

// clean answers the tokens of a turn the way a healthy run does.
func clean(over Script) Script {
	s := Script{
		"launch.v1": {{Answers: []Answer{{After: soon, Out: `{}`}}}},
		"run.v1":    {{Answers: []Answer{{After: soon, Beat: true}, {After: soon, Out: `{}`}}}},
		"decide.v1": verdicts("park"),
	}
	maps.Copy(s, over)
	return s
}

func broken() []Reply { return []Reply{{Err: fault.New(fault.Failed, "broken")}} }

// handedOver checks what the step that hands a turn to recovery was told.
func handedOver(step, name string) func(t *testing.T, cs []Call) {
	return func(t *testing.T, cs []Call) {
		t.Helper()
		i := slices.IndexFunc(cs, func(c Call) bool { return c.Step == step })
		if i < 0 || cs[i].Error != name {
			t.Errorf("%s was not told of %s: %v", step, name, cs)
		}
	}
}

func turns() []Case {
	out := []Case{{
		Name: "turn without failures", Flow: "turn", Covers: []string{"SY-030", "SY-024"},
		Script:  clean(nil),
		Visited: "Prepare Launch Run Record Decide Decided Done",
		Output:  strings.TrimSuffix(Input, "}") + `,"decide":{"out":{"verdict":"park","seconds":1}}}`,
		Check: func(t *testing.T, _ []Call) {
			// One transition for each state entered and one for the end.
			if n := len(strings.Fields("Prepare Launch Run Record Decide Decided Done")) + 1; n > 8 {
				t.Errorf("%d transitions, more than 8", n)
			}
		},
	}, {
		Name: "turn with a prepare that is unavailable at first", Flow: "turn",
		Script:  clean(Script{"prepare.v1": {{Err: unavailable()}, {}}}),
		Visited: "Prepare Launch Run Record Decide Decided Done",
	}, {
		Name: "turn that waits twice between two runs", Flow: "turn", Covers: []string{"SY-038"},
		Script: clean(Script{"decide.v1": verdicts("wait", "park"), "renew.v1": verdicts("wait", "go")}),
		Visited: "Prepare Launch Run Record Decide Decided WaitRetry Renew Decided WaitRetry Renew Decided " +
			"Launch Run Record Decide Decided Done",
	}, {
		Name: "turn that is ended by a person while it waits", Flow: "turn",
		Script:  clean(Script{"decide.v1": verdicts("wait"), "renew.v1": verdicts("history")}),
		Visited: "Prepare Launch Run Record Decide Decided WaitRetry Renew Decided Done",
	}, {
		Name: "turn whose runner stops", Flow: "turn",
		Script:  clean(Script{"run.v1": {{Answers: []Answer{{After: soon, Error: "Lazy.stopped", Cause: "exit 137"}}}}}),
		Visited: "Prepare Launch Run HandOver Ended", Check: handedOver("handover.v1", "Lazy.stopped"),
	}, {
		Name: "turn whose runner falls silent", Flow: "turn", Slow: true,
		Script:  clean(Script{"run.v1": {{Answers: []Answer{{After: 50 * time.Second, Beat: true}}}}}),
		Visited: "Prepare Launch Run HandOver Ended", Check: handedOver("handover.v1", Missed),
	}, {
		Name: "turn whose container takes three minutes", Flow: "turn", Slow: true, Covers: []string{"SY-030"},
		Script:  clean(Script{"launch.v1": {{Answers: []Answer{{After: 3 * time.Minute, Out: `{}`}}}}}),
		Visited: "Prepare Launch Run Record Decide Decided Done",
	}, {
		Name: "turn whose runner never says hello", Flow: "turn", Slow: true,
		Script:  clean(Script{"launch.v1": {{}}}),
		Visited: "Prepare Launch HandOver Ended", Check: handedOver("handover.v1", "States.Timeout"),
	}, {
		Name: "turn that outlives its maximum age", Flow: "turn", Slow: true,
		Script:  clean(Script{"run.v1": {{Answers: slices.Repeat([]Answer{{After: 30 * time.Second, Beat: true}}, 2*60*7)}}}),
		Visited: "Prepare Launch Run HandOver Ended", Check: handedOver("handover.v1", "States.Timeout"),
	}, {
		Name: "turn whose hand-over fails", Flow: "turn",
		Script: clean(Script{"prepare.v1": broken(), "handover.v1": broken()}),
		State:  engine.Failed, Error: "Lazy.failed", Visited: "Prepare HandOver",
	}}
	for _, c := range []struct{ step, visited string }{
		{"prepare.v1", "Prepare"},
		{"launch.v1", "Prepare Launch"},
		{"run.v1", "Prepare Launch Run"},
		{"record.v1", "Prepare Launch Run Record"},
		{"decide.v1", "Prepare Launch Run Record Decide"},
	} {
		out = append(out, Case{
			Name: "turn with a fault in " + c.step, Flow: "turn", Covers: []string{"SY-030"},
			Script:  clean(Script{c.step: broken()}),
			Visited: c.visited + " HandOver Ended", Check: handedOver("handover.v1", "Lazy.failed"),
		})
	}
	return out
}

func verdicts(vs ...string) []Reply {
	var out []Reply
	for _, v := range vs {
		out = append(out, Reply{Out: `{"verdict":"` + v + `","seconds":1}`})
	}
	return out
}

func crash(resume bool) []Reply {
	b, err := json.Marshal(map[string]any{"resume": resume, "seconds": 1})
	if err != nil {
		return nil
	}
	return []Reply{{Out: string(b)}}
}

func recoveries() []Case {
	out := []Case{{
		Name: "recovery of what is stale", Flow: "recovery",
		Script:  Script{"confirm.v1": verdicts("stale")},
		Visited: "Confirm Confirmed Done",
	}, {
		Name: "recovery waits for age and for the predecessor to be gone", Flow: "recovery",
		Script:  Script{"confirm.v1": verdicts("wait", "alive", "alive", "gone"), "crash.v1": crash(true)},
		Visited: "Confirm Confirmed WaitAge Confirm Confirmed StopPredecessor WaitGone Confirm Confirmed StopPredecessor WaitGone Confirm Confirmed Crash Crashed WaitResume Resume Done",
	}, {
		Name: "recovery that does not resume", Flow: "recovery",
		Script:  Script{"confirm.v1": verdicts("gone"), "crash.v1": crash(false)},
		Visited: "Confirm Confirmed Crash Crashed Done",
	}, {
		Name: "recovery that finds a response", Flow: "recovery",
		Script:  Script{"confirm.v1": verdicts("settled")},
		Visited: "Confirm Confirmed Record Decide Done",
	}, {
		Name: "recovery with a verdict nobody knows", Flow: "recovery",
		Script: Script{"confirm.v1": verdicts("maybe")},
		State:  engine.Failed, Error: "RecoveryFailed", Visited: "Confirm Confirmed RecoveryFailed",
	}, {
		Name: "recovery whose store is away for a moment", Flow: "recovery",
		Script: Script{
			"confirm.v1": append([]Reply{{Err: unavailable()}}, verdicts("gone")...),
			"crash.v1":   crash(true),
			"resume.v1":  {{Err: unavailable()}, {}},
		},
		Visited: "Confirm Confirmed Crash Crashed WaitResume Resume Done",
	}}
	for _, c := range []struct{ step, verdict, visited string }{
		{"confirm.v1", "gone", "Confirm"},
		{"stop.v1", "alive", "Confirm Confirmed StopPredecessor"},
		{"record.v1", "settled", "Confirm Confirmed Record"},
		{"decide.v1", "settled", "Confirm Confirmed Record Decide"},
		{"crash.v1", "gone", "Confirm Confirmed Crash"},
		{"resume.v1", "gone", "Confirm Confirmed Crash Crashed WaitResume Resume"},
	} {
		s := Script{"confirm.v1": verdicts(c.verdict), "crash.v1": crash(true)}
		s[c.step] = broken()
		out = append(out, Case{
			Name: "recovery with a fault in " + c.step, Flow: "recovery", Script: s,
			State: engine.Failed, Error: "RecoveryFailed", Visited: c.visited + " RecoveryFailed",
		})
	}
	return out
}

// landing answers the plan of an accept that merges where the step runs.
func landing(over Script) Script {
	s := Script{"intent.v2": verdicts("land")}
	maps.Copy(s, over)
	return s
}

// brokered are accepts whose merge a one-shot broker makes.
func brokered() []Case {
	told := func(as ...Answer) Script {
		return Script{"intent.v2": verdicts("broker"), "broker.v1": {{Answers: as}}}
	}
	return []Case{{
		Name: "accept by a broker", Flow: "accept",
		Script:  told(Answer{After: soon, Beat: true}, Answer{After: soon, Out: `{}`}),
		Visited: "Describe Intent Where Broker Complete CleanUp Done",
	}, {
		Name: "accept whose broker cannot be launched at first", Flow: "accept",
		Script: Script{
			"intent.v2": verdicts("broker"),
			"broker.v1": {{Err: unavailable()}, {Answers: []Answer{{After: soon, Out: `{}`}}}},
		},
		Visited: "Describe Intent Where Broker Complete CleanUp Done",
	}, {
		Name: "accept whose broker finds a conflict", Flow: "accept",
		Script:  told(Answer{After: soon, Error: "Lazy.conflict", Cause: "both changed a.txt"}),
		Visited: "Describe Intent Where Broker Abort Aborted", Check: handedOver("abort.v1", "Lazy.conflict"),
	}, {
		Name: "accept whose broker stops", Flow: "accept",
		Script: told(Answer{After: soon, Error: "Lazy.RunnerGone", Cause: "exit 137"}),
		State:  engine.Failed, Error: "AcceptFailed", Visited: "Describe Intent Where Broker AcceptFailed Ended",
		Check: handedOver("acceptfailed.v1", "Lazy.RunnerGone"),
	}, {
		Name: "accept whose broker takes three minutes to start", Flow: "accept", Slow: true,
		Script:  told(Answer{After: 3 * time.Minute, Beat: true}, Answer{After: soon, Out: `{}`}),
		Visited: "Describe Intent Where Broker Complete CleanUp Done",
	}, {
		Name: "accept whose broker falls silent", Flow: "accept", Slow: true,
		Script: told(Answer{After: soon, Beat: true}),
		State:  engine.Failed, Error: "AcceptFailed", Visited: "Describe Intent Where Broker AcceptFailed Ended",
		Check: handedOver("acceptfailed.v1", Missed),
	}}
}

func accepts() []Case {
	internal := []Reply{{Err: fault.New(fault.Internal, "odd")}}
	out := []Case{{
		Name: "accept without failures", Flow: "accept", Script: landing(nil),
		Visited: "Describe Intent Where Land Complete CleanUp Done",
	}, {
		Name: "accept whose clean-up fails still stands", Flow: "accept",
		Script:  landing(Script{"cleanup.v1": broken()}),
		Visited: "Describe Intent Where Land Complete CleanUp Done",
	}, {
		Name: "accept whose completion fails", Flow: "accept",
		Script: landing(Script{"complete.v1": broken()}),
		State:  engine.Failed, Error: "AcceptFailed", Visited: "Describe Intent Where Land Complete AcceptFailed Ended",
		Check: handedOver("acceptfailed.v1", "Lazy.failed"),
	}, {
		Name: "accept whose abort fails", Flow: "accept",
		Script: landing(Script{"land.v1": broken(), "abort.v1": internal}),
		State:  engine.Failed, Error: "AcceptFailed", Visited: "Describe Intent Where Land Abort AcceptFailed Ended",
		Check: handedOver("acceptfailed.v1", "Lazy.internal"),
	}, {
		Name: "accept that cannot even record its failure", Flow: "accept",
		Script: landing(Script{"land.v1": internal, "acceptfailed.v1": internal}),
		State:  engine.Failed, Error: "AcceptFailed", Visited: "Describe Intent Where Land AcceptFailed Ended",
	}, {
		Name: "accept that lands at the second try", Flow: "accept",
		Script:  landing(Script{"land.v1": {{Err: unavailable()}, {}}}),
		Visited: "Describe Intent Where Land Complete CleanUp Done",
	}}
	out = append(out, brokered()...)
	for _, c := range []struct{ step, visited string }{
		{"describe.v1", "Describe"},
		{"intent.v2", "Describe Intent"},
		{"land.v1", "Describe Intent Where Land"},
	} {
		out = append(out, Case{
			Name: "accept with a fault in " + c.step, Flow: "accept", Script: landing(Script{c.step: internal}),
			State: engine.Failed, Error: "AcceptFailed", Visited: c.visited + " AcceptFailed Ended",
			Check: handedOver("acceptfailed.v1", "Lazy.internal"),
		})
		for _, kind := range []fault.Kind{fault.Conflict, fault.Failed, fault.Denied, fault.Invalid, fault.NotFound} {
			out = append(out, Case{
				Name: "accept refused by " + c.step + " as " + string(kind), Flow: "accept",
				Script:  landing(Script{c.step: {{Err: fault.New(kind, "no")}}}),
				Visited: c.visited + " Abort Aborted", Check: handedOver("abort.v1", "Lazy."+string(kind)),
			})
		}
	}
	return out
}
