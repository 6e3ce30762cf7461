package asl_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/statemachines"
)

func load(t *testing.T, name string) *asl.Machine {
	t.Helper()
	src, err := statemachines.Source(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := asl.Load(name, src, map[string]string{"StepFunction": "steps"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sound is a definition that loads; each case edits one thing in it, so that no
// case can pass for want of anything else.
const sound = `{
 "StartAt": "A",
 "States": {
  "A": {"Type":"Task","Resource":"arn:aws:states:::lambda:invoke",
   "Parameters":{"FunctionName":"f","Payload":{"step":"a.v1","x.$":"$.x"}},
   "TimeoutSeconds":10,"ResultPath":"$.a","ResultSelector":{"out.$":"$.Payload"},
   "Retry":[{"ErrorEquals":["Lazy.unavailable"],"IntervalSeconds":1,"MaxAttempts":2,"BackoffRate":1.5,"MaxDelaySeconds":9}],
   "Catch":[{"ErrorEquals":["States.ALL"],"ResultPath":"$.error","Next":"F"}],"Next":"T"},
  "T": {"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken",
   "Parameters":{"FunctionName":"f","Payload":{"step":"t.v1","token.$":"$$.Task.Token"}},
   "TimeoutSeconds":10,"HeartbeatSeconds":5,"ResultPath":null,"Next":"C"},
  "C": {"Type":"Choice","Choices":[{"And":[{"Variable":"$.x","NumericEquals":1},{"Not":{"Variable":"$.y","IsPresent":true}}],"Next":"W"}],"Default":"P"},
  "W": {"Type":"Wait","Seconds":1,"Next":"P"},
  "P": {"Type":"Pass","Result":{"z":1},"ResultPath":"$.p","Next":"S"},
  "S": {"Type":"Succeed"},
  "F": {"Type":"Fail","Error":"Lost","Cause":"why"}
 }
}`

// edit is a change of sound that leaves the subset, and the path an error names.
type edit struct{ name, old, new, path string }

func edits() []edit {
	return []edit{
		{"field of the machine", `"StartAt": "A"`, `"StartAt":"A","QueryLanguage":"JSONPath"`, "QueryLanguage"},
		{"version of the language", `"StartAt": "A"`, `"StartAt":"A","Version":"1.0"`, "Version"},
		{"field of a state", `"Seconds":1`, `"Seconds":1,"OutputPath":"$"`, "States.W.OutputPath"},
		{"input path", `"Seconds":1`, `"Seconds":1,"InputPath":"$"`, "States.W.InputPath"},
		{"field of a retrier", `"MaxAttempts":2`, `"MaxAttempts":2,"JitterStrategy":"FULL"`, "States.A.Retry[0].JitterStrategy"},
		{"field of a catcher", `"ResultPath":"$.error"`, `"Assign":{}`, "States.A.Catch[0].Assign"},
		{"parallel", `"Type":"Wait","Seconds":1`, `"Type":"Parallel","Branches":[]`, "States.W.Type"},
		{"map", `"Type":"Wait","Seconds":1`, `"Type":"Map"`, "States.W.Type"},
		{"another service", `"arn:aws:states:::lambda:invoke"`, `"arn:aws:states:::ecs:runTask"`, "States.A.Resource"},
		{"sync", `"arn:aws:states:::lambda:invoke"`, `"arn:aws:states:::lambda:invoke.sync"`, "States.A.Resource"},
		{"intrinsic", `"x.$":"$.x"`, `"x.$":"States.UUID()"`, "States.A.Parameters.Payload.x.$"},
		{"wildcard path", `"x.$":"$.x"`, `"x.$":"$.x[*]"`, "States.A.Parameters.Payload.x.$"},
		{"other context", `"x.$":"$.x"`, `"x.$":"$$.Execution.RoleArn"`, "States.A.Parameters.Payload.x.$"},
		{"other parameter", `"FunctionName":"f","Payload":{"step":"a.v1"`, `"FunctionName":"f","Qualifier":"1","Payload":{"step":"a.v1"`, "States.A.Parameters.Qualifier"},
		{"comparison", `"NumericEquals":1`, `"StringMatches":"*"`, "States.C.Choices[0].And[0].StringMatches"},
		{"two waits", `"Seconds":1`, `"Seconds":1,"SecondsPath":"$.n"`, "States.W"},
		{"duplicate field", `"Seconds":1`, `"Seconds":1,"Seconds":2`, "States.W.Seconds"},
		{"duplicate state", `"S": {"Type":"Succeed"}`, `"S": {"Type":"Succeed"},"S":{"Type":"Succeed"}`, "States.S"},
		{"unknown next", `"Seconds":1,"Next":"P"`, `"Seconds":1,"Next":"Q"`, "States.W"},
		{"unknown start", `"StartAt": "A"`, `"StartAt": "B"`, "StartAt"},
		{"next and end", `"Seconds":1,`, `"Seconds":1,"End":true,`, "States.W"},
		{"no choice by default", `,"Default":"P"`, ``, "States.C"},
		{"unreachable", `"S": {"Type":"Succeed"}`, `"S": {"Type":"Succeed"},"X":{"Type":"Succeed"}`, "States.X"},
		{"no end", `"S": {"Type":"Succeed"}`, `"S": {"Type":"Pass","Next":"S"}`, "States.S"},
		{"token in a plain task", `"x.$":"$.x"`, `"x.$":"$$.Task.Token"`, "States.A.Parameters.Payload"},
		{"no token in a waiting task", `"token.$":"$$.Task.Token"`, `"x":1`, "States.T.Parameters.Payload"},
		{"token without a timeout", `"TimeoutSeconds":10,"HeartbeatSeconds":5,`, ``, "States.T"},
		{"heartbeat above the timeout", `"HeartbeatSeconds":5`, `"HeartbeatSeconds":10`, "States.T.HeartbeatSeconds"},
		{"heartbeat of a plain task", `"ResultPath":"$.a"`, `"ResultPath":"$.a","HeartbeatSeconds":1`, "States.A.HeartbeatSeconds"},
		{"catch-all with company", `["States.ALL"]`, `["States.ALL","Lazy.failed"]`, "States.A.Catch[0].ErrorEquals"},
		{"catch-all first", `"Catch":[`, `"Catch":[{"ErrorEquals":["States.ALL"],"Next":"F"},`, "States.A.Catch[0]"},
		{"no step", `"step":"a.v1",`, ``, "States.A.Parameters.Payload"},
		{"negative wait", `"Seconds":1`, `"Seconds":-1`, "States.W.Seconds"},
		{"fractional wait", `"Seconds":1`, `"Seconds":0.5`, "States.W.Seconds"},
		{"value of the wrong type", `"NumericEquals":1`, `"NumericEquals":"1"`, "States.C.Choices[0].And[0].NumericEquals"},
		{"substitution without a value", `"Cause":"why"`, `"Cause":"${Why}"`, "${Why}"},
	}
}

func TestAnythingOutsideTheSubsetIsALoadErrorThatNamesItsPath(t *testing.T) {
	req.Covers(t, "SY-024")
	if _, err := asl.Load("sound", []byte(sound), nil); err != nil {
		t.Fatalf("the unedited definition does not load: %v", err)
	}
	for _, c := range edits() {
		t.Run(c.name, func(t *testing.T) {
			if n := strings.Count(sound, c.old); n < 1 {
				t.Fatalf("the case edits %q, which is not in the definition", c.old)
			}
			_, err := asl.Load("edited", []byte(strings.Replace(sound, c.old, c.new, 1)), nil)
			if err == nil {
				t.Fatal("it loads")
			}
			named := slices.ContainsFunc(strings.Split(err.Error(), "\n"), func(line string) bool {
				line = strings.TrimPrefix(line, "load definition edited: ")
				return strings.HasPrefix(line, c.path+":") || (strings.HasPrefix(c.path, "$") && strings.Contains(line, c.path))
			})
			if !named {
				t.Errorf("no line of the error names %s:\n%v", c.path, err)
			}
		})
	}
}

// beyondSchema lists the edits that a schema cannot see, because they are about
// two places of the file at once or about the text itself.
func beyondSchema() []string {
	return []string{
		"duplicate field", "duplicate state", "unknown next", "unknown start", "unreachable", "no end",
		"token in a plain task", "no token in a waiting task", "heartbeat above the timeout",
		"catch-all with company", "catch-all first", "substitution without a value",
	}
}

func TestTheSchemaSeesWhatTheLoaderSees(t *testing.T) {
	src, err := statemachines.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(src, &s); err != nil {
		t.Fatal(err)
	}
	schema, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text string) error {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	if err := valid(sound); err != nil {
		t.Errorf("the sound definition: %v", err)
	}
	for _, name := range statemachines.Names() {
		text, err := statemachines.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range edits() {
		err := valid(strings.Replace(sound, c.old, c.new, 1))
		if seen, want := err != nil, !slices.Contains(beyondSchema(), c.name); seen != want {
			t.Errorf("%s: the schema sees it: %t, want %t", c.name, seen, want)
		}
	}
}

func TestEveryShippedDefinitionLoadsAndNamesItsSteps(t *testing.T) {
	want := map[string][]string{
		"turn":     {"prepare.v1", "launch.v1", "run.v1", "record.v1", "decide.v1", "renew.v1", "handover.v1"},
		"recovery": {"confirm.v1", "stop.v1", "record.v1", "decide.v1", "crash.v1", "resume.v1"},
		"accept":   {"describe.v1", "intent.v2", "broker.v1", "land.v1", "complete.v1", "cleanup.v1", "abort.v1", "acceptfailed.v1"},
	}
	for _, name := range statemachines.Names() {
		if diff := cmp.Diff(want[name], asl.Steps(load(t, name))); diff != "" {
			t.Errorf("steps of %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestATaskOfAShippedDefinitionCarriesIDsOnlyAndCannotWaitForEver(t *testing.T) {
	req.Covers(t, "WF-21")
	input := map[string]any{"v": 1, "tenant": "t1", "turn": "u1", "n": 2, "error": map[string]any{"Error": "e", "Cause": "c"}}
	for _, name := range statemachines.Names() {
		m := load(t, name)
		for _, s := range m.States {
			if s.Type != asl.Task {
				continue
			}
			got, err := s.Parameters.Fill(input, asl.Context{Token: "tok"})
			if err != nil {
				t.Errorf("%s: %s: %v", name, s.Name, err)
				continue
			}
			want := map[string]any{"step": s.Step, "v": 1, "tenant": "t1", "turn": "u1", "n": 2}
			if s.Token {
				want["token"] = "tok"
			}
			if slices.Contains([]string{"handover.v1", "abort.v1", "acceptfailed.v1"}, s.Step) {
				want["error"], want["cause"] = "e", "c"
			}
			if diff := cmp.Diff(map[string]any{"FunctionName": "steps", "Payload": want}, got); diff != "" {
				t.Errorf("%s: payload of %s (-want +got):\n%s", name, s.Name, diff)
			}
			if s.Timeout == 0 {
				t.Errorf("%s: %s has no timeout", name, s.Name)
			}
			if !asl.Matches(s.Retry[0].Errors, "Lazy.unavailable") {
				t.Errorf("%s: %s does not retry what is unavailable", name, s.Name)
			}
		}
	}
}

func TestALoadedSourceLoadsAgainWithoutItsSubstitutions(t *testing.T) {
	m := load(t, "turn")
	again, err := asl.Load("turn", m.Source, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest != m.Digest {
		t.Errorf("digest %s, want %s", again.Digest, m.Digest)
	}
}

func TestASubstitutedValueCannotBreakOutOfItsText(t *testing.T) {
	value := `a"b\c`
	m, err := asl.Load("m", []byte(`{"StartAt":"F","States":{"F":{"Type":"Fail","Error":"${X}"}}}`), map[string]string{"X": value})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.States["F"].Error; got != value {
		t.Errorf("got %q, want %q", got, value)
	}
}

func TestDelaysGrowByTheRateUpToTheLimit(t *testing.T) {
	r := asl.Retrier{Interval: time.Second, Backoff: 2, MaxDelay: 5 * time.Second}
	var got []time.Duration
	for n := range 5 {
		got = append(got, r.Delay(n)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{1, 2, 4, 5, 5}, got); diff != "" {
		t.Error(diff)
	}
}

func TestErrorNamesMatchAsOnStepFunctions(t *testing.T) {
	for _, c := range []struct {
		equals, name string
		want         bool
	}{
		{"Lazy.failed", "Lazy.failed", true},
		{"Lazy.failed", "Lazy.denied", false},
		{asl.ErrAll, asl.ErrTimeout, true},
		{asl.ErrAll, asl.ErrHeartbeat, true},
		{asl.ErrAll, asl.ErrRuntime, false},
		{asl.ErrAll, asl.ErrTooLarge, false},
		{asl.ErrTask, "Lazy.failed", true},
		{asl.ErrTask, asl.ErrTimeout, false},
	} {
		if got := asl.Matches([]string{c.equals}, c.name); got != c.want {
			t.Errorf("%s covers %s: %t, want %t", c.equals, c.name, got, c.want)
		}
	}
}

func TestAResultPathLeavesItsInputAlone(t *testing.T) {
	m, err := asl.Load("m", []byte(`{"StartAt":"P","States":{"P":{"Type":"Pass","Result":1,"ResultPath":"$.a.b","End":true}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]any{"a": map[string]any{"c": 2}}
	got, err := m.States["P"].ResultPath.Set(in, 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"a": map[string]any{"b": 1, "c": 2}}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"a": map[string]any{"c": 2}}, in); diff != "" {
		t.Errorf("the input changed: %s", diff)
	}
	if _, err := m.States["P"].ResultPath.Set(map[string]any{"a": "text"}, 1); err == nil {
		t.Error("a path through a text is not refused")
	}
}

func TestChoicesDecideByTypeAndPresence(t *testing.T) {
	rule := func(test string) asl.Rule {
		src := fmt.Sprintf(`{"StartAt":"C","States":{"C":{"Type":"Choice","Choices":[{%s,"Next":"S"}],"Default":"S"},"S":{"Type":"Succeed"}}}`, test)
		m, err := asl.Load("m", []byte(src), nil)
		if err != nil {
			t.Fatal(err)
		}
		return m.States["C"].Rules[0]
	}
	data := map[string]any{"n": json.Number("3"), "s": "x", "b": true, "z": nil}
	for test, want := range map[string]bool{
		`"Variable":"$.n","NumericEquals":3`:                                                           true,
		`"Variable":"$.n","NumericEquals":3.5`:                                                         false,
		`"Variable":"$.n","NumericLessThan":4`:                                                         true,
		`"Variable":"$.n","NumericLessThan":3`:                                                         false,
		`"Variable":"$.n","NumericGreaterThan":2`:                                                      true,
		`"Variable":"$.n","NumericGreaterThan":3`:                                                      false,
		`"Variable":"$.n","NumericGreaterThanEquals":3`:                                                true,
		`"Variable":"$.s","NumericEquals":3`:                                                           false,
		`"Variable":"$.s","StringEquals":"x"`:                                                          true,
		`"Variable":"$.n","StringEquals":"3"`:                                                          false,
		`"Variable":"$.b","BooleanEquals":true`:                                                        true,
		`"Variable":"$.b","BooleanEquals":false`:                                                       false,
		`"Variable":"$.z","IsPresent":true`:                                                            true,
		`"Variable":"$.no","IsPresent":false`:                                                          true,
		`"Variable":"$.s.no","IsPresent":true`:                                                         false,
		`"Not":{"Variable":"$.no","IsPresent":true}`:                                                   true,
		`"Or":[{"Variable":"$.n","NumericEquals":1},{"Variable":"$.s","StringEquals":"x"}]`:            true,
		`"And":[{"Variable":"$.no","IsPresent":true},{"Variable":"$.no","NumericEquals":1}]`:           false,
		`"And":[{"Variable":"$.n","NumericEquals":3},{"Not":{"Variable":"$.s","StringEquals":"x"}}]`:   false,
		`"Or":[{"Variable":"$.no","IsPresent":true},{"Not":{"Variable":"$.b","BooleanEquals":false}}]`: true,
	} {
		got, err := rule(test).Holds(data)
		if err != nil || got != want {
			t.Errorf("%s: %t, %v; want %t", test, got, err, want)
		}
	}
	if _, err := rule(`"Variable":"$.no","StringEquals":"x"`).Holds(data); err == nil {
		t.Error("a missing variable is not an error")
	}
}

func FuzzLoadNeverPanics(f *testing.F) {
	f.Add([]byte(sound))
	f.Add([]byte(`{"StartAt":1,"States":[]}`))
	f.Add([]byte(`{"StartAt":"A","States":{"A":{"Type":"Choice","Choices":[1,{"Not":2}]}}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := asl.Load("f", src, nil)
		if err != nil {
			return
		}
		again, err := asl.Load("f", m.Source, nil)
		if err != nil || again.Digest != m.Digest {
			t.Errorf("what loaded once does not load again: %v", err)
		}
	})
}
