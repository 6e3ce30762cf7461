package callers

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// family is a task at work and one of every relation to it.
type family struct {
	self   owned
	others map[string]string // codes, by what they are to self
}

func (w *world) family() family {
	w.t.Helper()
	owner := w.caller(identity.Owner, tenant, project, "ada")
	f := family{others: map[string]string{}}
	make := func(code, parent string) string {
		in := map[string]any{"goal": "work of " + code, "prompt": "p", "code": code}
		if parent != "" {
			in["parent"] = parent
		}
		return string(do[app.Created](w, owner, "createTask", in).TaskID)
	}
	make("parent", "")
	f.self.code = "self"
	f.self.task = do[app.Created](w, owner, "createTask", map[string]any{
		"goal": "work of self", "prompt": "p", "code": "self", "parent": "parent",
	}).TaskID
	make("child", "self")
	make("grandchild", "child")
	make("sibling", "parent")
	make("unrelated", "")
	make("finished", "")
	w.started("finished")
	do[app.Ended](w, owner, "closeTask", map[string]any{"task_id": "finished", "reason": "not wanted"})
	f.self.op = do[app.Begun](w, owner, "startTask", map[string]any{"task_id": "self"}).Operation
	agent := w.caller(identity.Task, tenant, project, string(f.self.task))
	f.self.raised = do[app.Raised](w, agent, "lazy_raise", map[string]any{"title": "which", "content": "one of two", "blocking": false}).RaisedID
	return f
}

// started begins the work of a task, and brings it to rest with a commit.
func (w *world) started(code string) {
	w.t.Helper()
	owner := w.caller(identity.Owner, tenant, project, "ada")
	began := do[app.Begun](w, owner, "startTask", map[string]any{"task_id": code})
	w.rest(owned{task: began.Task})
}

// on makes the arguments of an operation about a task.
func (f family) on(o op.Op, c caller, task string) map[string]any {
	at := map[string]any{}
	for _, slot := range slots(seen(o, c)) {
		switch slot {
		case "task_id":
			at[slot] = task
		case "task_ids[]":
			at[slot] = task
		}
	}
	return arguments{at: at, words: map[string]any{
		"raised_id": f.self.raised, "comment_id": "c1", "operation_id": f.self.op, "action": "dismiss", "query": "work",
	}}.of(seen(o, c))
}

// relations are what a task can be to a task agent, and which column of the
// specification is about it.
func relations(r row) map[string]string {
	return map[string]string{
		"self": r.self, "child": r.child, "grandchild": r.other, "parent": r.other, "sibling": r.other,
		"unrelated": r.other, "finished": r.other,
	}
}

// judge compares an answer with what the specification demands of it.
// Not to find a task would be a refusal of who asks; other things that a call names
// were never made, or are found by whoever made them only (OT-048).
func judge(t *testing.T, what string, o op.Op, a answer, want string) {
	t.Helper()
	if a.code == "not_found" && !aboutATask(o) {
		a.code = ""
	}
	switch {
	case want != "" && a.code != want:
		t.Errorf("%s must be refused as %s: %s", what, want, a)
	case want != "" && a.writes != 0:
		t.Errorf("%s was refused and has written: %s", what, a)
	case want == "" && (slices.Contains(personal(), a.code) || a.code == "not_found"):
		t.Errorf("%s must not be refused for who asks: %s", what, a)
	case a.status == http.StatusInternalServerError:
		t.Errorf("%s failed: %s", what, a)
	}
}

func aboutATask(o op.Op) bool {
	return slices.ContainsFunc(slots(o.In), func(s string) bool { return s == "task_id" || s == "task_ids[]" })
}

// byEffect are all operations, those that change nothing first.
func byEffect(all []op.Op) []op.Op {
	slices.SortStableFunc(all, func(a, b op.Op) int { return int(b.Effect) - int(a.Effect) })
	return all
}

