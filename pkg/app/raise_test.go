package app_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// raised files an item by the agent of a working task.
func (r *rig) raised(tid id.Task, title string, blocking bool) string {
	r.t.Helper()
	out := do[app.Raised](r, r.agent(tid), "lazy_raise", args{
		"title": title, "content": "About " + title, "blocking": blocking, "proposed_prompt": "Do " + title,
	})
	return out.RaisedID
}

func resolve(rid, action string, more ...string) args {
	in := args{"raised_id": rid, "action": action}
	for i := 0; i+1 < len(more); i += 2 {
		in[more[i]] = more[i+1]
	}
	return in
}

func resolutions(rs ...args) args { return args{"raised_resolutions": rs} }

func (r *rig) item(tid id.Task, n int) raise.Item {
	r.t.Helper()
	return rows[raise.Item](r, tid, "RSD#")[n-1]
}

func TestRaisingChangesNothingButTheRecord(t *testing.T) {
	req.Covers(t, "RI-001", "RI-003", "MC-008")
	r := newRig(t)
	tid := r.working("task", "")
	r.quiet(tid, func() {
		if got := r.raised(tid, "Which colour?", true); got != tid.Short()+"-r1" {
			t.Errorf("the item is %s", got)
		}
	})
	if got := r.load(tid); got.Comments != 0 || got.Raised != 1 || got.Open != 1 || got.Blocking != 1 {
		t.Errorf("counters: %+v", got)
	}
	in := args{"title": "t", "content": "c", "blocking": false}
	err := r.refused(r.builder(), refusal.AgentOnly, "lazy_raise", in)
	if err == nil || !strings.Contains(err.Error(), "no") || !says(err, "", "lazy_raised_items") {
		t.Errorf("the builder was told %v", err)
	}
	if _, ok := r.ops.Command("lazy_raise"); ok {
		t.Error("people can raise")
	}
}

func TestBlockingHasToBeSaid(t *testing.T) {
	req.Covers(t, "RI-002", "MC-007")
	r := newRig(t)
	tid := r.working("task", "")
	r.refused(r.agent(tid), refusal.BlockingRequired, "lazy_raise", args{"title": "t", "content": "c"})
	r.refused(r.agent(tid), refusal.BlockingRequired, "lazy_raise", args{"title": "t", "content": "c", "blocking": nil})
	r.refused(r.agent(tid), refusal.InvalidArguments, "lazy_raise", args{"title": "t", "content": "c", "blocking": "yes"})
}

func TestAnItemIsDecidedInFourWaysByPeopleAndBuilders(t *testing.T) {
	req.Covers(t, "RI-004", "RI-010", "RI-011", "MC-009")
	r := newRig(t)
	for _, who := range []identity.Caller{r.owner(), r.builder()} {
		up := r.create("up", "").TaskID
		tid := r.working("task", up)
		for i := range 4 {
			r.raised(tid, "item "+string(rune('a'+i)), true)
		}
		rid := func(n string) string { return tid.Short() + "-r" + n }
		if part := do[app.Shown](r, who, "showTask", args{"task_id": string(tid)}).Raised; part == nil || part.Total != 4 ||
			part.Items[0].RaisedID != rid("1") || part.Items[0].State != app.ItemOpen || !part.Items[0].Blocking {
			t.Errorf("the task shows %+v", part)
		}
		out := do[app.Resolutions](r, who, "resolveRaised", resolutions(
			resolve(rid("1"), "respond", "response", "blue"),
			resolve(rid("2"), "promote_subtask"),
			resolve(rid("3"), "promote_peer", "goal", "Another goal", "prompt", "Another prompt"),
			resolve(rid("4"), "dismiss"),
		))
		if len(out.Items) != 4 || out.Blocking != 0 {
			t.Fatalf("resolved: %+v", out)
		}
		got := r.load(tid)
		if got.Open != 0 || got.Blocking != 0 || got.Raised != 4 {
			t.Errorf("counters: %d open, %d blocking", got.Open, got.Blocking)
		}
		for n, want := range []string{"respond", "promote_subtask", "promote_peer", "dismiss"} {
			i := r.item(tid, n+1)
			if i.State != app.ItemResolved || i.Resolution.Action != want || i.Resolution.Actor.Role != (app.Call{Who: who}).Actor().Role {
				t.Errorf("item %d: %+v", n+1, i)
			}
		}
		if i := r.item(tid, 1); i.Resolution.Response != "blue" {
			t.Errorf("the answer is %q", i.Resolution.Response)
		}
		sub, peer := r.load(out.Items[1].TaskID), r.load(out.Items[2].TaskID)
		if sub.Parent != tid || sub.Status != task.Backlog || sub.Goal != "item b" || sub.Target != got.Branch {
			t.Errorf("subtask: %+v", sub)
		}
		if p, err := r.Body(t.Context(), sub, sub.Prompt); err != nil || p != "Do item b" {
			t.Errorf("its prompt is %q, %v", p, err)
		}
		if peer.Parent != up || peer.Status != task.Backlog || peer.Goal != "Another goal" || peer.HadSession {
			t.Errorf("peer: %+v", peer)
		}
		if h := rows[task.History](r, peer.ID, "HIS#"); len(h) != 1 || h[0].To != task.Backlog {
			t.Errorf("its history: %+v", h)
		}
		live := do[app.Listing](r, r.owner(), "listTasks", args{})
		for _, want := range []id.Task{sub.ID, peer.ID} {
			found := false
			for _, l := range live.Tasks {
				found = found || l.TaskID == want
			}
			if !found {
				t.Errorf("%s is not listed", want)
			}
		}
		r.park(tid)
		r.finish(tid, task.Abandoned)
	}
}

