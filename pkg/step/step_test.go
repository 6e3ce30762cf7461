package step_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/step"
	"github.com/lazyplane/lazyplane/statemachines"
)

// history lists every step that a definition has named. An execution goes on by the
// definition it began with, so its steps outlive the definition.
func history(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "steps.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

func TestEveryStateHasAStepAndEveryStepHasAState(t *testing.T) {
	req.Covers(t, "SY-042")
	have := app.New(app.Deps{}).Steps()
	named := history(t)
	used := map[string]bool{}
	for _, name := range statemachines.Names() {
		src, err := statemachines.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := asl.Load(name, src, map[string]string{"StepFunction": "step"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range asl.Steps(m) {
			used[s] = true
			if have[s] == nil {
				t.Errorf("%s names step %s, which does not exist", name, s)
			}
			if !slices.Contains(named, s) {
				t.Errorf("%s names step %s, which testdata/steps.txt does not list", name, s)
			}
		}
	}
	for s := range have {
		if !used[s] && !slices.Contains(named, s) {
			t.Errorf("no state runs step %s", s)
		}
	}
	for _, s := range named {
		if have[s] == nil {
			t.Errorf("step %s is gone, which an execution that is under way may name", s)
		}
	}
	if !slices.IsSorted(named) || len(slices.Compact(named)) != len(history(t)) {
		t.Error("testdata/steps.txt is not in order")
	}
}

// A definition can be ahead of the code, for the minutes of a deploy or after one
// that was taken back: that is tried again, and no turn is given up for it.
func TestAStepOfALaterVersionIsTriedAgain(t *testing.T) {
	h := step.Handler(app.New(app.Deps{}))
	for p, want := range map[string]fault.Kind{
		`{"v":1,"step":"prepare.v2"}`:       fault.Unavailable,
		`{"v":1,"step":"later.v1"}`:         fault.Unavailable,
		`{"v":2,"step":"prepare.v1"}`:       fault.Unavailable,
		`{"v":1,"step":"prepare"}`:          fault.Invalid,
		`{"v":1,"step":"prepare.v1; x.v1"}`: fault.Invalid,
		`{"v":0,"step":"prepare.v1"}`:       fault.Invalid,
		`[]`:                                fault.Invalid,
		``:                                  fault.Invalid,
	} {
		_, err := h(t.Context(), []byte(p))
		if got := fault.KindOf(err); got != want {
			t.Errorf("payload %q gave %q, want %q", p, got, want)
		}
	}
}
