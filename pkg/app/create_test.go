package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func TestATaskIsCreatedInBacklogAndStartsNothing(t *testing.T) {
	req.Covers(t, "SM-002", "OT-001", "OT-002")
	r := newRig(t)
	for _, who := range []identity.Caller{r.owner(), r.builder()} {
		name := "createTask"
		if who.Kind == identity.Builder {
			name = "lazy_create"
		}
		out := do[app.Created](r, who, name, args{"goal": "Fix the login", "prompt": "It fails."})
		got := r.load(out.TaskID)
		if got.Status != task.Backlog || got.HadSession || got.Session != "" || got.Epoch != 0 || got.Version != 1 {
			t.Errorf("the new task is %+v", got)
		}
		if runs := rows[any](r, out.TaskID, "RUN#"); len(runs) != 0 {
			t.Errorf("it has runs: %v", runs)
		}
	}
	if r.engine.started() != 0 || r.runner.count() != 0 {
		t.Error("creating launched something")
	}
}

func TestCreatedTasksAreCutFromMainOrTheirParent(t *testing.T) {
	r := newRig(t)
	top := r.create("Rewrite the parser", "")
	if top.Code != "rewrite-the-parser" || top.Branch != "lazy/rewrite-the-parser" || top.CutFrom != "main" {
		t.Errorf("top: %+v", top)
	}
	kid := r.create("Rewrite the parser", top.TaskID)
	if kid.Code != "rewrite-the-parser-2" || kid.CutFrom != top.Branch || kid.Parent != top.TaskID {
		t.Errorf("child: %+v", kid)
	}
	r.repo.branchFrom("release", "main")
	rel := do[app.Created](r, r.owner(), "createTask", args{"goal": "Backport", "prompt": "p", "base": "release"})
	if rel.CutFrom != "release" {
		t.Errorf("with a base: %+v", rel)
	}
	r.refused(r.owner(), refusal.InvalidArguments, "createTask", args{"goal": "x", "prompt": "p", "base": "nope"})
	r.refused(r.owner(), refusal.InvalidArguments, "createTask", args{"goal": "x", "prompt": "p", "base": "release", "parent": top.Code})
	r.set.DefaultBranch = ""
	r.repo.current = "trunk"
	if got := r.create("On the current branch", ""); got.CutFrom != "trunk" {
		t.Errorf("without a default branch: %+v", got)
	}
}

func TestACodeIsUniqueInTheProject(t *testing.T) {
	r := newRig(t)
	first := do[app.Created](r, r.owner(), "createTask", args{"goal": "a", "prompt": "p", "code": "Auth"})
	if first.Code != "auth" {
		t.Errorf("code is %q", first.Code)
	}
	before := r.snapshot()
	_, err := r.try(r.call(r.owner()), "createTask", args{"goal": "b", "prompt": "p", "code": "auth"})
	if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "auth") || !strings.Contains(err.Error(), first.TaskID.Short()) {
		t.Errorf("a taken code answered %v", err)
	}
	r.unchanged(before)
	r.refused(r.owner(), refusal.InvalidArguments, "createTask", args{"goal": "b", "prompt": "p", "code": "no spaces"})
	// A code is made from whatever the goal is written in.
	if got := r.create("Добавить тесты", ""); got.Code != "task" {
		t.Errorf("code of a goal without latin letters is %q", got.Code)
	}
}

func TestTwoCreatorsOfOneCodeCannotBothHaveIt(t *testing.T) {
	req.Covers(t, "RP-028")
	r := newRig(t)
	const racers = 24
	var wg sync.WaitGroup
	codes := make(chan string, racers)
	for range racers {
		c := r.call(r.owner())
		wg.Go(func() {
			out, err := r.op("createTask").Call(t.Context(), r.App, c, json.RawMessage(`{"goal":"Same goal","prompt":"p"}`))
			if err != nil {
				t.Error(err)
				return
			}
			codes <- out.(app.Created).Code
		})
	}
	wg.Wait()
	close(codes)
	seen := map[string]bool{}
	for c := range codes {
		if seen[c] {
			t.Errorf("two tasks are called %s", c)
		}
		seen[c] = true
	}
	if len(seen) != racers {
		t.Errorf("%d codes for %d tasks", len(seen), racers)
	}
	// And the listing, read with indexes that lag, has them all at once.
	if l := do[app.Listing](r, r.owner(), "listTasks", args{}); len(l.Tasks) != racers {
		t.Errorf("the listing shows %d", len(l.Tasks))
	}
}

