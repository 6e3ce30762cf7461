package supervisor_test

import (
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
)

func TestATokenThatWasReplacedIsAskedForOnceAndHealsEveryCall(t *testing.T) {
	req.Covers(t, "MC-012", "MC-013", "MC-014")
	const call = `lazy-agent call lazy_list '{}' >/dev/null`
	r := newRig(t, call+` & one=$!; `+call+` && wait $one && `+call+` && echo ok`)
	r.plane.Do(func(p *planetest.Plane) {
		p.Rotated = "lzy_task_local_rotated_1"
		p.Tool = func(planetest.Call) (any, error) { return map[string]any{}, nil }
	})
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	r.plane.Do(func(p *planetest.Plane) {
		if p.Refused < 1 || p.Refused > 2 { // the first two may have gone side by side
			t.Errorf("%d refused calls", p.Refused)
		}
		equal(t, "tokens asked for", p.Tokens, 1)
		equal(t, "calls", len(p.Calls), 3)
	})
}

func TestARefusedTokenWithoutAnotherFailsWithoutALoop(t *testing.T) {
	req.Covers(t, "MC-012")
	r := newRig(t, `lazy-agent call lazy_list '{}' 2>said; echo $? > code; echo ok`)
	r.plane.Do(func(p *planetest.Plane) { p.Refusing = true })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	if code := strings.TrimSpace(r.file("code")); code == "0" || r.file("said") == "" {
		t.Errorf("the call ended with %s and said %q", code, r.file("said"))
	}
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "refused calls", p.Refused, 1)
		equal(t, "tokens asked for", p.Tokens, 1)
	})
}
