package enginetest

import (
	"errors"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// port lists what the port promises beside running definitions.
func port() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"a-repeated-start-is-the-same-execution":  repeatedStart,
		"a-stopped-execution-is-aborted":          stopped,
		"an-unknown-execution-is-not-found":       unknownExecution,
		"an-unknown-token-is-gone":                unknownToken,
		"a-token-of-an-ended-execution-is-gone":   endedToken,
		"one-of-many-starts-begins-the-execution": manyStarts,
	}
}

// waiting opens an engine with one machine that waits for the token it sends.
func waiting(t *testing.T, h Harness) (Running, *player) {
	t.Helper()
	p := newPlayer(t, nil)
	def := machine("T", `"T":`+waits("t.v1", `"TimeoutSeconds":600,"ResultPath":"$.t","Next":"Done"`)+`,`+done)
	return h.Open(t, map[string][]byte{"m": []byte(def)}, p.step), p
}

// token waits until the step was called n times and returns its latest token.
func (p *player) token(t *testing.T, n int) string {
	t.Helper()
	for {
		cs := p.all()
		if len(cs) >= n {
			return cs[n-1].Token
		}
		if err := pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func repeatedStart(t *testing.T, h Harness) {
	req.Covers(t, "SY-045")
	r, p := waiting(t, h)
	ctx := t.Context()
	for _, input := range []string{`{"v":1,"n":2}`, `{"v":1,"n":2}`} {
		if err := r.Engine.Start(ctx, "m", "u-1", []byte(input)); err != nil {
			t.Fatalf("start with %s: %v", input, err)
		}
	}
	token := p.token(t, 1)
	if err := r.Engine.Start(ctx, "m", "u-1", []byte(`{"v":1,"n":3}`)); !errors.Is(err, engine.ErrNameUsed) {
		t.Errorf("a start with another input gives %v", err)
	}
	if err := r.Engine.Succeed(ctx, token, []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	r.Wait(t, "m", "u-1")
	if err := r.Engine.Start(ctx, "m", "u-1", []byte(`{"v":1,"n":3}`)); !errors.Is(err, engine.ErrNameUsed) {
		t.Errorf("a start under a closed name gives %v", err)
	}
	if n := len(p.all()); n != 1 {
		t.Errorf("the step was called %d times", n)
	}
	if err := r.Engine.Start(ctx, "m", "u-2", []byte(`{"v":1,"n":2}`)); err != nil {
		t.Errorf("the next name is not free: %v", err)
	}
	if err := r.Engine.Succeed(ctx, p.token(t, 2), []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	r.Wait(t, "m", "u-2")
}

func stopped(t *testing.T, h Harness) {
	def := machine("W", `"W":{"Type":"Wait","SecondsPath":"$.s","End":true}`)
	r := h.Open(t, map[string][]byte{"m": []byte(def)}, newPlayer(t, nil).step)
	ctx := t.Context()
	for name, input := range map[string]string{"u-1": `{"s":600}`, "u-2": `{"s":0}`} {
		if err := r.Engine.Start(ctx, "m", name, []byte(input)); err != nil {
			t.Fatal(err)
		}
	}
	r.Wait(t, "m", "u-2")
	for name, want := range map[string]engine.State{"u-1": engine.Aborted, "u-2": engine.Succeeded} {
		for range 2 {
			if err := r.Engine.Stop(ctx, "m", name, "no longer wanted"); err != nil {
				t.Errorf("stopping %s gives %v", name, err)
			}
			if name == "u-1" {
				r.Wait(t, "m", name)
			}
			if x, err := r.Engine.Describe(ctx, "m", name); err != nil || x.State != want {
				t.Errorf("%s is %s (%v), want %s", name, x.State, err, want)
			}
		}
	}
}

func unknownExecution(t *testing.T, h Harness) {
	r, _ := waiting(t, h)
	if _, err := r.Engine.Describe(t.Context(), "m", "never"); !errors.Is(err, engine.ErrNoExecution) {
		t.Errorf("describing it gives %v", err)
	}
	if err := r.Engine.Stop(t.Context(), "m", "never", "why"); !errors.Is(err, engine.ErrNoExecution) {
		t.Errorf("stopping it gives %v", err)
	}
}

func unknownToken(t *testing.T, h Harness) {
	r, _ := waiting(t, h)
	gone(t, r.Engine, "AAAAKgAAAAIAAAAAAAAAAa")
}

func gone(t *testing.T, e engine.Engine, token string) {
	t.Helper()
	for what, err := range map[string]error{
		"a success": e.Succeed(t.Context(), token, []byte(`{}`)),
		"a failure": e.Fail(t.Context(), token, "E", "c"),
		"a beat":    e.Beat(t.Context(), token),
	} {
		if !errors.Is(err, engine.ErrTokenGone) {
			t.Errorf("%s gives %v", what, err)
		}
	}
}

func endedToken(t *testing.T, h Harness) {
	r, p := waiting(t, h)
	if err := r.Engine.Start(t.Context(), "m", "u-1", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	token := p.token(t, 1)
	if err := r.Engine.Succeed(t.Context(), token, []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	r.Wait(t, "m", "u-1")
	if h.Emulator {
		// The emulator takes a failure for an ended execution without complaint.
		if err := r.Engine.Succeed(t.Context(), token, []byte(`1`)); !errors.Is(err, engine.ErrTokenGone) {
			t.Errorf("a success gives %v", err)
		}
		return
	}
	gone(t, r.Engine, token)
}

func manyStarts(t *testing.T, h Harness) {
	r, p := waiting(t, h)
	if h.Emulator {
		t.Skip("the emulator loses races between starts")
	}
	const n = 32
	errs := make(chan error, n)
	for range n {
		go func() { errs <- r.Engine.Start(t.Context(), "m", "u-1", []byte(`{}`)) }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Errorf("a start gives %v", err)
		}
	}
	if err := r.Engine.Succeed(t.Context(), p.token(t, 1), []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	r.Wait(t, "m", "u-1")
	if got := len(p.all()); got != 1 {
		t.Errorf("the step was called %d times", got)
	}
}