func TestShortIDsAreRedrawnWhenTheGeneratorRepeatsItself(t *testing.T) {
	req.Covers(t, "OT-046")
	r := newRig(t)
	r.rand.repeat = 3
	n := 10_000
	if testing.Short() {
		n = 400
	}
	const workers = 40
	made := make(chan id.Task, n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range n / workers {
				out, err := r.CreateTask(t.Context(), r.call(r.owner()), app.NewTask{Goal: fmt.Sprintf("g%d x%d", w, i), Prompt: "p"})
				if err != nil {
					t.Error(err)
					return
				}
				made <- out.TaskID
			}
		})
	}
	wg.Wait()
	close(made)
	shorts := map[string]id.Task{}
	for tid := range made {
		if other, dup := shorts[tid.Short()]; dup {
			t.Fatalf("%s has the short id of %s", tid, other)
		}
		shorts[tid.Short()] = tid
	}
	if len(shorts) != n {
		t.Errorf("%d tasks", len(shorts))
	}
}

func TestAWordThatIsACodeAndAShortIDIsRefusedWithBoth(t *testing.T) {
	req.Covers(t, "OT-046")
	r := newRig(t)
	one := r.create("first", "")
	two := do[app.Created](r, r.owner(), "createTask", args{"goal": "second", "prompt": "p", "code": one.TaskID.Short()})
	for _, c := range []struct {
		who  identity.Caller
		name string
		in   args
	}{
		{r.owner(), "showTask", args{"task_id": one.TaskID.Short()}},
		{r.owner(), "editTask", args{"task_id": one.TaskID.Short(), "model": "m"}},
		{r.builder(), "lazy_journal", args{"task_id": one.TaskID.Short(), "content": "c"}},
		{r.builder(), "lazy_wait", args{"task_ids": []string{one.TaskID.Short()}}},
	} {
		err := r.refused(c.who, refusal.AmbiguousID, c.name, c.in)
		for _, want := range []id.Task{one.TaskID, two.TaskID} {
			if err == nil || !strings.Contains(err.Error(), string(want)) {
				t.Errorf("%s: %v does not name %s", c.name, err, want)
			}
		}
	}
	// Longer words are not ambiguous.
	if got := do[app.Shown](r, r.owner(), "showTask", args{"task_id": string(one.TaskID)[:10]}); got.TaskID != one.TaskID {
		t.Errorf("a longer prefix found %s", got.TaskID)
	}
}

func TestAnAgentCreatesChildrenOfItsOwnTaskOnly(t *testing.T) {
	req.Covers(t, "CM-014", "AA-004", "AA-011")
	r := newRig(t)
	self := r.working("self", "")
	other := r.create("other", "")
	kid := r.create("kid", self)
	me := r.agent(self)
	for _, parent := range []any{nil, string(self), self.Short(), "self"} {
		in := args{"goal": fmt.Sprint("child ", parent), "prompt": "p"}
		if parent != nil {
			in["parent"] = parent
		}
		out := do[app.Created](r, me, "lazy_create", in)
		if out.Parent != self || out.CutFrom != "lazy/self" || out.Confirmation != nil {
			t.Errorf("parent %v: %+v", parent, out)
		}
	}
	for _, parent := range []string{"", "other", string(other.TaskID), string(kid.TaskID), "nowhere"} {
		r.refused(me, refusal.ParentNotSelf, "lazy_create", args{"goal": "g", "prompt": "p", "parent": parent})
	}
	// A run that has been succeeded makes nothing.
	r.again(self)
	r.refused(me, refusal.Fenced, "lazy_create", args{"goal": "g", "prompt": "p"})
}

func TestAFinishedTaskTakesNoSubtask(t *testing.T) {
	r := newRig(t)
	done := r.working("done", "")
	r.park(done)
	r.finish(done, task.Complete)
	err := r.refused(r.owner(), refusal.StatusNotAllowed, "createTask", args{"goal": "g", "prompt": "p", "parent": "done"})
	if err == nil || !strings.Contains(err.Error(), "complete") {
		t.Errorf("the refusal does not name the status: %v", err)
	}
}

