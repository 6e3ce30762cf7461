package task_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// pairs is the specification's own list of the 49 allowed pairs, kept apart from
// the table so that a slip in one shows.
var pairs = map[task.Status][]task.Status{
	task.Backlog:     {task.Working, task.Blocked, task.Abandoned, task.Zombie},
	task.Working:     {task.Blocked, task.Conflict, task.Submitted, task.Interrupted, task.Merging, task.Zombie},
	task.Blocked:     {task.Working, task.Conflict, task.Pairing, task.Submitted, task.Merging, task.Abandoned, task.Backlog, task.Zombie},
	task.Conflict:    {task.Working, task.Blocked, task.Pairing, task.Submitted, task.Merging, task.Abandoned, task.Zombie},
	task.Submitted:   {task.Working, task.Merging, task.Pairing, task.Abandoned, task.Blocked, task.Zombie},
	task.Interrupted: {task.Working, task.Pairing, task.Merging, task.Abandoned, task.Zombie},
	task.Pairing:     {task.Blocked, task.Conflict, task.Zombie},
	task.Merging:     {task.Complete, task.Blocked, task.Conflict, task.Submitted, task.Zombie},
	task.Zombie:      {task.Complete},
	task.Complete:    {task.Blocked, task.Backlog},
	task.Abandoned:   {task.Backlog, task.Blocked},
}

func triggers() []task.Trigger {
	var out []task.Trigger
	for _, e := range task.Edges() {
		for _, on := range e.On {
			if !slices.Contains(out, on) {
				out = append(out, on)
			}
		}
	}
	return out
}

// everyFacts walks the facts that guards can tell apart. Each edge has one guard,
// so switches that no guard combines are thrown together.
func everyFacts(yield func(task.Facts)) {
	for _, prior := range []task.Status{task.None, task.Blocked, task.Conflict, task.Submitted} {
		for _, pending := range []int{0, 2} {
			for _, on := range []bool{false, true} {
				f := task.Facts{Prior: prior, Pending: pending, Session: on, Commits: on, HoldsEpoch: on, Input: on, Held: on}
				if on {
					f.TurnAge = time.Hour
				}
				yield(f)
			}
		}
	}
}

func TestExactlyTheListedPairsCanEverBeMoved(t *testing.T) {
	req.Covers(t, "SM-001", "SM-022", "SM-027", "SM-030", "SM-035")
	got := map[[2]task.Status]bool{}
	for _, from := range task.Statuses() {
		for _, to := range task.Statuses() {
			for _, on := range triggers() {
				for _, by := range identity.Roles() {
					everyFacts(func(f task.Facts) {
						if _, err := task.Allowed(task.Move{From: from, To: to, On: on, By: by, Facts: f}); err == nil {
							got[[2]task.Status{from, to}] = true
						}
					})
				}
			}
		}
	}
	want := 0
	for from, tos := range pairs {
		for _, to := range tos {
			want++
			if !got[[2]task.Status{from, to}] {
				t.Errorf("no trigger ever moves %s to %s", from, to)
			}
			delete(got, [2]task.Status{from, to})
		}
	}
	if want != 49 || len(task.Statuses()) != 11 {
		t.Fatalf("the specification lists 49 pairs of 11 statuses, the test has %d of %d", want, len(task.Statuses()))
	}
	for p := range got {
		t.Errorf("%s to %s is possible and must not be", p[0], p[1])
	}
}

func TestOnlyTheSystemSetsZombie(t *testing.T) {
	req.Covers(t, "SM-018", "SM-035")
	for _, e := range task.Edges() {
		if (e.To == task.Zombie || e.From == task.Zombie) && !slices.Equal(e.By, []identity.Role{identity.System}) {
			t.Errorf("%s lets %v at zombie", e.ID, e.By)
		}
	}
}

