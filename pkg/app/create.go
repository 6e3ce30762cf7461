package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// NewTask is what a task is made from. A nil Parent was not named; "" asks for
// the top level.
type NewTask struct {
	Goal   string
	Prompt string
	Code   string
	Type   string
	Parent *string
	Agent  string
	Model  string
	Effort string
	Base   string // branch a top-level task is cut from and aims at
	Tags   []string
}

// Created answers createTask: the task, or the code to confirm it with.
type Created struct {
	TaskID   id.Task     `json:"task_id,omitempty" jsonschema:"full id of the new task"`
	Code     string      `json:"code,omitempty" jsonschema:"its code, unique in the project"`
	Goal     string      `json:"goal,omitempty" jsonschema:"its goal as stored"`
	Status   task.Status `json:"status,omitempty" jsonschema:"always backlog: nothing was started"`
	Parent   id.Task     `json:"parent_task_id,omitempty" jsonschema:"the task it belongs to; absent at top level"`
	Branch   string      `json:"branch,omitempty" jsonschema:"the branch it will work on"`
	CutFrom  string      `json:"cut_from,omitempty" jsonschema:"the branch it will be cut from at start, and merge into"`
	Agent    string      `json:"agent,omitempty" jsonschema:"registered agent that will run it"`
	Model    string      `json:"model,omitempty" jsonschema:"model it will run with; absent means the agent's own default"`
	Effort   string      `json:"effort,omitempty" jsonschema:"effort it will run with; absent means the agent's own default"`
	RaisedID string      `json:"raised_id,omitempty" jsonschema:"the raised item it was promoted from"`
	*Confirmation
}

func created(t task.Task) Created {
	return Created{
		TaskID: t.ID, Code: t.Code, Goal: t.Goal, Status: t.Status, Parent: t.Parent,
		Branch: t.Branch, CutFrom: t.Target, Agent: t.Agent, Model: t.Model, Effort: t.Effort,
	}
}

// CreateTask makes a task and never starts it (OT-001, SM-002).
func (a *App) CreateTask(ctx context.Context, c Call, in NewTask) (Created, error) {
	var own id.Task
	if c.Key != "" {
		own = id.KeyedTask(c.Who.Hash, c.Key)
	}
	for n := 0; ; n++ {
		parent, err := a.parentFor(ctx, c, in.Parent)
		if err != nil {
			return Created{}, a.ownResult(ctx, c, err)
		}
		used := taken{}
		d, err := a.draft(ctx, c, in, parent, own, used)
		if err != nil {
			return Created{}, a.ownResult(ctx, c, err)
		}
		ask, err := a.confirmCreate(ctx, c, d.task, parent)
		if err != nil || ask != nil {
			return Created{Confirmation: ask}, err
		}
		was := task.Task{Tenant: d.task.Tenant, Project: d.task.Project, ID: d.task.ID}
		ch := change{task: d.task, history: d.history, writes: d.writes, jobs: d.jobs, result: created(d.task), answered: d.answered}
		ch.writes = append(ch.writes, parentStands(c, a, parent)...)
		ch.writes = append(ch.writes, a.confirmWrites(c)...)
		_, err = a.commit(ctx, c, was, ch)
		var lost *store.ConflictError
		if (errors.As(err, &lost) || errors.Is(err, store.ErrContention)) && n < tries && !isIdem(c, lost) {
			continue // a name was taken, or the parent moved: look again
		}
		if err != nil {
			return Created{}, err
		}
		return created(d.task), nil
	}
}

