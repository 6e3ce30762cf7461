package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// The ways to decide a raised item, and the one way to change it (RI-004, RI-006).
const (
	Respond        = "respond"
	PromoteSubtask = "promote_subtask"
	PromotePeer    = "promote_peer"
	Dismiss        = "dismiss"
	SetBlocking    = "set_blocking"
)

// Actions lists the four ways to decide an item.
func Actions() []string { return []string{Respond, PromoteSubtask, PromotePeer, Dismiss} }

// Resolution decides one raised item.
type Resolution struct {
	Raised   string
	Action   string
	Response string
	Goal     string
	Prompt   string
	Blocking *bool // for SetBlocking
}

// Resolved says what became of one item.
type Resolved struct {
	RaisedID string  `json:"raised_id" jsonschema:"the item"`
	State    string  `json:"state" jsonschema:"open or resolved"`
	Action   string  `json:"action" jsonschema:"what was done"`
	Blocking bool    `json:"blocking" jsonschema:"whether it holds accept while open"`
	TaskID   id.Task `json:"task_id,omitempty" jsonschema:"the task made from it, in backlog"`
	Code     string  `json:"code,omitempty" jsonschema:"code of that task"`
}

// Resolutions answers a call that decided items.
type Resolutions struct {
	TaskID   id.Task    `json:"task_id" jsonschema:"the task whose items they are"`
	Code     string     `json:"code" jsonschema:"its code"`
	Items    []Resolved `json:"items" jsonschema:"the items, in the order given"`
	Blocking int64      `json:"open_blocking" jsonschema:"blocking items of that task that are still open"`
}

// promotions bounds how many tasks one call may make, since all of it is one
// transaction.
const promotions = 8

// resolution is what a set of decisions does to a task.
type resolution struct {
	task   task.Task // with its counters as they will be
	writes []store.Write
	items  []Resolved
}

// resolveRaised is decideRaised for a transaction that decides items beside what
// it is about: accept and unblock.
func (a *App) resolveRaised(ctx context.Context, c Call, t task.Task, in []Resolution) ([]store.Write, task.Task, error) {
	for n, r := range in {
		if r.Action == SetBlocking {
			return nil, t, refusal.Of(refusal.InvalidArguments, fmt.Sprintf("raised_resolutions[%d].action", n), "one of "+strings.Join(Actions(), ", "), r.Action)
		}
	}
	r, err := a.decideRaised(ctx, c, t, in)
	return r.writes, r.task, err
}

// decideRaised decides items of t for a caller who may: a person or a builder. It
// commits nothing. The caller commits task and writes with whatever else the
// decisions belong to, so that a failing gate leaves every item as it was
// (RI-012); should that transaction lose a race, it calls again on fresh rows.
func (a *App) decideRaised(ctx context.Context, c Call, t task.Task, in []Resolution) (resolution, error) {
	out := resolution{task: t}
	if len(in) == 0 {
		return out, nil
	}
	if !c.Who.Person() && c.Who.Kind != identity.Builder {
		return out, refusal.Of(refusal.RaisedSelf)
	}
	used, seen := taken{}, map[string]bool{}
	made := 0
	for n, r := range in {
		at := fmt.Sprintf("raised_resolutions[%d]", n)
		owner, item, err := a.findItem(ctx, c.Who, r.Raised)
		if err != nil {
			return out, err
		}
		switch {
		case owner.ID != t.ID:
			return out, refusal.Of(refusal.InvalidArguments, at+".raised_id", "an item of "+t.Name(), "one of "+owner.Name())
		case seen[item.ID]:
			return out, refusal.Of(refusal.InvalidArguments, at+".raised_id", "each item once", item.ID+" again")
		case item.State != ItemOpen:
			return out, decided(item)
		}
		seen[item.ID] = true
		v := Resolved{RaisedID: item.ID, Action: r.Action}
		res := raise.Resolution{Action: r.Action, Actor: c.Actor(), At: a.Now()}
		switch r.Action {
		case Respond:
			if text.Blank(r.Response) {
				return out, refusal.Of(refusal.InvalidArguments, at+".response", "the answer to the agent", "nothing")
			}
			res.Response = text.Prose(r.Response)
		case Dismiss:
			res.Response = text.Prose(r.Response)
		case PromoteSubtask, PromotePeer:
			if made++; made > promotions {
				return out, refusal.Of(refusal.InvalidArguments, "raised_resolutions", fmt.Sprintf("at most %d promotions in one call", promotions), "more")
			}
			d, was, err := a.promote(ctx, c, t, item, r, used)
			if err != nil {
				return out, err
			}
			out.writes = append(out.writes, a.birth(was, d)...)
			res.Task, v.TaskID, v.Code = d.task.ID, d.task.ID, d.task.Code
			res.Response = text.Prose(r.Response)
		case SetBlocking:
			if r.Blocking == nil {
				return out, refusal.Of(refusal.BlockingRequired)
			}
			out.task.Blocking += weight(*r.Blocking) - weight(item.Blocking)
			item.Blocking = *r.Blocking
			w, item := itemWrite(a.part(t).Raised(item.Seq), item)
			out.writes = append(out.writes, w)
			v.State, v.Blocking = item.State, item.Blocking
			out.items = append(out.items, v)
			continue
		default:
			return out, refusal.Of(refusal.InvalidArguments, at+".action", "one of "+strings.Join(Actions(), ", "), fmt.Sprintf("%q", r.Action))
		}
		out.task.Open--
		out.task.Blocking -= weight(item.Blocking)
		item.State, item.Resolution = ItemResolved, &res
		w, item := itemWrite(a.part(t).Raised(item.Seq), item)
		out.writes = append(out.writes, w)
		v.State, v.Blocking = item.State, item.Blocking
		out.items = append(out.items, v)
	}
	return out, nil
}

