package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func codes(l app.Listing) string {
	var out []string
	for _, r := range l.Tasks {
		s := r.Code
		if r.Hidden > 0 {
			s += fmt.Sprintf("+%d", r.Hidden)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestCategoriesAreThreeAndTwoStatusesBelongToNone(t *testing.T) {
	req.Covers(t, "SM-020")
	for _, s := range task.Statuses() {
		n := 0
		for _, in := range []bool{s.Terminal(), s.Waiting(), s.Active()} {
			if in {
				n++
			}
		}
		want := 1
		if s == task.Backlog || s == task.Zombie {
			want = 0
		}
		if n != want {
			t.Errorf("%s is in %d categories", s, n)
		}
	}
	r := newRig(t)
	r.create("waiting-to-start", "")
	parked := r.working("parked", "")
	r.park(parked)
	r.working("busy", "")
	if got := codes(do[app.Listing](r, r.owner(), "listActive", args{})); got != "busy" {
		t.Errorf("active: %s", got)
	}
	blocked := do[app.Listing](r, r.owner(), "listBlocked", args{})
	if codes(blocked) != "parked" {
		t.Errorf("blocked: %s", codes(blocked))
	}
}

func TestListsAndLookUpsShowEveryAcknowledgedWrite(t *testing.T) {
	req.Covers(t, "OT-047", "RP-028")
	r := newRig(t) // its indexes lag until they are settled
	tid := r.create("fresh", "").TaskID
	seen := func(want task.Status) {
		t.Helper()
		l := do[app.Listing](r, r.owner(), "listTasks", args{})
		if len(l.Tasks) != 1 || l.Tasks[0].Status != want || l.AsOf != "" {
			t.Errorf("list: %+v", l)
		}
		for _, word := range []string{"fresh", tid.Short(), string(tid), "FRESH "} {
			if s := do[app.Shown](r, r.owner(), "showTask", args{"task_id": word}); s.Status != want {
				t.Errorf("%s is %s, want %s", word, s.Status, want)
			}
		}
	}
	seen(task.Backlog)
	r.start(tid)
	seen(task.Working)
	r.park(tid)
	seen(task.Blocked)
	r.finish(tid, task.Complete)
	if l := do[app.Listing](r, r.owner(), "listTasks", args{}); len(l.Tasks) != 0 {
		t.Errorf("a finished task is listed as live: %+v", l)
	}
	// The history may lag, and says as of when.
	past := args{"status": []string{"complete", "abandoned"}}
	if l := do[app.Listing](r, r.owner(), "listTasks", past); l.AsOf == "" {
		t.Error("the history does not say as of when")
	}
	r.lag.Settle()
	if l := do[app.Listing](r, r.owner(), "listTasks", past); len(l.Tasks) != 1 || l.Tasks[0].Status != task.Complete {
		t.Errorf("history: %+v", l)
	}
	if s := do[app.Shown](r, r.owner(), "showTask", args{"task_id": "fresh"}); s.Status != task.Complete {
		t.Errorf("by code it is %s", s.Status)
	}
}

func TestListsPageWithoutLosingOrRepeating(t *testing.T) {
	r := newRig(t)
	for i := range 11 {
		tid := r.create(fmt.Sprintf("t%02d", i), "").TaskID
		if i%4 == 3 {
			r.finish(tid, task.Abandoned)
		}
		r.clock.advance(time.Second)
	}
	r.lag.Settle()
	var got []string
	in := args{"limit": 2, "status": []string{"backlog", "abandoned"}}
	for range 20 {
		l := do[app.Listing](r, r.owner(), "listTasks", in)
		if len(l.Tasks) > 2 {
			t.Fatalf("a page of %d", len(l.Tasks))
		}
		got = append(got, strings.Fields(codes(l))...)
		if l.Cursor == "" {
			break
		}
		in["cursor"] = l.Cursor
	}
	if s := strings.Join(got, " "); s != "t00 t01 t02 t04 t05 t06 t08 t09 t10 t07 t03" {
		t.Errorf("the pages hold %s", s)
	}
	r.refused(r.owner(), refusal.InvalidArguments, "listTasks", args{"cursor": "bm9uc2Vuc2U"})
}

func TestAPageOfAListReadsNoMoreThanThePage(t *testing.T) {
	r := newRig(t)
	for i := range 30 {
		r.create(fmt.Sprintf("t%02d", i), "")
	}
	in := args{"limit": 5}
	for n := range 6 {
		was := r.log.queried()
		l := do[app.Listing](r, r.owner(), "listTasks", in)
		if read := r.log.queried() - was; len(l.Tasks) != 5 || read > 6 {
			t.Errorf("page %d of %d tasks read %d rows", n, len(l.Tasks), read)
		}
		in["cursor"] = l.Cursor
	}
	if in["cursor"] != "" {
		t.Error("the last page has a cursor")
	}
}

func TestDepthIsCountedOnTheSurvivingParent(t *testing.T) {
	req.Covers(t, "OT-011")
	r := newRig(t)
	a := r.create("a", "").TaskID
	b := r.create("b", a).TaskID
	c := r.create("c", b).TaskID
	r.create("d", c)
	r.create("e", a)
	r.create("f", "")
	for levels, want := range map[int]string{1: "a+4 f", 2: "a b+2 e f", 3: "a b c+1 e f", 9: "a b c d e f"} {
		r.clock.advance(0)
		l := do[app.Listing](r, r.owner(), "listTasks", args{"levels": levels})
		got := strings.Fields(codes(l))
		slices.Sort(got)
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%d levels: %s, want %s", levels, s, want)
		}
	}
	r.refused(r.owner(), refusal.InvalidArguments, "listTasks", args{"levels": 0})
	r.refused(r.builder(), refusal.InvalidArguments, "lazy_blocked", args{"levels": 1})
	parked := r.working("parked", a)
	r.park(parked)
	out, _ := r.try(r.call(r.builder()), "lazy_blocked", args{})
	if raw, _ := json.Marshal(out); strings.Contains(string(raw), "parent_task_id") || !strings.Contains(string(raw), "open_raised") {
		t.Errorf("blocked answers %s", raw)
	}
}

func TestEveryoneInTheProjectReadsEveryTask(t *testing.T) {
	req.Covers(t, "AA-010", "CM-044", "OT-008", "OT-010")
	r := newRig(t)
	self := r.working("self", "")
	old := do[app.Created](r, r.owner(), "createTask", args{"goal": "old work", "prompt": "p", "model": "opus", "tags": []string{"x"}}).TaskID
	r.start(old)
	do[app.Journaled](r, r.owner(), "addJournal", args{"task_id": string(old), "content": "why it was done so"})
	r.park(old)
	r.finish(old, task.Complete)
	r.lag.Settle()
	me := r.agent(self)
	for name, in := range map[string]args{
		"lazy_list": {"status": []string{"complete", "working"}}, "lazy_active": {}, "lazy_blocked": {},
		"lazy_show": {"task_id": string(old)}, "lazy_search": {"query": "done so"}, "lazy_raised_items": {"task_id": string(old)},
		"lazy_status": {"task_id": string(old)}, "lazy_diff": {"task_id": string(old)},
	} {
		var said []string
		for _, who := range []identity.Caller{r.owner(), r.operator(), r.builder(), me} {
			out, err := r.try(r.call(who), name, in)
			if err != nil {
				t.Errorf("%s by %s: %v", name, who.Kind, err)
				continue
			}
			raw, _ := json.Marshal(out)
			said = append(said, string(raw))
		}
		for _, s := range said[1:] {
			if s != said[0] && name != "lazy_status" {
				t.Errorf("%s answers differ:\n%s\n%s", name, said[0], s)
			}
		}
		if !strings.Contains(name, "diff") && !strings.Contains(name, "search") && !strings.Contains(name, "raised") && !strings.Contains(name, "blocked") && !strings.Contains(said[0], `"agent":"claude"`) {
			t.Errorf("%s does not name the agent: %s", name, said[0])
		}
	}
	if got := do[app.Standing](r, me, "lazy_status", args{}); got.Task == nil || got.Task.TaskID != self {
		t.Errorf("where am I, for an agent: %+v", got)
	}
	got := do[app.Standing](r, r.owner(), "getStatus", args{})
	if got.Project != project || got.Counts[task.Working] != 1 || got.Dashboard != nil || len(got.Active) != 1 {
		t.Errorf("where am I, for a person: %+v", got)
	}
}

func TestTheRecordShowsTurnsWithWhoAndHow(t *testing.T) {
	req.Covers(t, "AC-006", "AC-007", "AC-009", "OT-009")
	r := newRig(t)
	tid := r.working("task", "")
	do[app.Edited](r, r.owner(), "editTask", args{"task_id": "task", "model": "opus", "effort": "high"})
	r.park(tid)
	do[app.Begun](r, r.builder(), "lazy_unblock", args{"task_id": "task", "feedback": "as the person said"})
	if err := r.Put(t.Context(), tenant, tid, turn.Turn{ID: "answer", Seq: 2, Side: turn.Answer, Kind: turn.Work, Text: "done"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Put(t.Context(), tenant, tid, turn.Turn{ID: "imported", Seq: 5, Side: turn.Input, Kind: turn.Work, Text: "old words"}); err != nil {
		t.Fatal(err)
	}
	got := do[app.Shown](r, r.owner(), "showTask", args{"task_id": "task"})
	var lines []string
	for _, tr := range got.Turns.Items {
		lines = append(lines, fmt.Sprintf("%d %s %s %q %s", tr.Seq, tr.Side, tr.ByText, tr.Text, tr.AgentText))
	}
	want := []string{
		`1 input Ada <ada@example.com> "" claude`,
		`2 answer agent "done" `,
		`3 input builder "as the person said" claude · opus · high`,
		`5 input human "old words" `,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("turns:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if got.FinalText != "not declared" || got.Final != nil {
		t.Errorf("declaration: %q", got.FinalText)
	}
	if len(got.History.Items) != 4 || got.History.Items[3].Trigger != task.Unblock || got.History.Items[3].Actor.Role != identity.BuilderRole {
		t.Errorf("history: %+v", got.History.Items)
	}
	two := do[app.Shown](r, r.owner(), "showTask", args{"task_id": "task", "sections": []string{"turns"}, "offset": 1, "limit": 2})
	if p := two.Turns; p.Total != 4 || p.Offset != 1 || len(p.Items) != 2 || p.Items[0].Seq != 2 || !p.More {
		t.Errorf("a window: %+v", p)
	}
	newest := do[app.Shown](r, r.owner(), "showTask", args{"task_id": "task", "sections": []string{"turns"}, "limit": 1})
	if p := newest.Turns; len(p.Items) != 1 || p.Items[0].Seq != 5 || p.Offset != 3 {
		t.Errorf("the newest: %+v", p)
	}
	r.refused(r.owner(), refusal.InvalidArguments, "showTask", args{"task_id": "task", "sections": []string{"everything"}})
}

func TestAMidMergeWorkspaceQualifiesTheStatusEverywhere(t *testing.T) {
	req.Covers(t, "OT-013", "OB-041")
	r := newRig(t)
	tid := r.working("task", "")
	r.park(tid)
	if err := r.EditTaskRow(t.Context(), tenant, tid, func(t *task.Task) { t.MidMerge = []string{"a.go"} }); err != nil {
		t.Fatal(err)
	}
	want := "unresolved merge — a.go"
	if got := do[app.Shown](r, r.owner(), "showTask", args{"task_id": "task"}); got.Merge != want {
		t.Errorf("show: %q", got.Merge)
	}
	if got := do[app.Standing](r, r.owner(), "getStatus", args{"task_id": "task"}); got.Task.Merge != want {
		t.Errorf("status: %q", got.Task.Merge)
	}
	if got := do[app.Waited](r, r.owner(), "waitTasks", args{"task_ids": []string{"task"}}); got.Settled[0].Merge != want {
		t.Errorf("wait: %q", got.Settled[0].Merge)
	}
	if got := do[app.Listing](r, r.owner(), "listTasks", args{}); !strings.HasPrefix(got.Tasks[0].Merge, "unresolved merge") {
		t.Errorf("list: %q", got.Tasks[0].Merge)
	}
}

func TestADiffIsBoundedAndGoesOn(t *testing.T) {
	r := newRig(t)
	tid := r.working("task", "")
	base := r.load(tid).Tip
	if got := do[app.DiffShown](r, r.owner(), "diffTask", args{"task_id": "task"}); got.Diff != "" || len(got.Files) != 0 {
		t.Errorf("without commits: %+v", got)
	}
	big := strings.Repeat("0123456789\n", 9000)
	r.commit(tid, r.repo.commit(base, "big", map[string]string{"a.txt": big, "sub/b.txt": "b\n"}))
	var whole strings.Builder
	in := args{"task_id": "task"}
	for n := 0; ; n++ {
		d := do[app.DiffShown](r, r.agent(tid), "lazy_diff", in)
		whole.WriteString(d.Diff)
		if len(d.Diff) > 48<<10 || n > 9 {
			t.Fatalf("part %d has %d bytes", n, len(d.Diff))
		}
		if !d.Truncated {
			break
		}
		in["offset"] = d.Next
	}
	if strings.Count(whole.String(), "+0123456789\n") != 9000 || !strings.Contains(whole.String(), "sub/b.txt") {
		t.Error("the parts do not make the whole")
	}
	if one := do[app.DiffShown](r, r.owner(), "diffTask", args{"task_id": "task", "path": "sub"}); len(one.Files) != 1 || one.Files[0].Path != "sub/b.txt" {
		t.Errorf("one path: %+v", one.Files)
	}
	r.create("new", "")
	r.refused(r.owner(), refusal.StatusNotAllowed, "diffTask", args{"task_id": "new"})
}

func TestSearchFindsWordsInEverySection(t *testing.T) {
	r := newRig(t)
	tid := r.working("find the Needle", "")
	kid := r.create("child", tid)
	do[app.Journaled](r, r.owner(), "addJournal", args{"task_id": string(tid), "content": "the needle is in the hay\nstack"})
	do[app.Commented](r, r.owner(), "addComment", args{"task_id": kid.Code, "message": "look for a NEEDLE"})
	r.raised(tid, "needle or pin?", false)
	r.park(tid)
	do[app.Begun](r, r.owner(), "unblockTask", args{"task_id": string(tid), "feedback": "needle, please"})
	find := func(q string) string {
		var out []string
		f := do[app.Found](r, r.builder(), "lazy_search", args{"query": q})
		if f.AsOf == "" || !f.Complete {
			t.Errorf("%s: %+v", q, f)
		}
		for _, h := range f.Hits {
			out = append(out, h.Code+":"+h.Section)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	code := r.load(tid).Code
	all := []string{"child:comments"}
	for _, s := range []string{"goal", "journal", "prompt", "raised", "turns"} {
		all = append(all, code+":"+s)
	}
	if got := find("needle"); got != strings.Join(all, " ") {
		t.Errorf("needle: %s", got)
	}
	for q, want := range map[string]string{
		"needle in:journal": code + ":journal", "needle hay": code + ":journal", `"in the hay"`: code + ":journal",
		`"hay needle"`: "", "needle in:goal,prompt": code + ":goal " + code + ":prompt", "nowhere": "",
	} {
		if got := find(q); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
	// Finished tasks are found once the index has caught up; the answer is dated.
	r.park(tid)
	r.finish(tid, task.Abandoned)
	r.lag.Settle()
	if got := find("needle in:journal"); got != code+":journal" {
		t.Errorf("finished: %s", got)
	}
	r.refused(r.agent(r.working("agent", "")), refusal.ScratchBoundary, "lazy_search", args{"query": "x in:scratch"})
	r.refused(r.owner(), refusal.InvalidArguments, "search", args{"query": "x in:nothing"})
	r.refused(r.owner(), refusal.InvalidArguments, "search", args{"query": "in:goal"})
	limited := do[app.Found](r, r.owner(), "search", args{"query": "needle", "limit": 2})
	if len(limited.Hits) != 2 || limited.Complete {
		t.Errorf("limited: %d hits, complete %t", len(limited.Hits), limited.Complete)
	}
}
