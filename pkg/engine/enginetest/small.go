package enginetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Cases lists every case: the small definitions, then the shipped ones.
func Cases() []Case {
	return append(small(), shipped()...)
}

// task is the text of a Task whose payload shows everything a step may see.
func task(step, rest string) string {
	return fmt.Sprintf(`{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke",
 "Parameters":{"FunctionName":"${StepFunction}","Payload":{"step":%q,"name.$":"$$.Execution.Name",
  "state.$":"$$.State.Name","entered.$":"$$.State.EnteredTime","retry.$":"$$.State.RetryCount"}},%s}`, step, rest)
}

// waits is the text of a Task that waits for its token.
func waits(step, rest string) string {
	return fmt.Sprintf(`{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken",
 "Parameters":{"FunctionName":"${StepFunction}","Payload":{"step":%q,"token.$":"$$.Task.Token"}},%s}`, step, rest)
}

func machine(start, states string) string {
	return fmt.Sprintf(`{"StartAt":%q,"States":{%s}}`, start, states)
}

const (
	done   = `"Done":{"Type":"Succeed"}`
	caught = `"Caught":{"Type":"Pass","Parameters":{"name.$":"$.error.Error"},"Next":"Done"}`
	catch  = `"Catch":[{"ErrorEquals":["States.ALL"],"ResultPath":"$.error","Next":"Caught"}]`
)

func unavailable() error { return fault.New(fault.Unavailable, "not now") }

func small() []Case {
	return append(data(), append(failures(), tokens()...)...)
}

func data() []Case {
	choice := machine("Choose", `
"Choose":{"Type":"Choice","Choices":[
 {"And":[{"Variable":"$.n","NumericGreaterThan":5},{"Variable":"$.big","IsPresent":true}],"Next":"Big"},
 {"Or":[{"Variable":"$.s","StringEquals":"x"},{"Variable":"$.b","BooleanEquals":true}],"Next":"Named"},
 {"Not":{"Variable":"$.n","NumericLessThan":3},"Next":"Middle"}],"Default":"Done"},
"Big":{"Type":"Pass","Result":{"is":"big"},"Next":"Done"},"Named":{"Type":"Pass","Result":{"is":"named"},"Next":"Done"},
"Middle":{"Type":"Pass","Result":{"is":"middle"},"Next":"Done"},`+done)
	return []Case{
		{
			Name: "choice by two conditions", Definition: choice,
			Input: `{"n":6,"big":null,"s":"x","b":false}`, Visited: "Choose Big Done", Output: `{"is":"big"}`,
		},
		{
			Name: "choice by either condition", Definition: choice,
			Input: `{"n":6,"s":"y","b":true}`, Visited: "Choose Named Done", Output: `{"is":"named"}`,
		},
		{
			Name: "choice by negation", Definition: choice,
			Input: `{"n":3,"s":"y","b":false}`, Visited: "Choose Middle Done", Output: `{"is":"middle"}`,
		},
		{
			Name: "choice by default", Definition: choice,
			Input: `{"n":"3","s":1,"b":"true","n2":0}`, Visited: "Choose Middle Done", Output: `{"is":"middle"}`,
		},
		{
			Name: "choice falls to its default", Definition: choice,
			Input: `{"n":2,"s":"","b":false}`, Visited: "Choose Done", Output: `{"n":2,"s":"","b":false}`,
		},
		{
			Name: "pass puts its result on a path",
			Definition: machine("P", `"P":{"Type":"Pass","Result":{"k":[1,2]},"ResultPath":"$.a.b","Next":"Q"},
"Q":{"Type":"Pass","Parameters":{"copy.$":"$.a.b.k","lit":{"x":null}},"ResultPath":"$.q","End":true}`),
			Input: `{"a":{"c":1}}`, Visited: "P Q",
			Output: `{"a":{"b":{"k":[1,2]},"c":1},"q":{"copy":[1,2],"lit":{"x":null}}}`,
		},
		{
			Name:       "pass may drop its result",
			Definition: machine("P", `"P":{"Type":"Pass","Result":1,"ResultPath":null,"End":true}`),
			Input:      `{"a":1}`, Visited: "P", Output: `{"a":1}`,
		},
		{
			Name: "a task's result is selected and placed",
			Definition: machine("A", `"A":`+task("a.v1",
				`"ResultSelector":{"got.$":"$.Payload.x","status.$":"$.StatusCode"},"ResultPath":"$.a","Next":"Done"`)+`,`+done),
			Input: `{"in":1}`, Script: Script{"a.v1": {{Out: `{"x":[true]}`}}},
			Visited: "A Done", Output: `{"in":1,"a":{"got":[true],"status":200}}`,
		},
		{
			Name:       "a wait of seconds from the data",
			Definition: machine("W", `"W":{"Type":"Wait","SecondsPath":"$.s","Next":"V"},"V":{"Type":"Wait","Seconds":1,"End":true}`),
			Input:      `{"s":0}`, Visited: "W V", Output: `{"s":0}`,
		},
		{
			Name:       "a wait until a time that has passed",
			Definition: machine("W", `"W":{"Type":"Wait","TimestampPath":"$.at","End":true}`),
			Input:      `{"at":"1999-01-01T00:00:00Z"}`, Visited: "W",
		},
		{
			Name:       "a wait for something that is no number",
			Definition: machine("W", `"W":{"Type":"Wait","SecondsPath":"$.s","End":true}`),
			Input:      `{"s":"soon"}`, State: engine.Failed, Error: "States.Runtime", Visited: "W",
		},
		{
			Name:       "a payload that needs what is not there",
			Definition: machine("A", `"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"${StepFunction}","Payload":{"step":"a.v1","x.$":"$.none"}},"End":true}`),
			Input:      `{}`, State: engine.Failed, Error: "States.Runtime", Visited: "A",
		},
		{
			Name:       "fail names its error",
			Definition: machine("F", `"F":{"Type":"Fail","Error":"Lost","Cause":"why"}`),
			State:      engine.Failed, Error: "Lost", Visited: "F",
		},
	}
}