func TestAgentsDecideNoItem(t *testing.T) {
	req.Covers(t, "RI-005", "RI-006")
	r := newRig(t)
	self := r.working("self", "")
	kid := r.working("kid", self)
	mine, theirs := r.raised(self, "own", true), r.raised(kid, "child's", true)
	me := r.agent(self)
	for _, rid := range []string{mine, theirs} {
		r.refused(me, refusal.RaisedSelf, "lazy_raised_resolve", resolutions(resolve(rid, "dismiss")))
		off := resolve(rid, "set_blocking")
		off["blocking"] = false
		r.refused(me, refusal.RaisedSelf, "lazy_raised_resolve", resolutions(off))
		err := r.refused(me, refusal.BuilderOnly, "lazy_raised_promote", args{"raised_id": rid, "as": "subtask"})
		if err == nil || !strings.Contains(err.Error(), "lazy_raise") {
			t.Errorf("the refusal is %v", err)
		}
	}
	r.park(kid)
	with := args{"task_id": string(kid), "raised_resolutions": []args{resolve(theirs, "dismiss")}}
	r.refused(me, refusal.RaisedSelf, "lazy_accept", with)
	with["feedback"] = "f"
	r.refused(me, refusal.RaisedSelf, "lazy_unblock", with)
}

func TestPromotingNeverStarts(t *testing.T) {
	req.Covers(t, "RI-010", "OT-001")
	r := newRig(t)
	tid := r.working("task", "")
	a, b := r.raised(tid, "same", false), r.raised(tid, "same", false)
	execs := r.engine.started()
	one := do[app.Created](r, r.builder(), "lazy_raised_promote", args{"raised_id": a, "as": "subtask"})
	two := do[app.Resolutions](r, r.owner(), "resolveRaised", resolutions(resolve(b, "promote_peer")))
	if one.Status != task.Backlog || r.load(one.TaskID).Status != task.Backlog || r.load(two.Items[0].TaskID).Status != task.Backlog {
		t.Error("a promoted task left backlog")
	}
	if one.Code != "same" || two.Items[0].Code != "same-2" || r.engine.started() != execs {
		t.Errorf("%+v and %+v", one, two)
	}
}

func TestBlockingCanBeChangedWhileOpen(t *testing.T) {
	r := newRig(t)
	tid := r.working("task", "")
	rid := r.raised(tid, "item", false)
	set := func(on bool) app.Resolutions {
		return do[app.Resolutions](r, r.owner(), "setRaisedBlocking", args{"raised_id": rid, "blocking": on})
	}
	if out := set(true); out.Blocking != 1 || r.load(tid).Blocking != 1 {
		t.Errorf("on: %+v", out)
	}
	if out := set(true); out.Blocking != 1 {
		t.Errorf("on again: %+v", out)
	}
	if out := set(false); out.Blocking != 0 || r.load(tid).Open != 1 {
		t.Errorf("off: %+v", out)
	}
}