func TestARefusedMoveNamesBothStatusesAndWhatTheVerbAppliesTo(t *testing.T) {
	req.Covers(t, "SM-022", "SM-026", "SM-028")
	for _, c := range []struct {
		from, to task.Status
		on       task.Trigger
		says     string
	}{
		{task.Submitted, task.Working, task.Resume, "interrupted"},
		{task.Submitted, task.Working, task.Ask, "blocked"},
		{task.Working, task.Pairing, task.Pair, "blocked"},
		{task.Working, task.Abandoned, task.Reject, "blocked"},
		{task.Blocked, task.Complete, task.Accept, "blocked"},
	} {
		_, err := task.Allowed(task.Move{From: c.from, To: c.to, On: c.on, By: identity.Human})
		if !refusal.Is(err, refusal.StatusNotAllowed) || fault.HTTP(err) != 409 {
			t.Fatalf("%s on %s: got %v, want status_not_allowed", c.on, c.from, err)
		}
		e := fault.Of(err)
		if !strings.Contains(e.Public, string(c.from)) || !strings.Contains(e.Public, c.says) ||
			e.Details["from"] != string(c.from) || e.Details["to"] != string(c.to) {
			t.Errorf("%s on %s says %q %v", c.on, c.from, e.Public, e.Details)
		}
	}
}

func TestAGuardThatFailsSaysWhatIsMissing(t *testing.T) {
	_, err := task.Allowed(task.Move{From: task.Blocked, To: task.Merging, On: task.Accept, By: identity.Human, Facts: task.Facts{Pending: 1}})
	if fault.HTTP(err) != 409 || !strings.Contains(fault.Of(err).Public, string(task.GuardNothingPending)) {
		t.Errorf("got %v", err)
	}
}

func TestTheLabelIsComputedFromWhatIsPending(t *testing.T) {
	req.Covers(t, "SM-008", "SM-009", "SM-013", "SM-025", "PF-009")
	for _, c := range []struct {
		prior               task.Status
		pending             int
		rest, restore, undo task.Status
	}{
		{task.Blocked, 0, task.Blocked, task.Blocked, task.Blocked},
		{task.Blocked, 1, task.Conflict, task.Conflict, task.Conflict},
		{task.Conflict, 0, task.Blocked, task.Blocked, task.Conflict},
		{task.Conflict, 2, task.Conflict, task.Conflict, task.Conflict},
		{task.Submitted, 0, task.Blocked, task.Submitted, task.Submitted},
		{task.Submitted, 1, task.Conflict, task.Conflict, task.Conflict},
		{task.Interrupted, 0, task.Blocked, task.Blocked, task.Interrupted},
	} {
		if got := task.Rest(c.pending); got != c.rest {
			t.Errorf("Rest(%d) = %s, want %s", c.pending, got, c.rest)
		}
		if got := task.Restore(c.prior, c.pending); got != c.restore {
			t.Errorf("Restore(%s, %d) = %s, want %s", c.prior, c.pending, got, c.restore)
		}
		if got := task.Undo(c.prior, c.pending); got != c.undo {
			t.Errorf("Undo(%s, %d) = %s, want %s", c.prior, c.pending, got, c.undo)
		}
	}
}

func TestNoRequestCanSetConflict(t *testing.T) {
	req.Covers(t, "SM-008")
	for _, e := range task.Edges() {
		if e.To != task.Conflict {
			continue
		}
		everyFacts(func(f task.Facts) {
			if f.Pending > 0 || f.Prior == task.Conflict {
				return
			}
			for _, on := range e.On {
				for _, by := range e.By {
					if _, err := task.Allowed(task.Move{From: e.From, To: e.To, On: on, By: by, Facts: f}); err == nil {
						t.Fatalf("%s reaches conflict with nothing pending and no conflict before", e.ID)
					}
				}
			}
		})
	}
}

func TestCategories(t *testing.T) {
	req.Covers(t, "SM-019", "SM-020")
	for s, want := range map[task.Status][3]bool{ // terminal, waiting, active
		task.Backlog: {}, task.Zombie: {},
		task.Complete: {true, false, false}, task.Abandoned: {true, false, false},
		task.Blocked: {false, true, false}, task.Conflict: {false, true, false}, task.Submitted: {false, true, false},
		task.Working: {false, false, true}, task.Interrupted: {false, false, true},
		task.Pairing: {false, false, true}, task.Merging: {false, false, true},
	} {
		if got := [3]bool{s.Terminal(), s.Waiting(), s.Active()}; got != want {
			t.Errorf("%s is terminal, waiting, active = %v, want %v", s, got, want)
		}
	}
	for _, e := range task.Edges() {
		if e.From.Terminal() && !slices.Equal(e.On, []task.Trigger{task.Reopen}) {
			t.Errorf("%s leads out of %s by %v", e.ID, e.From, e.On)
		}
	}
}