func weight(blocking bool) int64 {
	if blocking {
		return 1
	}
	return 0
}

// decided tells whoever comes second what was decided, by whom and when (OT-045).
func decided(i raise.Item) error {
	e := fault.New(fault.Conflict, "item %s was decided before. Nothing was changed.", i.ID)
	if r := i.Resolution; r != nil {
		e = fault.New(fault.Conflict, "item %s was decided before: %s, by %s at %s. Nothing was changed.", i.ID, r.Action, r.Actor, stamp(r.At)).
			WithDetail("by", r.Actor).WithDetail("did", r.Action).WithDetail("at", r.At)
	}
	return e
}

// promote drafts the backlog task an item becomes (RI-010).
func (a *App) promote(ctx context.Context, c Call, t task.Task, item raise.Item, r Resolution, used taken) (draft, task.Task, error) {
	in := NewTask{Goal: r.Goal, Prompt: r.Prompt, Agent: t.Agent, Model: t.Model, Effort: t.Effort}
	if text.Blank(in.Goal) {
		in.Goal = item.Title
	}
	if text.Blank(in.Prompt) {
		body, err := a.readText(ctx, t, item.Proposed, item.ProposedIn)
		if err == nil && body == "" {
			body, err = a.readText(ctx, t, item.Content, item.Body)
		}
		if err != nil {
			return draft{}, task.Task{}, err
		}
		in.Prompt = body
	}
	parent := &t
	if r.Action == PromotePeer {
		parent = nil
		if t.Parent != "" {
			p, ok, err := a.loadTask(ctx, t.Tenant, t.Parent)
			if err != nil {
				return draft{}, task.Task{}, err
			}
			if ok {
				parent = &p
			}
		}
	}
	if parent != nil && parent.Status.Terminal() {
		return draft{}, task.Task{}, finished(r.Action, *parent)
	}
	d, err := a.draft(ctx, c, in, parent, "", used)
	return d, task.Task{Tenant: d.task.Tenant, Project: d.task.Project, ID: d.task.ID}, err
}

// birth is the writes of a new task whose transaction belongs to another.
func (a *App) birth(was task.Task, d draft) []store.Write {
	p, now := a.part(was), a.Now()
	d.task.Version, d.task.Updated = 1, now
	ws := append(d.writes, taskWrite(p.Meta(), d.task, 0), liveWrite(d.task))
	for _, h := range d.history {
		h.Version = 1
		ws = append(ws, historyWrite(p.History(1), d.task.Project, h))
	}
	for i, j := range d.jobs {
		ws = append(ws, a.jobWrite(was, 1, fmt.Sprintf("%08d.%d", 1, i), j, now))
	}
	return ws
}

// ResolveRaised decides items on their own, outside accept and unblock. All of a
// call's items belong to one task, so that all of it happens or nothing does.
func (a *App) ResolveRaised(ctx context.Context, c Call, in []Resolution) (Resolutions, error) {
	if len(in) == 0 {
		return Resolutions{}, refusal.Of(refusal.InvalidArguments, "raised_resolutions", "at least one decision", "none")
	}
	owner, _, err := a.findItem(ctx, c.Who, in[0].Raised)
	if err != nil {
		return Resolutions{}, err
	}
	var out Resolutions
	_, err = a.mutate(ctx, c, owner.Tenant, owner.ID, func(t task.Task) (change, error) {
		r, err := a.decideRaised(ctx, c, t, in)
		if err != nil {
			return change{}, err
		}
		out = Resolutions{TaskID: t.ID, Code: t.Code, Items: r.items, Blocking: r.task.Blocking}
		return change{task: r.task, writes: r.writes, result: out}, nil
	})
	return out, err
}

// PromoteRaised makes a backlog task from an item and never starts it.
func (a *App) PromoteRaised(ctx context.Context, c Call, r Resolution) (Created, error) {
	owner, _, err := a.findItem(ctx, c.Who, r.Raised)
	if err != nil {
		return Created{}, err
	}
	var out Created
	_, err = a.mutate(ctx, c, owner.Tenant, owner.ID, func(t task.Task) (change, error) {
		res, err := a.decideRaised(ctx, c, t, []Resolution{r})
		if err != nil {
			return change{}, err
		}
		v := res.items[0]
		out = Created{TaskID: v.TaskID, Code: v.Code, Status: task.Backlog, Branch: BranchOf(v.Code), RaisedID: v.RaisedID}
		return change{task: res.task, writes: res.writes, result: out}, nil
	})
	return out, err
}