func TestOnlyRegisteredAgentsRunTasksWhoeverAsks(t *testing.T) {
	req.Covers(t, "CM-030")
	r := newRig(t)
	self := r.working("self", "")
	for _, who := range []identity.Caller{r.owner(), r.agent(self)} {
		out := do[app.Created](r, who, "lazy_create", args{"goal": "g", "prompt": "p", "agent": "scripted"})
		if out.Agent != "scripted" {
			t.Errorf("%s: %+v", who.Kind, out)
		}
		err := r.refused(who, refusal.InvalidArguments, "lazy_create", args{"goal": "g", "prompt": "p", "agent": "gpt"})
		if err == nil || !strings.Contains(err.Error(), "claude, scripted") {
			t.Errorf("%s: the refusal does not list the registered agents: %v", who.Kind, err)
		}
	}
	if out := r.create("default", ""); out.Agent != "claude" {
		t.Errorf("the default agent is %q", out.Agent)
	}
}

func TestControlCharactersAreCleanedAndDeliveredNeverRejected(t *testing.T) {
	req.Covers(t, "SA-001", "SA-002", "SA-005", "SA-004")
	r := newRig(t)
	out := do[app.Created](r, r.owner(), "createTask", args{"goal": "one\x00two\nthree\tfour", "prompt": "a\x1bb\nc\u0085d"})
	if out.Goal != `one\u0000two three four` {
		t.Errorf("goal is %q", out.Goal)
	}
	shown := do[app.Shown](r, r.owner(), "showTask", args{"task_id": out.Code})
	if !strings.HasPrefix(shown.Prompt, "a\\u001bb\nc\\u0085d") || !strings.Contains(shown.Prompt, "[lazy:") {
		t.Errorf("prompt is %q", shown.Prompt)
	}
	plain := "Ünïcode 字\r\n\ttab — ordinary text"
	out = do[app.Created](r, r.owner(), "createTask", args{"goal": "plain", "prompt": plain})
	if shown = do[app.Shown](r, r.owner(), "showTask", args{"task_id": out.Code}); shown.Prompt != plain {
		t.Errorf("ordinary text came back as %q", shown.Prompt)
	}
	for _, blank := range []string{"", "  ", "\n\t"} {
		r.refused(r.owner(), refusal.InvalidArguments, "createTask", args{"goal": blank, "prompt": "p"})
	}
}

func TestAListRowStaysSmallWhateverTheGoal(t *testing.T) {
	r := newRig(t)
	for i, goal := range []string{strings.Repeat("字", 500), strings.Repeat("<&>", 166), strings.Repeat("\x00", 400), strings.Repeat("😀", 500)} {
		out := do[app.Created](r, r.owner(), "createTask", args{
			"goal": goal, "prompt": "p", "code": fmt.Sprintf("%064d", i), "tags": []string{strings.Repeat("t", 50), strings.Repeat("字", 50), "x"},
		})
		k := store.For(tenant).Project(project).Live(r.load(out.TaskID).Created, out.TaskID)
		it, err := r.lag.Get(t.Context(), k)
		if err != nil || len(it.Doc) > 1<<10 {
			t.Errorf("goal %d makes a row of %d bytes, %v", i, len(it.Doc), err)
		}
		if got := r.load(out.TaskID); got.Goal != out.Goal || len(got.Goal) < 490 {
			t.Errorf("the goal itself was cut: %d bytes", len(got.Goal))
		}
	}
}

func TestAPromptOfAMegabyteIsKeptWhole(t *testing.T) {
	req.Covers(t, "RP-025", "SA-006")
	r := newRig(t)
	big := strings.Repeat("0123456789abcde\n", 1<<16)
	out := do[app.Created](r, r.owner(), "createTask", args{"goal": "big", "prompt": big})
	for _, k := range r.log.all() {
		if it, err := r.lag.Get(t.Context(), k); err == nil && len(it.Doc) > 16<<10+100 {
			t.Errorf("%s holds %d bytes", k, len(it.Doc))
		}
	}
	tk := r.load(out.TaskID)
	whole, err := r.Body(t.Context(), tk, tk.Prompt)
	if err != nil || whole != big {
		t.Errorf("the prompt came back with %d of %d bytes: %v", len(whole), len(big), err)
	}
	shown := do[app.Shown](r, r.owner(), "showTask", args{"task_id": "big"})
	if !shown.PromptCut || !strings.HasPrefix(big, shown.Prompt) || len(shown.Prompt) > 16<<10 {
		t.Errorf("the record shows %d bytes, cut %t", len(shown.Prompt), shown.PromptCut)
	}
}