func TestOnlyTextForPeopleExplainsConflict(t *testing.T) {
	req.Covers(t, "SM-001")
	for _, s := range task.Statuses() {
		want := string(s)
		if s == task.Conflict {
			want = "conflict (protected files)"
		}
		if s.Words() != want {
			t.Errorf("%s reads %q", s, s.Words())
		}
		if got, ok := task.ParseStatus(string(s)); !ok || got != s {
			t.Errorf("%s does not parse", s)
		}
	}
	if _, ok := task.ParseStatus("closed"); ok {
		t.Error("closed is no status")
	}
	if _, ok := task.ParseStatus(""); ok {
		t.Error("nothing is no status")
	}
}

func TestApplyRecordsTheMoveAndLeavesItsArgumentAlone(t *testing.T) {
	req.Covers(t, "SM-023", "AC-001")
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	who := identity.Actor{Role: identity.Human, Email: "a@x", Name: "A"}
	was := task.Task{Status: task.Blocked, Version: 7, Violations: []task.Violation{{Path: "x", Approved: true}}}
	got, h, err := task.Apply(was, task.Change{
		To: task.Working, On: task.Unblock, Actor: who, Facts: task.Facts{Input: true}, Reason: "r", Turn: "t1", ID: "h1", At: at,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := task.History{
		ID: "h1", From: task.Blocked, To: task.Working, Trigger: task.Unblock, Edge: "TR-22", Actor: who,
		Turn: "t1", Reason: "r", Version: 8, At: at,
	}
	if h != want {
		t.Errorf("history is %+v, want %+v", h, want)
	}
	if got.Status != task.Working || got.Version != 8 || !got.Updated.Equal(at) ||
		got.Last != (task.Act{Actor: who, Did: "unblock", At: at}) {
		t.Errorf("task is %+v", got)
	}
	if was.Status != task.Blocked || was.Version != 7 {
		t.Error("Apply changed its argument")
	}
	if _, _, err := task.Apply(was, task.Change{To: task.Working, On: task.Unblock, Actor: who}); err == nil {
		t.Error("an unblock without words moved the task")
	}
}

func TestApplyTakesGuardsFactsFromTheTaskItself(t *testing.T) {
	req.Covers(t, "SM-006", "SM-007")
	two := task.Task{Status: task.Conflict, Violations: []task.Violation{{Path: "a", Approved: true}, {Path: "b"}}}
	c := task.Change{To: task.Merging, On: task.Accept, Actor: identity.Actor{Role: identity.Human}, Facts: task.Facts{Pending: 0}}
	if _, _, err := task.Apply(two, c); err == nil {
		t.Error("an accept passed with one of two violations approved")
	}
	two.Violations[1].Approved = true
	if _, _, err := task.Apply(two, c); err != nil {
		t.Errorf("an accept with all approved: %v", err)
	}
	if two.Pending() != 0 {
		t.Errorf("Pending = %d", two.Pending())
	}
	prior := task.Task{Status: task.Merging, Prior: task.Submitted}
	abort := task.Change{To: task.Submitted, On: task.Aborted, Actor: identity.SystemActor()}
	if _, _, err := task.Apply(prior, abort); err != nil {
		t.Errorf("the recorded prior status was not used: %v", err)
	}
	abort.Facts.Prior = task.Blocked
	if _, _, err := task.Apply(prior, abort); err == nil {
		t.Error("an explicit prior status was ignored")
	}
	had := task.Task{Status: task.Complete, HadSession: true}
	back := task.Change{To: task.Backlog, On: task.Reopen, Actor: identity.Actor{Role: identity.Human}}
	if _, _, err := task.Apply(had, back); err == nil {
		t.Error("a task that had a session went back to the backlog")
	}
}

func TestADeadTurnNeedsItsGrace(t *testing.T) {
	req.Covers(t, "SY-016")
	m := task.Move{From: task.Working, To: task.Interrupted, On: task.RunnerGone, By: identity.System}
	for age, ok := range map[time.Duration]bool{0: false, 30*time.Second - 1: false, 30 * time.Second: true, time.Hour: true} {
		m.Facts.TurnAge = age
		if _, err := task.Allowed(m); (err == nil) != ok {
			t.Errorf("a turn of %s: allowed = %t, want %t", age, err == nil, ok)
		}
	}
}

func TestRandomWalksNeverLeaveTheTable(t *testing.T) {
	req.Covers(t, "SM-022", "SM-027", "P2")
	rapid.Check(t, func(r *rapid.T) {
		tk := task.Task{Status: task.Backlog, Version: 1}
		for range rapid.IntRange(1, 40).Draw(r, "moves") {
			pend := rapid.IntRange(0, 2).Draw(r, "pending")
			tk.Violations = make([]task.Violation, pend)
			was := tk
			c := task.Change{
				To:    rapid.SampledFrom(task.Statuses()).Draw(r, "to"),
				On:    rapid.SampledFrom(triggers()).Draw(r, "on"),
				Actor: identity.Actor{Role: rapid.SampledFrom(identity.Roles()).Draw(r, "by")},
				Facts: task.Facts{
					Input: rapid.Bool().Draw(r, "input"), Commits: rapid.Bool().Draw(r, "commits"),
					TurnAge: time.Minute, HoldsEpoch: true,
				},
			}
			next, h, err := task.Apply(tk, c)
			if err != nil {
				if next.Status != was.Status || next.Version != was.Version || h != (task.History{}) {
					r.Fatalf("a refused %s changed something", c.On)
				}
				continue
			}
			if !slices.Contains(pairs[was.Status], next.Status) {
				r.Fatalf("%s to %s by %s is not in the list", was.Status, next.Status, c.On)
			}
			if next.Version != was.Version+1 || h.Version != next.Version || h.From != was.Status || h.To != next.Status {
				r.Fatalf("%+v does not describe the move", h)
			}
			if was.Status != task.Working && next.Status == task.Merging {
				next.Prior = was.Status
			}
			tk = next
		}
	})
}

func TestEveryStatusIsReachableAndEveryIDUnique(t *testing.T) {
	seen := map[string]bool{}
	reached := map[task.Status]bool{}
	for _, e := range task.Edges() {
		if seen[e.ID] || e.Why == "" || len(e.On) == 0 || len(e.By) == 0 {
			t.Errorf("%s is twice in the table, or says nothing", e.ID)
		}
		seen[e.ID] = true
		reached[e.To] = true
	}
	if len(seen) != 73 {
		t.Errorf("the table has %d rows, want 73", len(seen))
	}
	for _, s := range task.Statuses() {
		if !reached[s] {
			t.Errorf("nothing leads to %s", s)
		}
	}
}

func TestWhereAVerbApplies(t *testing.T) {
	req.Covers(t, "HA-003", "HA-005")
	for on, want := range map[task.Trigger][]task.Status{
		task.Start:   {task.Backlog},
		task.Unblock: {task.Blocked, task.Conflict, task.Submitted, task.Interrupted},
		task.Resume:  {task.Blocked, task.Conflict, task.Interrupted},
		task.Accept:  {task.Blocked, task.Conflict, task.Submitted},
		task.Close:   {task.Backlog, task.Blocked, task.Conflict, task.Submitted, task.Interrupted},
		task.Reopen:  {task.Complete, task.Abandoned},
	} {
		if got := task.From(on, identity.Human); !slices.Equal(got, want) {
			t.Errorf("%s applies to %v, want %v", on, got, want)
		}
	}
	if got := task.From(task.Pair, identity.Agent); len(got) != 0 {
		t.Errorf("an agent can pair on %v", got)
	}
}

func TestTheDrawingIsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "states.md")
	want := task.Document()
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/states.md is stale; run: UPDATE=1 go test ./pkg/task")
	}
	if strings.Count(want, "\n    ") < 49 {
		t.Error("the drawing lacks pairs")
	}
}

func TestATaskIsCalledByItsCode(t *testing.T) {
	tk := task.Task{ID: "3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10"}
	if tk.Name() != "3f2a9c1e" {
		t.Errorf("a task without a code is called %q", tk.Name())
	}
	tk.Code = "fix-login"
	if tk.Name() != "fix-login" {
		t.Errorf("a task with a code is called %q", tk.Name())
	}
}