// Every tool, on a task of every relation, as the agent of a task.
func TestATaskAgentReachesWhatTheSpecificationGivesIt(t *testing.T) {
	req.Covers(t, "CM-011", "CM-012", "CM-013", "CM-026", "OT-044")
	w := newWorld(t, op.Default())
	f := w.family()
	agent := w.caller(identity.Task, tenant, project, string(f.self.task))
	asked := 0
	for _, o := range byEffect(w.ops.All()) {
		for to, want := range relations(rowOf(o)) {
			if !aboutATask(o) && to != "self" {
				continue // it takes no task: there is nothing to relate to
			}
			if a, ok := w.call(agent, o, f.on(o, agent, to)); ok {
				asked++
				judge(t, o.Tool+" by a task agent on its "+to, o, a, want)
			}
		}
	}
	if asked < 100 {
		t.Errorf("only %d calls were made", asked)
	}
	t.Logf("%d calls", asked)
}

// The two refusals of an agent's accept say different things (CM-013), and each
// names what else to do (CM-011).
func TestARefusalOfAnAgentSaysWhatElseToDo(t *testing.T) {
	req.Covers(t, "CM-011", "CM-012", "CM-013")
	w := newWorld(t, op.Default())
	f := w.family()
	agent := w.caller(identity.Task, tenant, project, string(f.self.task))
	texts := map[string]bool{}
	for _, name := range []string{"lazy_edit", "lazy_start", "lazy_accept"} {
		o, _ := w.ops.Tool(name)
		for _, to := range []string{"self", "unrelated"} {
			a, _ := w.call(agent, o, f.on(o, agent, to))
			if want := relations(rowOf(o))[to]; want != "" {
				judge(t, name+" on "+to, o, a, want)
				texts[a.body] = true
			}
		}
	}
	if len(texts) != 5 {
		t.Errorf("five refusals said %d things: %v", len(texts), texts)
	}
}

// Every read tool, by a task agent, on an unrelated task that is finished: it
// succeeds, and none is withheld beyond the list.
func TestReadsAreOpenToTaskAgents(t *testing.T) {
	req.Covers(t, "CM-021", "CM-022")
	w := newWorld(t, op.Default())
	f := w.family()
	agent := w.caller(identity.Task, tenant, project, string(f.self.task))
	w.started("unrelated")
	read := 0
	for _, o := range w.ops.All() {
		if o.Tool == "" || o.Effect != op.Read {
			continue
		}
		narrowed := !o.Agent || o.Rule.Agent != app.Any || len(o.Omit[identity.Task]) > 0
		if narrowed && !slices.Contains(narrowedReads(), o.Tool) {
			t.Errorf("%s is a read that is withheld from task agents, or narrowed for them", o.Tool)
		}
		if slices.Contains(narrowedReads(), o.Tool) && o.Tool != "lazy_wait" {
			continue
		}
		for _, to := range []string{"finished", "unrelated"} {
			a, _ := w.call(agent, o, f.on(o, agent, to))
			if read++; a.status != http.StatusOK || a.code != "" {
				t.Errorf("%s of a %s task: %s", o.Tool, to, a)
			}
		}
	}
	if read < 18 {
		t.Errorf("only %d reads were made", read)
	}
	for _, name := range openReads()[:7] {
		if _, ok := w.ops.Tool(name); !ok {
			t.Errorf("the catalogue has no %s", name)
		}
	}
}

// Every tool, as a builder: the agent-only ones are refused as errors that wrote
// nothing, all others are not refused for who asks, whichever task is meant.
func TestABuilderIsRefusedTheAgentsToolsAndNoTask(t *testing.T) {
	req.Covers(t, "CM-019", "CM-010", "CM-026")
	w := newWorld(t, op.Default())
	f := w.family()
	builder := w.caller(identity.Builder, tenant, project, "b1")
	refused := 0
	for _, o := range byEffect(w.ops.All()) {
		want := rowOf(o).builder
		for to := range relations(row{}) {
			a, ok := w.call(builder, o, f.on(o, builder, to))
			if !ok {
				continue
			}
			judge(t, o.Tool+" by a builder on the "+to, o, a, want)
			if want != "" {
				refused++
			}
		}
	}
	// One that the catalogue does not have is an error too.
	for name, r := range spec() {
		if r.builder == "" {
			continue
		}
		if a := w.post(builder, "/mcp/_/"+name, map[string]any{"arguments": map[string]any{}}); a.status < 400 || a.writes != 0 {
			t.Errorf("%s by a builder: %s", name, a)
		}
	}
	if refused < 6*7 {
		t.Errorf("only %d calls were refused", refused)
	}
}