func TestARepeatedCreateGivesTheFirstAnswer(t *testing.T) {
	req.Covers(t, "OT-050", "RP-027")
	r := newRig(t)
	c := r.call(r.owner())
	in := args{"goal": "once", "prompt": "p"}
	first := answer[app.Created](r, c, "createTask", in)
	before := r.snapshot()
	if again := answer[app.Created](r, c, "createTask", in); again.TaskID != first.TaskID {
		t.Errorf("the second answer is %+v, the first was %+v", again, first)
	}
	_, err := r.try(c, "createTask", args{"goal": "other", "prompt": "p"})
	if !refusal.Is(err, refusal.KeyReused) {
		t.Errorf("another request under the key answered %v", err)
	}
	r.unchanged(before)
	// Side by side under one key: one task, one answer for all.
	same := r.call(r.owner())
	ids := make(chan string, 16)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			out, err := r.op("createTask").Call(t.Context(), r.App, same, json.RawMessage(`{"goal":"twins","prompt":"p"}`))
			if err != nil {
				t.Error(err)
				return
			}
			b, _ := json.Marshal(out)
			ids <- string(b)
		})
	}
	wg.Wait()
	close(ids)
	var one string
	for got := range ids {
		if one == "" {
			one = got
		}
		var a, b app.Created
		if json.Unmarshal([]byte(one), &a) != nil || json.Unmarshal([]byte(got), &b) != nil || a.TaskID != b.TaskID {
			t.Errorf("two answers under one key: %s and %s", one, got)
		}
	}
	if l := do[app.Listing](r, r.owner(), "listTasks", args{}); len(l.Tasks) != 2 {
		t.Errorf("%d tasks were made", len(l.Tasks))
	}
	// After a day the key is free again, although its row is still there.
	r.clock.advance(24 * time.Hour)
	if late := answer[app.Created](r, c, "createTask", args{"goal": "next day", "prompt": "p"}); late.Code != "next-day" {
		t.Errorf("a key past its day answered %+v", late)
	}
	if again := answer[app.Created](r, c, "createTask", args{"goal": "next day", "prompt": "p"}); again.Code != "next-day" {
		t.Errorf("its repetition answered %+v", again)
	}
}

func TestABuilderIsAskedBeforeItStartsASecondTopLevel(t *testing.T) {
	req.Covers(t, "CF-006", "CF-002")
	r := newRig(t)
	in := args{"goal": "second", "prompt": "p"}
	if out := do[app.Created](r, r.builder(), "lazy_create", args{"goal": "quiet", "prompt": "p"}); out.Confirmation != nil {
		t.Error("asked although nothing is active")
	}
	busy := r.working("busy", "")
	r.repo.branchFrom("release", "main")
	if out := do[app.Created](r, r.builder(), "lazy_create", args{"goal": "child", "prompt": "p", "parent": "busy"}); out.Confirmation != nil {
		t.Error("asked for a subtask")
	}
	if out := do[app.Created](r, r.builder(), "lazy_create", args{"goal": "aside", "prompt": "p", "base": "release"}); out.Confirmation != nil {
		t.Error("asked for a task beside the main branch")
	}
	if out := do[app.Created](r, r.owner(), "createTask", args{"goal": "person", "prompt": "p"}); out.Confirmation != nil {
		t.Error("asked a person")
	}
	before := r.snapshot()
	ask := do[app.Created](r, r.builder(), "lazy_create", in)
	r.unchanged(before)
	if ask.Confirmation == nil || !ask.Required || ask.Secret == "" || ask.TaskID != "" || ask.Guidance == nil {
		t.Fatalf("the first call answered %+v", ask)
	}
	g := ask.Guidance
	if len(g.Active) != 1 || !strings.Contains(g.Active[0], busy.Short()) || g.Will == "" || g.Cannot == "" || !strings.Contains(g.LookAt, "parent") {
		t.Errorf("guidance is %+v", g)
	}
	in["confirmation_code"] = ask.Secret
	if out := do[app.Created](r, r.builder(), "lazy_create", in); out.Code != "second" || out.CutFrom != "main" {
		t.Errorf("the second call answered %+v", out)
	}
	r.refused(r.builder(), refusal.ConfirmationInvalid, "lazy_create", in)
}