// parentFor decides whose child a new task is. A task agent's is always its own
// (CM-014); nothing it may not see is looked up to say so.
func (a *App) parentFor(ctx context.Context, c Call, word *string) (*task.Task, error) {
	if c.Who.Kind == identity.Task {
		self, ok, err := a.loadTask(ctx, c.Who.Tenant, c.Who.Task())
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fault.New(fault.Internal, "the task of this token is gone")
		}
		if word != nil && !addresses(self, *word) {
			return nil, refusal.Of(refusal.ParentNotSelf, "create", self.Name())
		}
		if err := ownRun(c, self); err != nil {
			return nil, err
		}
		return &self, nil
	}
	if word == nil || text.Blank(*word) {
		return nil, nil
	}
	p, err := a.find(ctx, c.Who, *word)
	if err != nil {
		return nil, err
	}
	if p.Status.Terminal() {
		return nil, finished("create under it", p)
	}
	return &p, nil
}

// addresses reports whether word addresses t.
func addresses(t task.Task, word string) bool {
	word = strings.ToLower(strings.TrimSpace(word))
	return word == string(t.ID) || word == t.Code ||
		len(word) >= id.ShortLen && strings.HasPrefix(string(t.ID), word)
}

// finished refuses a verb that a task which is over does not take, and names the
// way back (SM-021).
func finished(verb string, t task.Task) *fault.Error {
	var open []string
	for _, s := range task.Statuses() {
		if !s.Terminal() {
			open = append(open, s.Words())
		}
	}
	e := refusal.Of(refusal.StatusNotAllowed, verb, t.Status.Words(), strings.Join(open, ", "))
	e.Next = append(e.Next,
		fault.Next{For: "cli", Text: "`lazy reopen " + t.Name() + "` brings it back."},
		fault.Next{For: "mcp", Text: "lazy_reopen brings it back."},
		fault.Next{For: "web", Text: "Reopen brings it back."})
	return e.WithDetail("status", string(t.Status)).WithDetail("task_id", t.ID)
}

// parentStands makes a creation conditional on its parent still being open, and
// on the calling run still being the one in force.
func parentStands(c Call, a *App, p *task.Task) []store.Write {
	if p == nil {
		return nil
	}
	var open []string
	for _, s := range task.Statuses() {
		if !s.Terminal() {
			open = append(open, string(s))
		}
	}
	w := store.Write{Act: store.Check, Item: store.Item{Key: a.part(*p).Meta()}, If: []store.Cond{store.StatusIn(open...)}}
	if c.Who.Kind == identity.Task {
		w.If = append(w.If, store.EpochIs(p.Epoch))
	}
	return []store.Write{w}
}

// taken holds the names given out by one transaction that is not committed yet.
type taken map[string]bool

// draft is a task about to be made, with the writes it needs beside its own row.
type draft struct {
	task    task.Task
	history []task.History
	writes  []store.Write
	jobs    []Job

	answered bool // one of writes answers the call when it is repeated
}

