package app_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// alive is a run whose agent works.
func alive(edit func(*turn.Run)) *turn.Run {
	r := &turn.Run{State: app.RunRunning, Hello: noon, Running: noon, Beat: noon, Progress: "writing tests"}
	if edit != nil {
		edit(r)
	}
	return r
}

func waits(labels ...string) func(*turn.Run) {
	return func(r *turn.Run) {
		r.Waiting, r.WaitSince, r.WaitUntil = labels, noon.Add(-130*time.Second), noon.Add(time.Second)
	}
}

func TestTheSubstateAnswersWhoIsActive(t *testing.T) {
	req.Covers(t, "OB-019", "OB-022", "OB-023", "OB-024", "OB-036")
	work := app.Live{Status: task.Working, Kind: string(turn.Work)}
	kind := func(k turn.Kind) app.Live { return app.Live{Status: task.Working, Kind: string(k)} }
	for name, c := range map[string]struct {
		l    app.Live
		run  *turn.Run
		want string
	}{
		"starting":                   {work, &turn.Run{State: app.RunClaimed}, "working"},
		"preparing the workspace":    {work, &turn.Run{State: app.RunPrepared}, "working"},
		"launching":                  {work, &turn.Run{State: app.RunLaunching}, "working(launching)"},
		"launched, no hello yet":     {work, &turn.Run{State: app.RunLaunched}, "working(launching)"},
		"an hour of image building":  {work, &turn.Run{State: app.RunLaunching, Launched: noon.Add(-time.Hour)}, "working(launching)"},
		"the harness at work":        {work, alive(func(r *turn.Run) { r.Phase = "setup" }), "working(harness:setup)"},
		"retrying":                   {work, alive(func(r *turn.Run) { r.Retry = "attempt 2 (transient_overload): busy" }), "working(harness:retrying: attempt 2 (transient_overload): busy)"},
		"the agent":                  {work, alive(func(r *turn.Run) { r.Progress = "" }), "working(agent)"},
		"the agent with a line":      {work, alive(nil), "working(agent: writing tests)"},
		"answering":                  {kind(turn.Ask), alive(nil), "working(agent:answering: writing tests)"},
		"reviewing":                  {kind(turn.Review), alive(func(r *turn.Run) { r.Progress = "" }), "working(agent:reviewing)"},
		"waiting on one":             {work, alive(func(r *turn.Run) { waits("a")(r); r.Progress = "" }), "working(waiting on a (2m10s))"},
		"waiting on two":             {work, alive(func(r *turn.Run) { waits("a", "b")(r); r.Progress = "" }), "working(waiting on a, b (2m10s))"},
		"waiting on four":            {work, alive(func(r *turn.Run) { waits("a", "b", "c", "d")(r); r.Progress = "" }), "working(waiting on a, b +2 (2m10s))"},
		"waiting with a line":        {work, alive(waits("a")), "working(waiting on a (2m10s): writing tests)"},
		"a wait that died":           {work, alive(func(r *turn.Run) { waits("a")(r); r.WaitUntil = noon }), "working(agent: writing tests)"},
		"gone":                       {work, alive(func(r *turn.Run) { r.State = app.RunGone }), "working(not-alive)"},
		"collecting an answer":       {work, alive(func(r *turn.Run) { r.State = app.RunReported }), "working"},
		"the accept gate":            {kind(turn.Gate), alive(nil), "working"},
		"liveness unknown":           {work, alive(func(r *turn.Run) { r.Beat = noon.Add(-61 * time.Second) }), "working"},
		"no run on record":           {work, nil, "working"},
		"a resting task":             {app.Live{Status: task.Blocked, Kind: string(turn.Work)}, alive(nil), "blocked"},
		"conflict in people's words": {app.Live{Status: task.Conflict}, nil, "conflict (protected files)"},
	} {
		if got := app.WithStatus(c.l, c.run, noon); got != c.want {
			t.Errorf("%s reads %q, want %q", name, got, c.want)
		}
		sub := app.Substate(c.l, c.run, noon)
		if strings.Contains(sub, "writing tests") || !strings.Contains(c.want, sub) {
			t.Errorf("%s has the substate %q beside %q", name, sub, c.want)
		}
	}
}

func TestSubstatesGiveWayInOneOrder(t *testing.T) {
	req.Covers(t, "OB-026")
	// Each row of the order, strongest first, with what makes it true. Whatever
	// weaker rows are true as well, the strongest decides.
	rows := []struct {
		want string
		set  func(*app.Live, *turn.Run)
	}{
		{"launching", func(_ *app.Live, r *turn.Run) { r.State = app.RunLaunching }},
		{"not-alive", func(_ *app.Live, r *turn.Run) { r.State = app.RunGone }},
		{"harness:setup", func(_ *app.Live, r *turn.Run) { r.Phase = "setup" }},
		{"waiting on a (2m10s)", func(_ *app.Live, r *turn.Run) { waits("a")(r) }},
		{"agent:answering", func(l *app.Live, _ *turn.Run) { l.Kind = string(turn.Ask) }},
		{"agent", func(*app.Live, *turn.Run) {}},
	}
	for mask := range 1 << len(rows) {
		mask |= 1 << (len(rows) - 1)
		l, r := app.Live{Status: task.Working, Kind: string(turn.Work)}, alive(nil)
		want := ""
		// Weaker rows first, so that the stronger ones have the last word on a
		// field they share.
		for i, row := range slices.Backward(rows) {
			if mask&(1<<i) != 0 {
				row.set(&l, r)
				want = row.want
			}
		}
		if got := app.Substate(l, r, noon); got != want {
			t.Errorf("combination %06b reads %q, want %q", mask, got, want)
		}
	}
}

func TestADeclarationReadsTheSameEverywhere(t *testing.T) {
	req.Covers(t, "WF-15", "TE-012")
	d := &task.Declaration{SHA: "0123456789abcdef"}
	for want, got := range map[string]string{
		"not declared":               app.FinalText(nil),
		"declared final at 01234567": app.FinalText(d),
		"declared final at 01234567; head has since moved (sync)": app.FinalText(&task.Declaration{SHA: d.SHA, Moved: true, MovedBy: "sync"}),
		"unresolved merge — a.go, b.go":                           app.MergeState([]string{"a.go", "b.go"}),
		"":                                                        app.MergeState(nil),
	} {
		if got != want {
			t.Errorf("reads %q, want %q", got, want)
		}
	}
}
