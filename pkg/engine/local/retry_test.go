package local_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/engine/enginetest"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/statemachines"
)

func TestEveryStateOfTheShippedFlowsCanBeRetriedUnderTheSameKey(t *testing.T) {
	req.Covers(t, "SY-038")
	input := enginetest.Input
	for _, name := range statemachines.Names() {
		src := map[string][]byte{name: enginetest.Shipped(t, name)}
		for _, m := range load(t, src) {
			for _, s := range asl.Steps(m) {
				t.Run(name+"/"+s, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { retried(t, src, name, s, input) })
				})
			}
		}
	}
}

// retried runs a flow along a path that calls the step, with the step failing at
// first: the second attempt must get what the first got, and be no new visit.
func retried(t *testing.T, src map[string][]byte, name, failing, input string) {
	run := func() (visited []string, payloads []string) {
		var e engine.Engine
		rec := &recorder{}
		failed, stopped := false, false
		rec.then = func(ctx context.Context, payload string) ([]byte, error) {
			is := func(step string) bool { return strings.Contains(payload, `"step":"`+step+`"`) }
			if is(failing) && !failed {
				failed = true
				return nil, fault.New(fault.Unavailable, "not now")
			}
			if text := tokenOf(payload); text != "" {
				return nil, e.Succeed(ctx, text, []byte(`{}`))
			}
			stopped = stopped || is("stop.v1")
			return along(is, failing, stopped)
		}
		r := open(t, file(t), src, rec.step)
		e = r.Engine
		if err := r.Start(t.Context(), name, "x-1", []byte(input)); err != nil {
			t.Fatal(err)
		}
		if x := r.wait(t, name, "x-1"); x.State != engine.Succeeded && failing != "acceptfailed.v1" {
			t.Errorf("it ended %s: %s", x.State, x.Error)
		}
		return r.visited(t, name, "x-1"), rec.seen()
	}
	visited, payloads := run()
	n := 0
	for i, p := range payloads {
		if !strings.Contains(p, `"step":"`+failing+`"`) {
			continue
		}
		if n++; n == 2 && i > 0 {
			again, before := p, payloads[i-1]
			if text := tokenOf(p); text != "" {
				if text == tokenOf(before) {
					t.Error("the second attempt has the token of the first")
				}
				again = strings.Replace(again, text, "", 1)
				before = strings.Replace(before, tokenOf(before), "", 1)
			}
			if again != before {
				t.Errorf("the second attempt got %s, the first %s", again, before)
			}
		}
	}
	if n < 2 {
		t.Errorf("%s was called %d times", failing, n)
	}
	for i := 1; i < len(visited); i++ {
		if visited[i] == visited[i-1] {
			t.Errorf("a retry counts as a visit: %v", visited)
		}
	}
}

// along answers so that the flow comes by the step that is to be retried.
func along(is func(string) bool, failing string, stopped bool) ([]byte, error) {
	broken := func(err error) ([]byte, error) { return nil, err }
	switch {
	case failing == "handover.v1" && is("prepare.v1"):
		return broken(fault.New(fault.Failed, "broken"))
	case failing == "abort.v1" && is("land.v1"):
		return broken(fault.New(fault.Failed, "broken"))
	case failing == "acceptfailed.v1" && is("land.v1"):
		return broken(fault.New(fault.Internal, "broken"))
	case failing == "renew.v1" && is("decide.v1"):
		return []byte(`{"verdict":"wait","seconds":1}`), nil
	case is("decide.v1"), is("renew.v1"):
		return []byte(`{"verdict":"park","seconds":0}`), nil
	case is("intent.v2") && failing == "broker.v1":
		return []byte(`{"verdict":"broker","seconds":0}`), nil
	case is("intent.v2"):
		return []byte(`{"verdict":"land","seconds":0}`), nil
	case is("crash.v1"):
		return []byte(`{"resume":true,"seconds":1}`), nil
	case is("confirm.v1"):
		verdict := "gone"
		switch {
		case failing == "record.v1" || failing == "decide.v1":
			verdict = "settled"
		case failing == "stop.v1" && !stopped:
			verdict = "alive"
		}
		return []byte(`{"verdict":"` + verdict + `","seconds":1}`), nil
	}
	return []byte(`{}`), nil
}