func TestAnItemIsDecidedOnceAndTheSecondIsToldByWhom(t *testing.T) {
	req.Covers(t, "B44", "OT-045")
	r := newRig(t)
	tid := r.working("task", "")
	rid := r.raised(tid, "item", true)
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		c := r.call(r.owner())
		wg.Go(func() {
			raw, _ := json.Marshal(resolutions(resolve(rid, "promote_subtask")))
			_, err := r.op("resolveRaised").Call(t.Context(), r.App, c, raw)
			switch {
			case err == nil:
				won.Add(1)
			case fault.KindOf(err) == fault.Conflict && strings.Contains(err.Error(), "Ada <ada@example.com>") && strings.Contains(err.Error(), "promote_subtask"):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 15 {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
	if got := r.load(tid); got.Open != 0 || got.Blocking != 0 {
		t.Errorf("counters: %+v", got)
	}
	if l := do[app.Listing](r, r.owner(), "listTasks", args{}); len(l.Tasks) != 2 {
		t.Errorf("%d tasks, want the task and one promoted", len(l.Tasks))
	}
}

func TestDecisionsAreAllOrNothing(t *testing.T) {
	req.Covers(t, "OT-044", "HA-032")
	r := newRig(t)
	tid, other := r.working("task", ""), r.working("other", "")
	one, two, foreign := r.raised(tid, "one", true), r.raised(tid, "two", true), r.raised(other, "foreign", true)
	for what, in := range map[string][]args{
		"a blank answer":    {resolve(one, "dismiss"), resolve(two, "respond", "response", "  ")},
		"an unknown item":   {resolve(one, "dismiss"), resolve(tid.Short()+"-r9", "dismiss")},
		"an item twice":     {resolve(one, "dismiss"), resolve(one, "promote_peer")},
		"an unknown action": {resolve(one, "dismiss"), resolve(two, "forget")},
		"another task's":    {resolve(one, "promote_subtask"), resolve(foreign, "dismiss")},
	} {
		before := r.snapshot()
		if _, err := r.try(r.call(r.owner()), "resolveRaised", resolutions(in...)); err == nil {
			t.Errorf("%s was let through", what)
		}
		r.unchanged(before)
	}
}

func TestDecisionsRideInTheTransactionTheyBelongTo(t *testing.T) {
	req.Covers(t, "RI-012")
	r := newRig(t)
	tid := r.working("task", "")
	rid := r.raised(tid, "item", true)
	rs := []app.Resolution{{Raised: rid, Action: app.PromoteSubtask}}
	before := r.snapshot()
	gate := errors.New("the gate after it")
	if err := r.Decide(t.Context(), r.call(r.owner()), tenant, tid, rs, gate); !errors.Is(err, gate) {
		t.Errorf("deciding answered %v", err)
	}
	r.unchanged(before)
	version := r.load(tid).Version
	if err := r.Decide(t.Context(), r.call(r.owner()), tenant, tid, rs, nil); err != nil {
		t.Fatal(err)
	}
	if got := r.load(tid); got.Version != version+1 || got.Open != 0 {
		t.Errorf("the task is %+v", got)
	}
	if i := r.item(tid, 1); i.State != app.ItemResolved {
		t.Errorf("the item is %+v", i)
	}
	err := r.Decide(t.Context(), r.call(r.agent(tid)), tenant, tid, rs, nil)
	if !refusal.Is(err, refusal.RaisedSelf) {
		t.Errorf("an agent got %v", err)
	}
}

func TestAcceptNeedsEveryBlockingItemDecided(t *testing.T) {
	req.Covers(t, "RI-007", "RI-009")
	r := newRig(t)
	tid := r.working("task", "")
	one, two := r.raised(tid, "one", true), r.raised(tid, "two", true)
	r.raised(tid, "by the way", false)
	tip := r.repo.commit(r.load(tid).Tip, "work", map[string]string{"a.txt": "a\n"})
	r.commit(tid, tip)
	r.park(tid)
	in := args{"task_id": "task", "raised_resolutions": []args{resolve(one, "dismiss")}}
	err := r.refused(r.builder(), refusal.RaisedUnresolved, "lazy_accept", in)
	if err == nil || !strings.Contains(err.Error(), two) || strings.Contains(err.Error(), one) {
		t.Errorf("the refusal does not list exactly the uncovered ids: %v", err)
	}
	in["raised_resolutions"] = []args{resolve(one, "dismiss"), resolve(two, "respond", "response", "yes")}
	out := do[app.Accepted](r, r.owner(), "acceptTask", in)
	if out.Status != "merging" {
		t.Errorf("accept answered %+v", out)
	}
	got := r.load(tid)
	if got.Blocking != 0 || got.Open != 1 || r.item(tid, 2).Resolution.Response != "yes" || r.item(tid, 3).State != app.ItemOpen {
		t.Errorf("after accept: %+v", got)
	}
}

func TestItemsAreListedToEveryoneAndDecidedByNobodyThere(t *testing.T) {
	req.Covers(t, "RI-013")
	r := newRig(t)
	tid, other := r.working("task", ""), r.working("other", "")
	one := r.raised(tid, "one", true)
	r.raised(tid, "two", false)
	do[app.Resolutions](r, r.owner(), "resolveRaised", resolutions(resolve(one, "dismiss", "response", "no")))
	before := r.snapshot()
	for _, who := range []identity.Caller{r.owner(), r.operator(), r.builder(), r.agent(other)} {
		if l := do[app.RaisedList](r, who, "listRaised", args{}); len(l.Items) != 1 || l.Items[0].Title != "two" || l.Items[0].Proposed != "Do two" {
			t.Errorf("%s sees %+v", who.Kind, l.Items)
		}
		if l := do[app.RaisedList](r, who, "lazy_raised_items", args{"task_id": "task", "state": "all"}); len(l.Items) != 2 || l.Items[0].Resolution.Response != "no" {
			t.Errorf("%s sees of the task %+v", who.Kind, l.Items)
		}
	}
	r.unchanged(before)
	if i := do[app.RaisedShown](r, r.owner(), "showRaised", args{"raised_id": one}); i.Title != "one" || i.State != app.ItemResolved {
		t.Errorf("shown: %+v", i)
	}
	r.refused(r.owner(), refusal.NotFound, "showRaised", args{"raised_id": "nonsense"})
	r.refused(r.stranger(), refusal.NotFound, "showRaised", args{"raised_id": one})
}