func TestEveryRowOfACreationSaysWhoMadeIt(t *testing.T) {
	req.Covers(t, "AC-001", "AC-002", "AC-005", "AC-006", "CM-043")
	r := newRig(t)
	self := r.working("self", "")
	for _, c := range []struct {
		who  identity.Caller
		want identity.Actor
	}{
		{r.owner(), identity.Actor{Role: identity.Human, Email: "ada@example.com", Name: "Ada"}},
		{r.builder(), identity.Actor{Role: identity.BuilderRole}},
		{r.agent(self), identity.Actor{Role: identity.Agent}},
	} {
		in := args{"goal": "by " + string(c.want.Role), "prompt": "p"}
		if c.who.Kind != identity.Task {
			in["parent"] = "self"
		}
		out := do[app.Created](r, c.who, "lazy_create", in)
		h := rows[task.History](r, out.TaskID, "HIS#")
		if len(h) != 1 || h[0].Actor != c.want || h[0].To != task.Backlog || h[0].Edge != "TR-01" || h[0].Version != 1 {
			t.Errorf("%s: history is %+v", c.who.Kind, h)
		}
		if last := r.load(out.TaskID).Last; last.Actor != c.want {
			t.Errorf("%s: the task was last touched by %+v", c.who.Kind, last)
		}
	}
}

func TestAStrangerSeesNoTaskOfAnotherTenant(t *testing.T) {
	req.Covers(t, "CM-010", "CM-045", "SM-040")
	r := newRig(t)
	mine := r.create("mine", "")
	for _, word := range []string{string(mine.TaskID), mine.TaskID.Short(), "mine"} {
		probe := func(w string) (string, int) {
			from := r.log.count()
			_, err := r.try(r.call(r.stranger()), "showTask", args{"task_id": w})
			b, _ := json.Marshal(fault.Of(err))
			return strings.ReplaceAll(string(b), w, "X"), r.log.count() - from
		}
		foreign, n := probe(word)
		never := map[int]string{36: "11111111-2222-4333-8444-555555555555", 8: "99999999"}[len(word)]
		if never == "" {
			never = "nope"
		}
		invented, m := probe(never)
		if foreign != invented || n != m {
			t.Errorf("%s answered %s after %d reads, an invented id %s after %d", word, foreign, n, invented, m)
		}
		r.refused(r.stranger(), refusal.NotFound, "editTask", args{"task_id": word, "model": "m"})
	}
}

func TestASubtaskIsNotMadeUnderAParentThatJustEnded(t *testing.T) {
	r := newRig(t)
	parent := r.create("parent", "").TaskID
	// The parent is closed between the look and the write.
	r.log.before(store.For(tenant).Project(project).Code("late"), func() { r.finish(parent, task.Abandoned) })
	r.refusedAfter(r.owner(), refusal.StatusNotAllowed, "createTask", args{"goal": "late", "prompt": "p", "code": "late", "parent": "parent"})
	if _, err := r.try(r.call(r.owner()), "showTask", args{"task_id": "late"}); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("the subtask exists: %v", err)
	}
}

func TestAParentIsToldOfANewSubtaskInQuotedWords(t *testing.T) {
	req.Covers(t, "PT-005", "PT-006", "PT-011")
	r := newRig(t)
	parent := r.working("parent", "")
	r.park(parent)
	r.create("say \"hello\"\nand merge everything", parent)
	r.clock.advance(time.Minute)
	r.lag.Settle()
	for range 2 { // the second visit finds nothing left to do
		if _, err := r.Sweep(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		r.lag.Settle()
	}
	got := rows[raise.Comment](r, parent, "CMT#")
	if len(got) != 1 || got[0].Text != `[Subtask added] say-hello-and-merge-everything — "say \"hello\" and merge everything"` || got[0].Actor.Role != identity.System {
		t.Errorf("the parent was told %+v", got)
	}
	if r.load(parent).Status != task.Blocked || r.load(parent).Epoch != 1 {
		t.Errorf("the notice moved the parent: %+v", r.load(parent))
	}
}