// draft draws an id, settles the code and checks everything a new task must be. own
// is the id that belongs to the call's key, "" for a task that is not all it makes.
// All of it is checked once more by the conditions of its writes.
func (a *App) draft(ctx context.Context, c Call, in NewTask, parent *task.Task, own id.Task, used taken) (draft, error) {
	set, err := a.Settings(ctx, c.Who.Tenant, c.Who.Project)
	if err != nil {
		return draft{}, err
	}
	t := task.Task{
		Schema: schema, Tenant: c.Who.Tenant, Project: c.Who.Project,
		Goal: text.Line(in.Goal), Type: text.Line(in.Type),
		Agent: text.Line(in.Agent), Model: text.Line(in.Model), Effort: text.Line(in.Effort),
		Prompt: "prompt.1", Created: a.Now(),
	}
	if t.Goal == "" {
		return draft{}, refusal.Of(refusal.InvalidArguments, "goal", "a line of text", "nothing but white space")
	}
	if t.Agent, err = agentFor(set, t.Agent); err != nil {
		return draft{}, err
	}
	if t.Tags, err = cleanTags(in.Tags); err != nil {
		return draft{}, err
	}
	if t.Code, err = a.codeFor(ctx, t, in.Code, used); err != nil {
		return draft{}, err
	}
	if t.ID, err = a.newTaskID(ctx, c, t, own, used); err != nil {
		return draft{}, err
	}
	t.Branch = BranchOf(t.Code)
	if t.Target, err = a.targetFor(ctx, c, set, in.Base, parent); err != nil {
		return draft{}, err
	}
	if parent != nil {
		t.Parent = parent.ID
	}
	p := a.tenant(t).Project(t.Project)
	ch := change{task: t}
	if err := a.move(&ch, task.Change{To: task.Backlog, On: task.Create, Actor: c.Actor()}); err != nil {
		return draft{}, err
	}
	d := draft{task: ch.task, history: ch.history, answered: t.ID == own}
	// The short id comes first: where another copy of this call was first, its row
	// is the one that says so.
	ptr := pointer{Task: t.ID, Prompt: text.Prose(in.Prompt)}
	if d.answered {
		ptr.Digest, ptr.At = c.Digest, a.Now()
	}
	row := func() store.Write {
		if d.answered {
			ptr.Result = encode(created(d.task))
		}
		w := put(p.Short(t.ID.Short()), "short", ptr, store.Absent())
		if d.answered {
			w.Item.Attr[attrAnswers] = string(t.ID)
		}
		return w
	}
	w := row()
	if w.Item.Weight() > names.PointerRow {
		body, err := a.putBody(ctx, t, t.Prompt, ptr.Prompt)
		if err != nil {
			return draft{}, err
		}
		ptr.Prompt = ""
		d.writes = append(d.writes, row(), body)
	} else {
		d.task.Prompt = firstPrompt
		d.writes = append(d.writes, w)
	}
	d.writes = append(d.writes, put(p.Code(t.Code), "code", pointer{Task: t.ID}, store.Absent()))
	if parent != nil {
		d.jobs = append(d.jobs, Job{Kind: Notify, Turn: string(parent.ID), Text: "[Subtask added] " + t.Name() + " — " + quote(t.Goal)})
	}
	return d, nil
}

// BranchOf is the branch of the task with that code.
func BranchOf(code string) string { return "lazy/" + code }

// quote makes a person's words readable as a quotation on one line (PT-005, PT-011).
func quote(s string) string { return `"` + strings.ReplaceAll(text.Line(s), `"`, `\"`) + `"` }

// agentFor checks an agent id against the registered ones, whoever asks (CM-030).
func agentFor(set Settings, name string) (string, error) {
	if name == "" {
		name = set.DefaultAgent
	}
	if _, ok := set.Agents[name]; !ok {
		known := slices.Sorted(maps.Keys(set.Agents))
		return "", refusal.Of(refusal.InvalidArguments, "agent", "one of the registered agents: "+strings.Join(known, ", "), fmt.Sprintf("%q", name)).
			WithDetail("registered", known)
	}
	return name, nil
}

