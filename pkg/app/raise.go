package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// The states of a raised item.
const (
	ItemOpen     = "open"
	ItemResolved = "resolved"
)

// NewRaised is what an agent files for others to decide.
type NewRaised struct {
	Title    string
	Content  string
	Proposed string
	Blocking bool
}

// RaisedShown is a raised item as it is read.
type RaisedShown struct {
	RaisedID   string            `json:"raised_id" jsonschema:"id of the item, unique in the project"`
	TaskID     id.Task           `json:"task_id" jsonschema:"the task whose agent raised it"`
	TaskCode   string            `json:"task_code" jsonschema:"its code"`
	Title      string            `json:"title" jsonschema:"one line"`
	Body       string            `json:"body,omitempty" jsonschema:"the whole of it"`
	Proposed   string            `json:"proposed_prompt,omitempty" jsonschema:"prompt the agent proposes for a task made from it"`
	Blocking   bool              `json:"blocking" jsonschema:"whether it has to be decided before the work can merge"`
	State      string            `json:"state" jsonschema:"open or resolved"`
	Resolution *raise.Resolution `json:"resolution,omitempty" jsonschema:"how it was decided"`
	By         identity.Actor    `json:"by" jsonschema:"who raised it"`
	ByText     string            `json:"by_text" jsonschema:"the same as one label"`
	At         time.Time         `json:"created_at" jsonschema:"when"`
	Cut        bool              `json:"truncated,omitempty" jsonschema:"the words were cut"`
}

// Raised answers lazy_raise.
type Raised struct {
	TaskID   id.Task `json:"task_id" jsonschema:"your task"`
	Code     string  `json:"code" jsonschema:"its code"`
	RaisedID string  `json:"raised_id" jsonschema:"id of the item"`
	Blocking bool    `json:"blocking" jsonschema:"whether the work waits for its decision"`
	What     string  `json:"what_follows" jsonschema:"what happens to it"`
}

// Raise records an item on the caller's own task. It makes no comment, changes no
// status and signals nothing (RI-001, RI-003).
func (a *App) Raise(ctx context.Context, c Call, in NewRaised) (Raised, error) {
	defer a.lanes.enter(c.Who.Subject)()
	var out Raised
	_, err := a.own(ctx, c, func(t task.Task) (change, error) {
		item, ws, err := a.fileItem(ctx, &t, c.Actor(), t.Turn, in)
		out = Raised{TaskID: t.ID, Code: t.Code, RaisedID: item.ID, Blocking: item.Blocking, What: "It is shown to be triaged; the work does not wait for it."}
		if item.Blocking {
			out.What = "The task rests when this turn ends and waits for the decision; end the turn when nothing else can be done without it."
		}
		return change{task: t, writes: ws, result: out}, err
	})
	return out, err
}

// fileItem adds a raised item to t and returns the writes that store it.
func (a *App) fileItem(ctx context.Context, t *task.Task, by identity.Actor, turn id.Turn, in NewRaised) (raise.Item, []store.Write, error) {
	t.Raised++
	t.Open++
	if in.Blocking {
		t.Blocking++
	}
	item := raise.Item{
		ID: fmt.Sprintf("%s-r%d", t.ID.Short(), t.Raised), Seq: t.Raised, Task: t.ID, Turn: turn,
		Title: text.Line(in.Title), Blocking: in.Blocking, State: ItemOpen, Actor: by, At: a.Now(),
	}
	var ws, more []store.Write
	var err error
	if item.Content, item.Body, ws, err = a.keepText(ctx, *t, fmt.Sprintf("raised.%d", item.Seq), text.Prose(in.Content)); err != nil {
		return item, nil, err
	}
	if in.Proposed != "" {
		item.Proposed, item.ProposedIn, more, err = a.keepText(ctx, *t, fmt.Sprintf("raised.%d.prompt", item.Seq), text.Prose(in.Proposed))
		if err != nil {
			return item, nil, err
		}
	}
	w, item := itemWrite(a.part(*t).Raised(item.Seq), item)
	return item, append(append(ws, more...), w), nil
}

// itemWrite puts the next version of an item on condition of the one read.
func itemWrite(k store.Key, item raise.Item) (store.Write, raise.Item) {
	was := item.Version
	item.Version++
	w := put(k, "raised", item, store.VersionIs(was))
	w.Item.Attr[store.AttrVersion] = item.Version
	if was == 0 {
		w.If = []store.Cond{store.Absent()}
	}
	return w, item
}

// items reads the raised items of a task, oldest first.
func (a *App) items(ctx context.Context, t task.Task) ([]raise.Item, error) {
	var out []raise.Item
	err := a.eachRaised(ctx, t, func(i raise.Item) bool {
		out = append(out, i)
		return true
	})
	return out, err
}

