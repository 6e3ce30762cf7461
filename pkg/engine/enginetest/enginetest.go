// Package enginetest is the contract of an engine: a table of small definitions
// and the shipped ones, each with scripted steps, and the states, output and
// errors that every engine must produce from them (SY-024). engine/local runs it
// on every save, integration runs the same table on Step Functions.
package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// Running is an engine with definitions deployed and the step function behind
// them.
type Running struct {
	Engine engine.Engine
	// Visited lists the states an execution has entered.
	Visited func(t *testing.T, machine, name string) []string
	// Wait returns the execution once it has ended.
	Wait func(t *testing.T, machine, name string) engine.Execution
}

// Harness makes engines to test.
type Harness struct {
	// Around runs one case, for example inside a bubble with a fake clock.
	Around func(t *testing.T, run func(t *testing.T))
	// Open deploys definitions, given by name, whose ${StepFunction} is step. It
	// closes the engine with the test.
	Open func(t *testing.T, definitions map[string][]byte, step engine.Step) Running
	// Virtual says that waiting costs nothing, so that cases of minutes run too.
	Virtual bool
	// Heartbeat is the name the engine gives a missed heartbeat.
	Heartbeat string
	// Emulator says that the engine is known not to follow AWS in the cases that
	// name their difference in NotEmulated.
	Emulator bool
}

// Reply is what a scripted step does at one call.
type Reply struct {
	Out   string        // JSON; "" is {}
	Err   error         // returned instead
	Hold  time.Duration // how long the call takes
	Panic bool
	// Answers are given to the task token, in order, after the call has returned
	// unless Early says before.
	Answers []Answer
	Early   bool
}

// Answer is one message about a task token.
type Answer struct {
	After time.Duration
	Beat  bool
	Out   string // a success with this JSON, unless Error is set
	Error string
	Cause string
}

// Script is what the steps do: the nth call of a step gets the nth reply, later
// ones the last. A step without replies succeeds with {}.
type Script map[string][]Reply

// Call is one call of a step, as the payload describes it.
type Call struct {
	Step    string `json:"step"`
	State   string `json:"state"`
	Entered string `json:"entered"`
	Retry   int    `json:"retry"`
	Error   string `json:"error"`
	Token   string `json:"token"`
}

// Case is one execution and what must come of it.
type Case struct {
	Name       string
	Covers     []string // requirement ids
	Flow       string   // name of a shipped definition, or ""
	Definition string   // text, when Flow is ""
	Input      string   // JSON; "" is the constant input of WF-21
	Script     Script

	State   engine.State // "" is SUCCEEDED
	Visited string       // names separated by blanks
	Output  string       // JSON; "" is not compared
	Error   string       // of a failed execution
	Check   func(t *testing.T, calls []Call)

	Slow        bool   // takes more than a few seconds: virtual clocks only
	NotEmulated string // why the emulator of Step Functions cannot run it
}

// Input is the constant input of WF-21.
const Input = `{"v":1,"tenant":"t1","turn":"0198c0de-0000-7000-8000-000000000001","n":1}`

// Missed stands for the harness's name of a missed heartbeat in Output and Error.
const Missed = "States.HeartbeatTimeout"

// Run runs every case, and then what the port promises about names and tokens.
func Run(t *testing.T, h Harness) {
	for _, c := range Cases() {
		t.Run(strings.ReplaceAll(c.Name, " ", "-"), func(t *testing.T) {
			switch {
			case c.Slow && !h.Virtual:
				t.Skip("takes long, and is run where the clock is virtual")
			case c.NotEmulated != "" && h.Emulator:
				t.Skip(c.NotEmulated)
			}
			if len(c.Covers) > 0 {
				req.Covers(t, c.Covers...)
			}
			h.Around(t, func(t *testing.T) { runCase(t, h, c) })
		})
	}
	for name, run := range port() {
		t.Run(name, func(t *testing.T) {
			h.Around(t, func(t *testing.T) { run(t, h) })
		})
	}
}