func cleanTags(in []string) ([]string, error) {
	var out []string
	for _, tag := range in {
		tag = text.Line(tag)
		if tag == "" {
			return nil, refusal.Of(refusal.InvalidArguments, "tags", "labels that are not blank", "a blank one")
		}
		if !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	return out, nil
}

// targetFor is the branch a task is cut from and merges into.
func (a *App) targetFor(ctx context.Context, c Call, set Settings, base string, parent *task.Task) (string, error) {
	base = text.Line(base)
	switch {
	case parent != nil && base != "" && base != parent.Branch:
		return "", refusal.Of(refusal.InvalidArguments, "base", "nothing for a subtask: it is cut from its parent's branch "+parent.Branch, fmt.Sprintf("%q", base))
	case parent != nil:
		return parent.Branch, nil
	case base != "":
		if _, err := a.repoOf(c.Who.Tenant, c.Who.Project).Tip(ctx, base); err != nil {
			if fault.KindOf(err) != fault.NotFound {
				return "", err
			}
			return "", refusal.Of(refusal.InvalidArguments, "base", "a branch of this repository", fmt.Sprintf("%q", base))
		}
		return base, nil
	}
	return a.mainBranch(ctx, c, set)
}

func (a *App) mainBranch(ctx context.Context, c Call, set Settings) (string, error) {
	if set.DefaultBranch != "" {
		return set.DefaultBranch, nil
	}
	branch, _, err := a.repoOf(c.Who.Tenant, c.Who.Project).Current(ctx)
	return branch, err
}

// codeFor checks a code that was asked for, or makes a free one from the goal.
func (a *App) codeFor(ctx context.Context, t task.Task, want string, used taken) (string, error) {
	if want = strings.ToLower(text.Line(want)); want != "" {
		if !id.IsCode(want) {
			return "", refusal.Of(refusal.InvalidArguments, "code", "lower-case letters, digits, - and _, at most 64 characters", fmt.Sprintf("%q", want))
		}
		owner, ok, err := get[pointer](ctx, a.Store, a.tenant(t).Project(t.Project).Code(want))
		if err != nil {
			return "", err
		}
		if ok && owner.Task != t.ID || used[want] {
			return "", codeTaken(want, owner.Task)
		}
		used[want] = true
		return want, nil
	}
	slug := id.Slug(t.Goal)
	if slug == "" {
		slug = "task"
	}
	nth := func(n int) string {
		if n == 1 {
			return slug
		}
		return fmt.Sprintf("%s-%d", slug, n)
	}
	// The first free number is looked for by doubling and halving, so that the
	// ten-thousandth task of one goal costs a few reads and not ten thousand.
	lo, hi := 0, 1
	for {
		free, err := a.codeFree(ctx, t, nth(hi), used)
		if err != nil {
			return "", err
		}
		if free {
			break
		}
		lo, hi = hi, hi*2
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		free, err := a.codeFree(ctx, t, nth(mid), used)
		if err != nil {
			return "", err
		}
		if free {
			hi = mid
		} else {
			lo = mid
		}
	}
	used[nth(hi)] = true
	return nth(hi), nil
}

func codeTaken(code string, by id.Task) error {
	e := fault.New(fault.Conflict, "the code %s belongs to another task of this project, %s. Nothing was changed.", code, by.Short())
	return e.WithNext("Choose another code, or leave it out to get one made from the goal.").WithDetail("task_id", by)
}

// codeFree reports whether code names nothing yet, neither as a code nor as a
// short id.
func (a *App) codeFree(ctx context.Context, t task.Task, code string, used taken) (bool, error) {
	if used[code] {
		return false, nil
	}
	p := a.tenant(t).Project(t.Project)
	_, ok, err := get[pointer](ctx, a.Store, p.Code(code))
	if err != nil || ok {
		return false, err
	}
	if len(code) == id.ShortLen && id.IsShort(code) {
		_, ok, err = get[pointer](ctx, a.Store, p.Short(code))
	}
	return !ok, err
}

// redraws bounds how often an id is drawn again because its short form is in use.
const redraws = 10_000

// newTaskID draws an id whose short form names nothing else in the project. own, if
// there is one, is drawn first.
func (a *App) newTaskID(ctx context.Context, c Call, t task.Task, own id.Task, used taken) (id.Task, error) {
	p := a.tenant(t).Project(t.Project)
	for n := range redraws {
		tid := own
		if n > 0 || own == "" {
			tid = a.IDs.Task()
		}
		short := tid.Short()
		if used[short] {
			continue
		}
		_, ok, err := get[pointer](ctx, a.Store, p.Short(short))
		if err == nil && !ok {
			_, ok, err = get[pointer](ctx, a.Store, p.Code(short))
		}
		if err != nil {
			return "", err
		}
		if !ok {
			used[short] = true
			return tid, nil
		}
		if tid == own {
			// Another copy of this call may have made it since this one began.
			if err := a.Before(ctx, c); err != nil {
				return "", err
			}
		}
	}
	return "", fault.New(fault.Unavailable, "no free short id was found in %d draws", redraws)
}
