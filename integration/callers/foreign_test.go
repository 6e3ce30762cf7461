package callers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// owned is what one project has, by the words that name it.
type owned struct {
	task   id.Task
	code   string
	raised string
	op     string
	turn   string
	push   string
}

// settle puts a working task with a raised item, a comment and an operation in
// flight into a project.
func (w *world) settle(owner caller, code string) owned {
	w.t.Helper()
	made := do[app.Created](w, owner, "createTask", map[string]any{"goal": "work of " + code, "prompt": "p", "code": code})
	began := do[app.Begun](w, owner, "startTask", map[string]any{"task_id": code})
	agent := w.caller(identity.Task, owner.who.Tenant, owner.who.Project, string(made.TaskID))
	raised := do[app.Raised](w, agent, "lazy_raise", map[string]any{"title": "which", "content": "one of two", "blocking": false})
	do[app.Commented](w, owner, "addComment", map[string]any{"task_id": code, "message": "mind the gap"})
	o := owned{task: made.TaskID, code: code, raised: raised.RaisedID, op: began.Operation, turn: string(began.Turn)}
	sum := sha256.Sum256([]byte(code))
	o.push = hex.EncodeToString(sum[:16])
	doc, err := json.Marshal(app.Transfer{ID: o.push, Tenant: owner.who.Tenant, Project: owner.who.Project, Way: "push", Branch: "main", State: "open"})
	if err != nil {
		w.t.Fatal(err)
	}
	err = w.store.Transact(w.t.Context(), store.Write{Act: store.Put, Item: store.Item{
		Key: store.For(owner.who.Tenant).Project(owner.who.Project).Push(o.push), Attr: store.Attr{store.AttrType: "transfer", "schema": int64(1)}, Doc: doc,
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// rest brings a working task to where its turn is over and it could be accepted.
func (w *world) rest(o owned) owned {
	w.t.Helper()
	k := store.For(tenant).Task(o.task).Meta()
	it, err := w.store.Get(w.t.Context(), k)
	if err != nil {
		w.t.Fatal(err)
	}
	var t task.Task
	if err := json.Unmarshal(it.Doc, &t); err != nil {
		w.t.Fatal(err)
	}
	t.Status, t.Claimed, t.Queued, t.Base, t.Tip = task.Blocked, false, 0, head, strings.Repeat("2", len(head))
	if it.Doc, err = json.Marshal(t); err != nil {
		w.t.Fatal(err)
	}
	it.Attr[store.AttrStatus] = string(t.Status)
	if err := w.store.Transact(w.t.Context(), store.Write{Act: store.Put, Item: it}); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// words are all the ways in which what is owned can be named.
func (o owned) words() map[string]string {
	return map[string]string{
		"id": string(o.task), "short id": o.task.Short(), "longer prefix": string(o.task[:15]), "code": o.code,
		"raised item": o.raised, "operation": o.op, "turn": o.turn, "comment of it": o.raised[:id.ShortLen] + "-c1",
		"push": o.push,
	}
}

// stranger makes a random word of the same form, which names nothing: digits stay
// digits and letters letters, the first character is kept, and so are those that
// say which form of id it is.
func stranger(word string) string {
	b := make([]byte, len(word))
	_, _ = rand.Read(b)
	out := []byte(word)
	for i, c := range out {
		switch {
		case i == 0 || len(word) == 36 && (i == 14 || i == 19):
		case i > id.ShortLen && len(word) < 13: // the number of an item
		case c >= '0' && c <= '9':
			out[i] = '0' + b[i]%10
		case c >= 'a' && c <= 'f':
			out[i] = 'a' + b[i]%6
		case c >= 'g' && c <= 'z':
			out[i] = 'g' + b[i]%20
		}
	}
	return string(out)
}

// probe asks operations, as one caller, about one foreign word and one random
// word of its form, at one place of their arguments, and returns what tells the
// two apart.
func (w *world) probe(c caller, o op.Op, slot, word string, mine owned) (complaints []string, asked answer, ok bool) {
	ask := func(word string) (answer, bool) {
		in := arguments{at: map[string]any{slot: word}, words: map[string]any{
			"task_id": mine.code, "raised_id": mine.raised, "comment_id": "c1", "operation_id": mine.op, "action": "dismiss",
		}}.of(seen(o, c))
		a, ok := w.call(c, o, in)
		if a.confirm != "" {
			in["confirmation_code"] = a.confirm
			a, ok = w.call(c, o, in)
		}
		return a, ok
	}
	none := stranger(word)
	foreign, ok := ask(word)
	if !ok {
		return nil, foreign, false
	}
	random, _ := ask(none)
	say := func(format string, args ...any) {
		complaints = append(complaints, fmt.Sprintf("%s/%s by %s, %s = %q: ", o.Name, o.Tool, c.name, slot, word)+fmt.Sprintf(format, args...))
	}
	if foreign.status != random.status || without(foreign.body, word) != without(random.body, none) {
		say("answered\n\t%s\nand for a random id\n\t%s", foreign, random)
	}
	if foreign.reads != random.reads {
		say("%d reads of the store, %d for a random id", foreign.reads, random.reads)
	}
	if foreign.writes+random.writes != 0 {
		say("%d writes, %d for a random id", foreign.writes, random.writes)
	}
	if foreign.status < 400 {
		say("was not refused: %s", foreign)
	}
	return complaints, foreign, true
}

// question is one place of an operation's arguments, and a word to put there.
type question struct {
	op         op.Op
	slot, word string
}

func (w *world) questions(c caller, theirs map[string]owned) []question {
	var all []question
	for _, o := range w.ops.All() {
		for _, slot := range slots(seen(o, c)) {
			for _, of := range theirs {
				for _, word := range of.words() {
					all = append(all, question{o, slot, word})
				}
			}
		}
	}
	return all
}

// own are the callers of the project that looks around.
func (w *world) own(mine owned) []caller {
	return []caller{
		w.caller(identity.Owner, tenant, project, "ada"), w.caller(identity.User, tenant, project, "bo"),
		w.caller(identity.Operator, tenant, project, "op"), w.caller(identity.Builder, tenant, project, "b1"),
		w.caller(identity.Task, tenant, project, string(mine.task)),
	}
}

// Every operation, at every place that takes an id, with everything that another
// tenant and another project have, named in every way.
func TestAForeignIdIsLikeOneThatNeverWas(t *testing.T) {
	req.Covers(t, "ID-027", "ID-030", "CM-045", "CM-010", "P5")
	w := newWorld(t, op.Default())
	theirs := map[string]owned{
		"another tenant":  w.settle(w.caller(identity.Owner, "other", project, "eve"), "theirs"),
		"another project": w.settle(w.caller(identity.Owner, tenant, "side", "ada"), "sideline"),
	}
	owner := w.caller(identity.Owner, tenant, project, "ada")
	working := w.settle(owner, "mine")
	made := do[app.Created](w, owner, "createTask", map[string]any{"goal": "later", "prompt": "p", "code": "later"})
	mine := []owned{working, w.rest(w.settle(owner, "resting")), {task: made.TaskID, code: "later", raised: working.raised, op: working.op}}
	asked, absent := 0, map[string]bool{}
	for _, c := range w.own(working) {
		for _, q := range w.questions(c, theirs) {
			for _, m := range mine {
				complaints, a, ok := w.probe(c, q.op, q.slot, q.word, m)
				for _, s := range complaints {
					t.Error(s)
				}
				if ok {
					asked++
				}
				if a.code == "not_found" {
					absent[q.op.Name+"/"+q.op.Tool+" "+q.slot] = true
				}
			}
		}
	}
	// A place at which nobody was ever told "not found" was not reached.
	places := 0
	for _, o := range w.ops.All() {
		for _, slot := range slots(o.In) {
			places++
			if at := o.Name + "/" + o.Tool + " " + slot; !absent[at] {
				t.Errorf("nobody got as far as looking %s up", at)
			}
		}
	}
	if places < 15 || asked < 1000 {
		t.Errorf("only %d questions were asked about %d places", asked, places)
	}
	t.Logf("%d foreign ids at %d places", asked, places)
}

// What has no place for an id names nothing of others either, and a tenant cannot
// be asked for.
func TestNoAnswerNamesWhatIsForeignAndNoTenantIsAskedFor(t *testing.T) {
	req.Covers(t, "P5", "CM-045", "ID-027")
	w := newWorld(t, op.Default())
	for i, at := range [][2]string{{"other", project}, {tenant, "side"}} {
		w.settle(w.caller(identity.Owner, at[0], at[1], "eve"), fmt.Sprintf("foreign-%d", i))
	}
	mine := w.settle(w.caller(identity.Owner, tenant, project, "ada"), "mine")
	for _, c := range w.own(mine) {
		for _, o := range w.ops.All() {
			in := arguments{words: map[string]any{"task_id": mine.code, "raised_id": mine.raised, "query": "work"}}.of(seen(o, c))
			if o.Effect == op.Read {
				if a, ok := w.call(c, o, in); ok && strings.Contains(a.body, "foreign-") {
					t.Errorf("%s/%s by %s names another's task: %s", o.Name, o.Tool, c.name, a)
				}
			}
			for _, field := range []string{"tenant", "tenant_id", "team", "project"} {
				in[field] = "other"
				a, ok := w.call(c, o, in)
				delete(in, field)
				if ok && (a.status < 400 || a.writes != 0) {
					t.Errorf("%s/%s by %s with %s: %s", o.Name, o.Tool, c.name, field, a)
				}
			}
		}
	}
}

// A supervisor that names another's turn gets one answer, whether it exists or
// not.
func TestARunnerThatNamesAForeignTurnLearnsNothing(t *testing.T) {
	req.Covers(t, "ID-030", "ID-027", "CM-045")
	w := newWorld(t, op.Default())
	theirs := w.settle(w.caller(identity.Owner, "other", project, "eve"), "theirs")
	mine := w.settle(w.caller(identity.Owner, tenant, project, "ada"), "mine")
	c := w.caller(identity.Runner, tenant, project, string(mine.task))
	none := stranger(theirs.turn)
	for _, name := range []string{"beat", "report"} {
		in := map[string]any{"turn_id": theirs.turn, "epoch": 1}
		foreign := w.post(c, "/runner/"+name, in)
		in["turn_id"] = none
		random := w.post(c, "/runner/"+name, in)
		if foreign.code != "identity_mismatch" || without(foreign.body, theirs.turn) != without(random.body, none) ||
			foreign.reads != random.reads || foreign.writes+random.writes != 0 {
			t.Errorf("%s: %s; for a random turn: %s", name, foreign, random)
		}
	}
}

type leakIn struct {
	TaskID string `json:"task_id" jsonschema:"the task"`
}

type nothing struct{}

// leaks are operations that get it wrong, each in one way.
func leaks() map[string]func(context.Context, *app.App, app.Call, string) error {
	theirs := func(ctx context.Context, a *app.App, word string) bool {
		_, err := a.Store.Get(ctx, store.For("other").Task(id.Task(word)).Meta())
		return err == nil
	}
	missing := fmt.Errorf("there is none")
	return map[string]func(context.Context, *app.App, app.Call, string) error{
		"text": func(ctx context.Context, a *app.App, _ app.Call, word string) error {
			if theirs(ctx, a, word) {
				return fmt.Errorf("it is not yours")
			}
			return identityMissing(word)
		},
		"reads": func(ctx context.Context, a *app.App, _ app.Call, word string) error {
			if theirs(ctx, a, word) {
				theirs(ctx, a, word)
			}
			return missing
		},
		"writes": func(ctx context.Context, a *app.App, _ app.Call, word string) error {
			if theirs(ctx, a, word) {
				return a.Store.Transact(ctx, store.Write{Act: store.Put, Item: store.Item{
					Key: store.For("other").Task(id.Task(word)).Key("SEEN"), Attr: store.Attr{store.AttrType: "seen"},
				}})
			}
			return missing
		},
	}
}

func identityMissing(word string) error { return fmt.Errorf("there is no %s", word) }

// The question itself finds an operation that leaks, in each way there is.
func TestAnOperationThatLeaksIsFound(t *testing.T) {
	req.Covers(t, "ID-030")
	for name, leak := range leaks() {
		t.Run(name, func(t *testing.T) {
			planted := op.Define(op.Op{
				Name: "peek", Tool: "lazy_peek", Doc: "Peek.", Effect: op.Read, People: []identity.Kind{identity.Owner},
			}, func(ctx context.Context, a *app.App, c app.Call, in leakIn) (nothing, error) {
				return nothing{}, leak(ctx, a, c, in.TaskID)
			})
			w := newWorld(t, op.New(append(op.Default().All(), planted)...))
			theirs := w.settle(w.caller(identity.Owner, "other", project, "eve"), "theirs")
			complaints, _, ok := w.probe(w.caller(identity.Owner, tenant, project, "ada"), planted, "task_id", string(theirs.task), owned{})
			if !ok || len(complaints) == 0 {
				t.Error("nothing was found wrong with it")
			}
		})
	}
}