func runCase(t *testing.T, h Harness, c Case) {
	machine := "case"
	src := []byte(c.Definition)
	if c.Flow != "" {
		machine, src = c.Flow, Shipped(t, c.Flow)
	}
	p := newPlayer(t, c.Script)
	run := h.Open(t, map[string][]byte{machine: src}, p.step)
	p.attach(run.Engine)
	input := c.Input
	if input == "" {
		input = Input
	}
	if err := run.Engine.Start(t.Context(), machine, "x-1", []byte(input)); err != nil {
		t.Fatal(err)
	}
	got := run.Wait(t, machine, "x-1")
	p.wg.Wait()
	want := c.State
	if want == "" {
		want = engine.Succeeded
	}
	if got.State != want {
		t.Errorf("the execution ended %s (%s: %s), want %s", got.State, got.Error, got.Cause, want)
	}
	if name := named(h, c.Error); got.Error != name {
		t.Errorf("its error is %q, want %q", got.Error, name)
	}
	if diff := cmp.Diff(strings.Fields(c.Visited), run.Visited(t, machine, "x-1")); diff != "" {
		t.Errorf("states visited (-want +got):\n%s", diff)
	}
	if c.Output != "" {
		sameJSON(t, "output", named(h, c.Output), string(got.Output))
	}
	if c.Check != nil {
		c.Check(t, p.all())
	}
}

func named(h Harness, s string) string {
	if h.Heartbeat == "" {
		return s
	}
	return strings.ReplaceAll(s, Missed, h.Heartbeat)
}

func sameJSON(t *testing.T, what, want, got string) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("the wanted %s: %v", what, err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Errorf("the %s %q: %v", what, got, err)
		return
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// player performs a script.
type player struct {
	t      *testing.T
	script Script
	wg     sync.WaitGroup

	mu    sync.Mutex
	calls []Call
	count map[string]int
	e     engine.Engine
}

// pause waits a moment, for what an engine has no event for.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

func newPlayer(t *testing.T, s Script) *player {
	return &player{t: t, script: s, count: map[string]int{}}
}

func (p *player) attach(e engine.Engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.e = e
}

func (p *player) all() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Call(nil), p.calls...)
}

func (p *player) note(payload []byte) (Call, Reply, engine.Engine, error) {
	var c Call
	d := json.NewDecoder(bytes.NewReader(payload))
	if err := d.Decode(&c); err != nil {
		return c, Reply{}, nil, fmt.Errorf("read the payload %q: %w", payload, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
	n := p.count[c.Step]
	p.count[c.Step]++
	replies := p.script[c.Step]
	if len(replies) == 0 {
		return c, Reply{}, p.e, nil
	}
	return c, replies[min(n, len(replies)-1)], p.e, nil
}

func (p *player) step(ctx context.Context, payload []byte) ([]byte, error) {
	c, r, e, err := p.note(payload)
	if err != nil {
		return nil, err
	}
	if r.Early {
		p.answer(context.WithoutCancel(ctx), e, c.Token, r.Answers)
	} else if len(r.Answers) > 0 {
		p.wg.Go(func() { p.answer(context.WithoutCancel(ctx), e, c.Token, r.Answers) })
	}
	if r.Hold > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(r.Hold):
		}
	}
	switch {
	case r.Panic:
		panic("scripted")
	case r.Err != nil:
		return nil, r.Err
	case r.Out == "":
		return []byte("{}"), nil
	}
	return []byte(r.Out), nil
}

// answer sends the answers. A token that is gone is what a late answer meets.
func (p *player) answer(ctx context.Context, e engine.Engine, token string, as []Answer) {
	for _, a := range as {
		<-time.After(a.After)
		var err error
		switch {
		case a.Beat:
			err = e.Beat(ctx, token)
		case a.Error != "":
			err = e.Fail(ctx, token, a.Error, a.Cause)
		default:
			err = e.Succeed(ctx, token, []byte(a.Out))
		}
		if err != nil && !errors.Is(err, engine.ErrTokenGone) {
			p.t.Errorf("answer a task token: %v", err)
		}
	}
}