func failures() []Case {
	retry := `"Retry":[{"ErrorEquals":["Lazy.limited"],"MaxAttempts":0},
 {"ErrorEquals":["Lazy.unavailable"],"IntervalSeconds":1,"MaxAttempts":2,"BackoffRate":1}],` + catch + `,"ResultPath":null,"Next":"Done"`
	loop := machine("A", `"A":`+task("a.v1", `"ResultSelector":{"out.$":"$.Payload"},"ResultPath":"$.a",
 "Retry":[{"ErrorEquals":["Lazy.unavailable"],"IntervalSeconds":1,"MaxAttempts":1}],"Next":"Again"`)+`,
"Again":{"Type":"Choice","Choices":[{"Variable":"$.a.out.again","BooleanEquals":true,"Next":"A"}],"Default":"Done"},`+done)
	retried := machine("A", `"A":`+task("a.v1", retry)+`,`+caught+`,`+done)
	return []Case{
		{
			Name: "a retry that succeeds", Definition: retried, Covers: []string{"SY-038"},
			Script:  Script{"a.v1": {{Err: unavailable()}, {Err: unavailable()}, {}}},
			Visited: "A Done", Check: calls("a.v1", 0, "a.v1", 1, "a.v1", 2),
		},
		{
			Name: "retries that are used up", Definition: retried,
			Script:  Script{"a.v1": {{Err: unavailable()}}},
			Visited: "A Caught Done", Output: `{"name":"Lazy.unavailable"}`, Check: calls("a.v1", 0, "a.v1", 1, "a.v1", 2),
		},
		{
			Name: "an error nobody retries", Definition: retried,
			Script:  Script{"a.v1": {{Err: fault.New(fault.Conflict, "taken")}}},
			Visited: "A Caught Done", Output: `{"name":"Lazy.conflict"}`, Check: calls("a.v1", 0),
		},
		{
			Name: "an error whose retrier allows none", Definition: retried,
			Script:  Script{"a.v1": {{Err: fault.New(fault.Limited, "slow down")}}},
			Visited: "A Caught Done", Output: `{"name":"Lazy.limited"}`, Check: calls("a.v1", 0),
		},
		{
			Name: "a catch by name comes before the one for all", Covers: []string{"SY-024"},
			Definition: machine("A", `"A":`+task("a.v1", `"Catch":[{"ErrorEquals":["Lazy.denied","Lazy.conflict"],"Next":"Typed"},
 {"ErrorEquals":["States.TaskFailed"],"Next":"Other"}],"Next":"Done"`)+`,
"Typed":{"Type":"Pass","Result":1,"End":true},"Other":{"Type":"Pass","Result":2,"End":true},`+done),
			Script: Script{"a.v1": {{Err: fault.New(fault.Conflict, "taken")}}}, Visited: "A Typed", Output: `1`,
		},
		{
			Name:       "a caught error is the data where no path is given",
			Definition: machine("A", `"A":`+task("a.v1", `"Catch":[{"ErrorEquals":["States.ALL"],"Next":"Done"}],"Next":"Done"`)+`,`+done),
			Script:     Script{"a.v1": {{Err: fault.New(fault.Denied, "not you")}}}, Visited: "A Done",
			Output: `{"Error":"Lazy.denied","Cause":"{\"errorMessage\":\"not you\",\"errorType\":\"Lazy.denied\"}"}`,
		},
		{
			Name:       "an error nobody catches",
			Definition: machine("A", `"A":`+task("a.v1", `"Catch":[{"ErrorEquals":["Lazy.denied"],"Next":"Done"}],"Next":"Done"`)+`,`+done),
			Script:     Script{"a.v1": {{Err: fault.New(fault.Failed, "broken")}}},
			State:      engine.Failed, Error: "Lazy.failed", Visited: "A",
		},
		{
			Name:       "a step that takes too long",
			Definition: machine("A", `"A":`+task("a.v1", `"TimeoutSeconds":1,`+catch+`,"Next":"Done"`)+`,`+caught+`,`+done),
			Script:     Script{"a.v1": {{Hold: 3 * time.Second}}},
			Visited:    "A Caught Done", Output: `{"name":"States.Timeout"}`,
		},
		{
			Name:       "a panic is the step's failure alone",
			Definition: machine("A", `"A":`+task("a.v1", catch+`,"Next":"Done"`)+`,`+caught+`,`+done),
			Script:     Script{"a.v1": {{Panic: true}}},
			Visited:    "A Caught Done", Output: `{"name":"Lazy.internal"}`,
		},
		{
			Name:       "an execution that takes too long",
			Definition: `{"StartAt":"W","TimeoutSeconds":1,"States":{"W":{"Type":"Wait","Seconds":30,"End":true}}}`,
			State:      engine.TimedOut, Visited: "W",
		},
		{
			Name: "a loop that takes no time is a new visit", Definition: loop, Covers: []string{"SY-038"},
			Script:  Script{"a.v1": {{Out: `{"again":true}`}, {Out: `{"again":true}`}, {Out: `{"again":false}`}}},
			Visited: "A Again A Again A Again Done",
			Check: func(t *testing.T, cs []Call) {
				if len(cs) != 3 || cs[0].Entered == cs[1].Entered || cs[1].Entered == cs[2].Entered {
					t.Errorf("three visits at three times were wanted, not %v", cs)
				}
			},
		},
		{
			Name: "a loop is a new visit and a retry is not", Definition: loop, Covers: []string{"SY-038"},
			Script: Script{"a.v1": {
				{Err: unavailable()},
				{Out: `{"again":true}`},
				{Err: unavailable()},
				{Out: `{"again":false}`},
			}},
			Visited: "A Again A Again Done",
			Check: func(t *testing.T, cs []Call) {
				calls("a.v1", 0, "a.v1", 1, "a.v1", 0, "a.v1", 1)(t, cs)
				if len(cs) != 4 {
					return
				}
				if cs[0].Entered != cs[1].Entered || cs[2].Entered != cs[3].Entered {
					t.Error("a retry does not keep the time its state was entered")
				}
				if cs[1].Entered == cs[2].Entered {
					t.Error("a loop enters its state anew, yet at the same time")
				}
			},
		},
	}
}

