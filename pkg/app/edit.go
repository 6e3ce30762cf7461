package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Edit is a change of a task. A nil field is left as it is.
type Edit struct {
	Goal   *string
	Prompt *string
	Code   *string
	Type   *string
	Parent *string // "" moves it to the top level
	Agent  *string
	Model  *string
	Effort *string
}

// Edited answers editTask.
type Edited struct {
	TaskID  id.Task  `json:"task_id" jsonschema:"the task"`
	Code    string   `json:"code" jsonschema:"its code"`
	Changed []string `json:"changed" jsonschema:"the fields that were given"`
	CutFrom string   `json:"cut_from,omitempty" jsonschema:"the branch it will be cut from at start"`
}

// core lists the given fields that are fixed once a task has been started
// (OT-005).
func (e Edit) core() []string {
	return given(map[string]*string{"code": e.Code, "goal": e.Goal, "parent": e.Parent, "prompt": e.Prompt, "type": e.Type})
}

// live lists the given fields that can change until the task is over.
func (e Edit) live() []string {
	return given(map[string]*string{"agent": e.Agent, "effort": e.Effort, "model": e.Model})
}

func given(fields map[string]*string) []string {
	var out []string
	for _, name := range []string{"goal", "prompt", "code", "type", "parent", "agent", "model", "effort"} {
		if v, ok := fields[name]; ok && v != nil {
			out = append(out, name)
		}
	}
	return out
}

// EditTask changes a task: what it is only in backlog, who runs it while it is
// live, and nothing once it is over (SM-021).
func (a *App) EditTask(ctx context.Context, c Call, word string, e Edit) (Edited, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Edited{}, err
	}
	core := e.core()
	changed := append(core, e.live()...)
	switch {
	case len(changed) == 0:
		return Edited{}, refusal.Of(refusal.InvalidArguments, "arguments", "at least one field to change", "none")
	case e.Parent != nil && c.Who.Kind == identity.Task:
		return Edited{}, refusal.Of(refusal.ParentLocked)
	}
	set, err := a.Settings(ctx, c.Who.Tenant, c.Who.Project)
	if err != nil {
		return Edited{}, err
	}
	var out Edited
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if err := related(c, t); err != nil {
			return change{}, err
		}
		fence, err := a.fence(ctx, c, t)
		if err != nil {
			return change{}, err
		}
		verb := "editing " + strings.Join(changed, ", ")
		if t.Status.Terminal() {
			return change{}, finished(verb, t)
		}
		if len(core) > 0 && t.Status != task.Backlog {
			return change{}, refusal.Of(refusal.StatusNotAllowed, "editing "+strings.Join(core, ", "), t.Status.Words(), task.Backlog.Words()).
				WithDetail("status", string(t.Status))
		}
		ch := change{task: t, writes: fence}
		if err := a.applyEdit(ctx, c, set, e, &ch); err != nil {
			return change{}, err
		}
		out = Edited{TaskID: t.ID, Code: ch.task.Code, Changed: changed, CutFrom: ch.task.Target}
		ch.result = out
		return ch, nil
	})
	return out, err
}

func (a *App) applyEdit(ctx context.Context, c Call, set Settings, e Edit, ch *change) error {
	t := &ch.task
	set1 := func(to *string, from *string) {
		if from != nil {
			*to = text.Line(*from)
		}
	}
	if e.Goal != nil {
		if t.Goal = text.Line(*e.Goal); t.Goal == "" {
			return refusal.Of(refusal.InvalidArguments, "goal", "a line of text", "nothing but white space")
		}
	}
	set1(&t.Type, e.Type)
	set1(&t.Model, e.Model)
	set1(&t.Effort, e.Effort)
	if e.Agent != nil {
		name, err := agentFor(set, text.Line(*e.Agent))
		if err != nil {
			return err
		}
		t.Agent = name
	}
	if e.Prompt != nil {
		if text.Blank(*e.Prompt) {
			return refusal.Of(refusal.InvalidArguments, "prompt", "what the agent is to do", "nothing but white space")
		}
		// Bodies never change: the new prompt is a row of its own.
		t.Prompt = fmt.Sprintf("prompt.%d", t.Version+1)
		w, err := a.putBody(ctx, *t, t.Prompt, text.Prose(*e.Prompt))
		if err != nil {
			return err
		}
		ch.writes = append(ch.writes, w)
	}
	if e.Parent != nil {
		if err := a.moveTo(ctx, c, set, *e.Parent, ch); err != nil {
			return err
		}
	}
	if e.Code != nil {
		return a.recode(ctx, c, *e.Code, ch)
	}
	return nil
}

// moveTo puts a backlog task under another parent, or at top level.
func (a *App) moveTo(ctx context.Context, c Call, set Settings, word string, ch *change) error {
	t := &ch.task
	if text.Blank(word) {
		main, err := a.mainBranch(ctx, c, set)
		if err != nil {
			return err
		}
		if t.Parent != "" {
			t.Parent, t.Target = "", main
		}
		return nil
	}
	p, err := a.find(ctx, c.Who, word)
	if err != nil {
		return err
	}
	if p.Status.Terminal() {
		return finished("moving a task under it", p)
	}
	for up := p; ; {
		if up.ID == t.ID {
			return refusal.Of(refusal.InvalidArguments, "parent", "a task that is not below this one", p.Name())
		}
		if up.Parent == "" {
			break
		}
		next, ok, err := a.loadTask(ctx, t.Tenant, up.Parent)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		up = next
	}
	if p.ID == t.Parent {
		return nil
	}
	t.Parent, t.Target = p.ID, p.Branch
	// The version pins the branch the task will be cut from and the chain above it.
	ch.writes = append(ch.writes, store.Write{
		Act: store.Check, Item: store.Item{Key: a.part(p).Meta()}, If: []store.Cond{store.VersionIs(p.Version)},
	})
	return nil
}

// recode gives a backlog task another code, and with it another branch. Subtasks
// that wait in backlog aim at the new one; a started subtask has been cut already.
func (a *App) recode(ctx context.Context, c Call, want string, ch *change) error {
	t := &ch.task
	code, err := a.codeFor(ctx, *t, want, taken{})
	if err != nil || code == t.Code {
		return err
	}
	p := a.tenant(*t).Project(t.Project)
	ch.writes = append(ch.writes,
		store.Write{Act: store.Delete, Item: store.Item{Key: p.Code(t.Code)}},
		put(p.Code(code), "code", pointer{Task: t.ID}, store.Absent()))
	old := t.Branch
	t.Code, t.Branch = code, BranchOf(code)
	live, err := a.liveRows(ctx, c.Who)
	if err != nil {
		return err
	}
	for _, l := range live {
		if l.Parent != t.ID {
			continue
		}
		kid, ok, err := a.loadTask(ctx, t.Tenant, l.ID)
		if err != nil {
			return err
		}
		if !ok || kid.Target != old {
			continue
		}
		if kid.Status != task.Backlog {
			return fault.New(fault.Conflict, "its subtask %s has been cut from %s, so the code stays. Nothing was changed.", kid.Name(), old)
		}
		was := kid.Version
		kid.Target, kid.Version, kid.Updated = t.Branch, was+1, a.Now()
		ch.writes = append(ch.writes, taskWrite(a.part(kid).Meta(), kid, was))
	}
	if len(ch.writes) > store.MaxWrites/2 {
		return fault.New(fault.Conflict, "%s has too many subtasks to change its code with them. Nothing was changed.", t.Name())
	}
	return nil
}