// Every command and every tool, with every kind of credential, on a task of every
// relation to somebody else: surfaces are disjoint, and a person meets no relation.
func TestEveryKindIsHeardOnItsOwnSurfaceOnly(t *testing.T) {
	req.Covers(t, "CM-004", "CM-046", "ID-003", "ID-013")
	w := newWorld(t, op.Default())
	f := w.family()
	asked := 0
	for _, k := range identity.Kinds() {
		subject := "who"
		if k == identity.Task || k == identity.Runner {
			subject = string(f.self.task)
		}
		c := w.caller(k, tenant, project, subject)
		for _, o := range byEffect(w.ops.All()) {
			if o.Name != "" {
				for to := range relations(row{}) {
					if to == "self" && o.Effect == op.Write {
						continue // it may end the task whose credentials are in use here
					}
					asked++
					judge(t, o.Name+" by "+c.name+" on the "+to, o, w.post(c, "/rpc/"+o.Name, f.on(o, c, to)), refusalOn(o, k))
				}
			}
			if k == identity.Task || k == identity.Builder {
				continue
			}
			for _, segment := range []string{"_", string(f.self.task)} {
				if a, ok := w.tool(c, o, segment, f.on(o, c, "child")); ok {
					asked++
					judge(t, o.Tool+" by "+c.name, o, a, "wrong_surface")
				}
			}
		}
		for _, name := range []string{"beat", "report", "git"} {
			asked++
			a := w.post(c, "/runner/"+name, map[string]any{})
			if want := "wrong_surface"; k != identity.Runner {
				judge(t, name+" by "+c.name, op.Op{In: &jsonschema.Schema{}}, a, want)
			} else if a.code == want {
				t.Errorf("%s by a runner: %s", name, a)
			}
		}
	}
	if asked < 1000 {
		t.Errorf("only %d calls were made", asked)
	}
	t.Logf("%d calls", asked)
}

// Whoever joins what another began has an operation of his own to follow, and the
// other's stays the other's.
func TestAStopAndAJoinedAcceptAreTheirCallersOwn(t *testing.T) {
	req.Covers(t, "OT-048", "AP-010")
	w := newWorld(t, op.Default())
	owner := w.caller(identity.Owner, tenant, project, "ada")
	builder := w.caller(identity.Builder, tenant, project, "b1")
	follows := func(operation string, who map[string]bool) {
		t.Helper()
		for kind, want := range who {
			c := map[string]caller{"owner": owner, "builder": builder}[kind]
			o, in := w.op("awaitOperation"), map[string]any{"operation_id": operation}
			if kind == "builder" {
				o, in["timeout_s"] = w.op("waitTasks"), 1
			}
			if a, _ := w.call(c, o, in); (a.status < 400) != want {
				t.Errorf("%s follows %s: %t, want %t: %s", kind, operation, !want, want, a)
			}
		}
	}
	do[app.Created](w, owner, "createTask", map[string]any{"goal": "g", "prompt": "p", "code": "long"})
	began := do[app.Begun](w, builder, "lazy_start", map[string]any{"task_id": "long"})
	stop := do[app.Stopped](w, owner, "stopTask", map[string]any{"task_id": "long"})
	follows(began.Operation, map[string]bool{"owner": false, "builder": true})
	follows(stop.Operation, map[string]bool{"owner": true, "builder": false})
	w.rest(owned{task: began.Task})
	var end app.Progress
	if end = do[app.Progress](w, owner, "awaitOperation", map[string]any{"operation_id": stop.Operation}); !end.Done {
		t.Errorf("the stop is not over: %+v", end)
	}

	first := do[app.Accepted](w, owner, "acceptTask", map[string]any{"task_id": "long"})
	second := do[app.Accepted](w, builder, "lazy_accept", map[string]any{"task_id": "long"})
	if first.Operation == second.Operation || !second.Resumed {
		t.Errorf("the second accept joined with %+v, the first has %s", second, first.Operation)
	}
	follows(first.Operation, map[string]bool{"owner": true, "builder": false})
	follows(second.Operation, map[string]bool{"owner": false, "builder": true})
	if again := do[app.Accepted](w, owner, "acceptTask", map[string]any{"task_id": "long"}); again.Operation != first.Operation {
		t.Errorf("its own accept is followed by %s, not %s", again.Operation, first.Operation)
	}
}