// calls checks which steps were called, each with its retry count.
func calls(want ...any) func(t *testing.T, cs []Call) {
	return func(t *testing.T, cs []Call) {
		t.Helper()
		var got []any
		for _, c := range cs {
			got = append(got, c.Step, c.Retry)
		}
		if fmt.Sprint(got...) != fmt.Sprint(want...) {
			t.Errorf("calls were %v, want %v", got, want)
		}
	}
}

func tokens() []Case {
	plain := machine("T", `"T":`+waits("t.v1", `"TimeoutSeconds":30,`+catch+`,"ResultPath":"$.t","Next":"Done"`)+`,`+caught+`,`+done)
	beating := machine("T", `"T":`+waits("t.v1", `"TimeoutSeconds":30,"HeartbeatSeconds":4,`+catch+`,"ResultPath":"$.t","Next":"Done"`)+`,`+caught+`,`+done)
	// An emulator on a busy machine is slow; only the waits that must end are short.
	return []Case{
		{
			Name: "a token answered with a result", Definition: plain, Input: `{}`,
			Script:  Script{"t.v1": {{Answers: []Answer{{After: soon, Out: `{"ok":[1]}`}}}}},
			Visited: "T Done", Output: `{"t":{"ok":[1]}}`,
		},
		{
			Name: "a token answered before the step returned", Definition: plain, Input: `{}`,
			Script:  Script{"t.v1": {{Early: true, Hold: soon, Out: `"ignored"`, Answers: []Answer{{Out: `"early"`}}}}},
			Visited: "T Done", Output: `{"t":"early"}`,
		},
		{
			Name: "a token answered with an error", Definition: plain, Input: `{}`,
			Script:  Script{"t.v1": {{Answers: []Answer{{After: soon, Error: "Lazy.gone", Cause: "exit 137"}}}}},
			Visited: "T Caught Done", Output: `{"name":"Lazy.gone"}`,
		},
		{
			Name: "a token nobody answers", Input: `{}`,
			Definition: machine("T", `"T":`+waits("t.v1", `"TimeoutSeconds":1,`+catch+`,"ResultPath":"$.t","Next":"Done"`)+`,`+caught+`,`+done),
			Visited:    "T Caught Done", Output: `{"name":"States.Timeout"}`,
		},
		{
			Name: "a step that fails before its token is answered", Definition: plain, Input: `{}`,
			Script:  Script{"t.v1": {{Err: fault.New(fault.Failed, "no room")}}},
			Visited: "T Caught Done", Output: `{"name":"Lazy.failed"}`,
		},
		{
			Name: "beats keep a token alive", Definition: beating, Input: `{}`,
			Script: Script{"t.v1": {{Answers: append(
				slices.Repeat([]Answer{{After: time.Second, Beat: true}}, 6),
				Answer{After: time.Second, Out: `1`},
			)}}},
			Visited: "T Done", Output: `{"t":1}`,
		},
		{
			Name: "a missed beat", Definition: beating, Input: `{}`,
			Script:  Script{"t.v1": {{Answers: []Answer{{After: time.Second, Beat: true}, {After: 8 * time.Second, Out: `1`}}}}},
			Visited: "T Caught Done", Output: `{"name":"` + Missed + `"}`,
		},
		{
			Name: "a second answer changes nothing", Input: `{}`,
			NotEmulated: "the emulator takes a second answer to a token without complaint",
			Definition: machine("T", `"T":`+waits("t.v1", `"TimeoutSeconds":9,"ResultPath":"$.t","Next":"W"`)+`,
"W":{"Type":"Wait","Seconds":1,"Next":"Done"},`+done),
			Script:  Script{"t.v1": {{Answers: []Answer{{After: soon, Out: `1`}, {Out: `2`}, {Error: "Late"}}}}},
			Visited: "T W Done", Output: `{"t":1}`,
		},
		{
			Name: "a second answer before the step returned changes nothing", Definition: plain, Input: `{}`,
			NotEmulated: "the emulator takes a second answer to a token without complaint",
			Script:      Script{"t.v1": {{Early: true, Hold: soon, Answers: []Answer{{Out: `1`}, {Out: `2`}, {Error: "Late"}}}}},
			Visited:     "T Done", Output: `{"t":1}`,
		},
		{
			Name: "a retried wait has a token of its own", Input: `{}`,
			NotEmulated: "the emulator keeps the token, and the failure it was answered with, over a retry",
			Definition: machine("T", `"T":`+waits("t.v1", `"TimeoutSeconds":9,"ResultPath":"$.t",
 "Retry":[{"ErrorEquals":["Lazy.unavailable"],"IntervalSeconds":1,"MaxAttempts":1}],"Next":"Done"`)+`,`+done),
			Script: Script{"t.v1": {
				{Answers: []Answer{{After: soon, Error: "Lazy.unavailable"}, {After: 1500 * time.Millisecond, Out: `"old"`}}},
				{Answers: []Answer{{After: 3 * time.Second, Out: `"new"`}}},
			}},
			Visited: "T Done", Output: `{"t":"new"}`,
			Check: func(t *testing.T, cs []Call) {
				if len(cs) != 2 || cs[0].Token == cs[1].Token || cs[1].Token == "" {
					t.Errorf("two attempts with tokens of their own were wanted, not %v", cs)
				}
			},
		},
	}
}