// openBlocking lists the items that hold the task's accept (RI-009).
func (a *App) openBlocking(ctx context.Context, t task.Task) ([]raise.Item, error) {
	if t.Blocking == 0 {
		return nil, nil
	}
	all, err := a.items(ctx, t)
	return slices.DeleteFunc(all, func(i raise.Item) bool { return !i.Blocking || i.State != ItemOpen }), err
}

// findItem resolves the id of a raised item to its task and number.
func (a *App) findItem(ctx context.Context, who identity.Caller, word string) (task.Task, raise.Item, error) {
	word = strings.ToLower(strings.TrimSpace(word))
	missing := refusal.Of(refusal.NotFound, "raised item", word)
	cut := strings.LastIndex(word, "-r")
	if cut < 0 {
		return task.Task{}, raise.Item{}, missing
	}
	seq, err := strconv.ParseInt(word[cut+2:], 10, 64)
	if err != nil || seq < 1 {
		return task.Task{}, raise.Item{}, missing
	}
	owner := word[:cut]
	if len(owner) == id.ShortLen && id.IsShort(owner) {
		// The id was made from the short id, so a code of the same spelling is
		// another task's and not meant.
		ptr, ok, err := get[pointer](ctx, a.Store, store.For(who.Tenant).Project(who.Project).Short(owner))
		if err != nil {
			return task.Task{}, raise.Item{}, err
		}
		if ok {
			owner = string(ptr.Task)
		}
	}
	t, err := a.find(ctx, who, owner)
	if refusal.Is(err, refusal.NotFound) {
		return task.Task{}, raise.Item{}, missing
	}
	if err != nil {
		return task.Task{}, raise.Item{}, err
	}
	item, ok, err := get[raise.Item](ctx, a.Store, a.part(t).Raised(seq))
	if err == nil && !ok {
		err = missing
	}
	return t, item, err
}

// RaisedList is a listing of raised items.
type RaisedList struct {
	Items []RaisedShown `json:"raised_items" jsonschema:"the items, oldest first per task, live tasks only unless one is named"`
	More  bool          `json:"more" jsonschema:"whether some were left out; name a task to see all of its items"`
}

const raisedMost = 200

// ListRaised reads raised items of one task, or of all live tasks.
func (a *App) ListRaised(ctx context.Context, c Call, word, state string) (RaisedList, error) {
	if state == "" {
		state = ItemOpen
	}
	out := RaisedList{Items: []RaisedShown{}}
	var tasks []id.Task
	if word != "" {
		t, err := a.target(ctx, c, word)
		if err != nil {
			return out, err
		}
		tasks = append(tasks, t.ID)
	} else {
		live, err := a.liveRows(ctx, c.Who)
		if err != nil {
			return out, err
		}
		for _, l := range live {
			if state != ItemOpen || l.Open > 0 {
				tasks = append(tasks, l.ID)
			}
		}
	}
	left := budget(textsMost)
	for _, tid := range tasks {
		t, ok, err := a.loadTask(ctx, c.Who.Tenant, tid)
		if err != nil {
			return out, err
		}
		if !ok || t.Raised == 0 {
			continue
		}
		all, err := a.items(ctx, t)
		if err != nil {
			return out, err
		}
		for _, i := range all {
			if state != "all" && i.State != state {
				continue
			}
			if len(out.Items) == raisedMost {
				out.More = true
				return out, nil
			}
			v, err := a.itemShown(ctx, t, i, &left)
			if err != nil {
				return out, err
			}
			out.Items = append(out.Items, v)
		}
	}
	return out, nil
}

// ShowRaised reads one item.
func (a *App) ShowRaised(ctx context.Context, c Call, raisedID string) (RaisedShown, error) {
	t, item, err := a.findItem(ctx, c.Who, raisedID)
	if err != nil {
		return RaisedShown{}, err
	}
	left := budget(textsMost)
	return a.itemShown(ctx, t, item, &left)
}

func (a *App) showRaised(ctx context.Context, t task.Task, w Window, left *budget) (*Part[RaisedShown], error) {
	return window(ctx, a, a.part(t).PK, "RSD#", w, func(i raise.Item) (RaisedShown, error) {
		return a.itemShown(ctx, t, i, left)
	})
}

func (a *App) itemShown(ctx context.Context, t task.Task, i raise.Item, left *budget) (RaisedShown, error) {
	v := RaisedShown{
		RaisedID: i.ID, TaskID: i.Task, TaskCode: t.Code, Title: i.Title, Blocking: i.Blocking,
		State: i.State, Resolution: i.Resolution, By: i.Actor, ByText: i.Actor.String(), At: i.At,
	}
	content, err := a.readText(ctx, t, i.Content, i.Body)
	if err != nil {
		return v, err
	}
	proposed, err := a.readText(ctx, t, i.Proposed, i.ProposedIn)
	var cut bool
	v.Body, v.Cut = left.cut(content)
	v.Proposed, cut = left.cut(proposed)
	v.Cut = v.Cut || cut
	return v, err
}
