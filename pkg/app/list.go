package app

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Row is a task in a listing. Every surface and caller sees the same (CM-044).
type Row struct {
	TaskID   id.Task     `json:"task_id" jsonschema:"full id"`
	Short    string      `json:"short_id" jsonschema:"first eight characters of the id, unique in the project"`
	Code     string      `json:"code" jsonschema:"the task's code"`
	Goal     string      `json:"goal" jsonschema:"its goal, cut when long"`
	Status   task.Status `json:"status" jsonschema:"its status"`
	Substate string      `json:"substate,omitempty" jsonschema:"who is active in a working task"`
	Text     string      `json:"status_text" jsonschema:"status and substate in the words people read"`
	Progress string      `json:"progress,omitempty" jsonschema:"the agent's own line about what it is doing"`
	Retry    string      `json:"retry_status,omitempty" jsonschema:"the attempt under way while a turn is retrying"`
	Merge    string      `json:"merge_state,omitempty" jsonschema:"unresolved merge left in the workspace"`
	Agent    string      `json:"agent" jsonschema:"registered agent"`
	Model    string      `json:"model,omitempty" jsonschema:"model, when one is set"`
	Host     bool        `json:"host_process,omitempty" jsonschema:"its last turn ran without a sandbox"`
	Tags     []string    `json:"tags,omitempty" jsonschema:"labels"`
	Parent   id.Task     `json:"parent_task_id,omitempty" jsonschema:"the task it belongs to"`
	Hidden   int         `json:"hidden_descendants,omitempty" jsonschema:"tasks below it that levels left out"`
	Open     int64       `json:"open_raised" jsonschema:"raised items still to be decided"`
	Blocking int64       `json:"open_blocking" jsonschema:"of these, the ones that hold accept"`
	Commits  int64       `json:"commits" jsonschema:"commits of its agent"`
	Created  time.Time   `json:"created_at" jsonschema:"when it was made"`
	Updated  time.Time   `json:"updated_at" jsonschema:"when it last changed"`
}

// Listing is a page of tasks.
type Listing struct {
	Tasks  []Row  `json:"tasks" jsonschema:"the tasks, oldest first; finished ones after the live ones, newest first"`
	Cursor string `json:"cursor,omitempty" jsonschema:"pass it to get the next page; absent on the last"`
	AsOf   string `json:"as_of,omitempty" jsonschema:"set when finished tasks are included: they come from an index that may lag behind this time"`
}

// ListQuery narrows a listing.
type ListQuery struct {
	Status []task.Status // empty: every live status
	Tag    string
	Levels int // 0: all
	Limit  int
	Cursor string
}

const (
	listLimit = 200
	listMost  = 500
)

// liveRows reads the project's live list: the rows that were written in the
// tasks' own transactions (RP-028, OT-047), oldest task first.
func (a *App) liveRows(ctx context.Context, who identity.Caller) ([]Live, error) {
	var out []Live
	var bad error
	q := store.Query{PK: store.For(who.Tenant).Project(who.Project).PK, Prefix: "LIVE#", Limit: 1000}
	err := store.All(ctx, a.Store, q, func(it store.Item) bool {
		l, err := decode[Live](it)
		bad = err
		out = append(out, l)
		return err == nil
	})
	if err == nil {
		err = bad
	}
	return out, err
}

// ListTasks lists live tasks, and finished ones when a finished status is asked
// for.
func (a *App) ListTasks(ctx context.Context, c Call, q ListQuery) (Listing, error) {
	if q.Limit <= 0 {
		q.Limit = listLimit
	}
	q.Limit = min(q.Limit, listMost)
	phase, at, err := openCursor(q.Cursor)
	if err != nil {
		return Listing{}, err
	}
	out := Listing{Tasks: []Row{}}
	past := slices.ContainsFunc(q.Status, task.Status.Terminal)
	if phase != "past" {
		rows, hidden, err := a.livePage(ctx, c.Who, q, at)
		if err != nil {
			return Listing{}, err
		}
		for i, l := range rows {
			if i == q.Limit {
				out.Cursor = sealCursor("live", store.Partition{}.Live(rows[i-1].Created, rows[i-1].ID).SK)
				return out, nil
			}
			r, err := a.row(ctx, c.Who.Tenant, l)
			if err != nil {
				return Listing{}, err
			}
			r.Hidden = hidden[l.ID]
			out.Tasks = append(out.Tasks, r)
		}
		at = ""
	}
	if !past {
		return out, nil
	}
	out.AsOf = stamp(a.Now())
	if len(out.Tasks) == q.Limit {
		out.Cursor = sealCursor("past", "")
		return out, nil
	}
	for {
		p, err := a.Store.Query(ctx, store.Query{
			Index: store.Past, PK: store.For(c.Who.Tenant).Project(c.Who.Project).PK + "#PAST",
			Reverse: true, Limit: q.Limit - len(out.Tasks), Cursor: at,
		})
		if err != nil {
			return Listing{}, badCursor(err)
		}
		for _, it := range p.Items {
			t, err := decode[task.Task](it)
			if err != nil {
				return Listing{}, err
			}
			if slices.Contains(q.Status, t.Status) && (q.Tag == "" || slices.Contains(t.Tags, q.Tag)) {
				r, err := a.row(ctx, c.Who.Tenant, liveOf(t))
				if err != nil {
					return Listing{}, err
				}
				out.Tasks = append(out.Tasks, r)
			}
		}
		if at = p.Next; at == "" {
			return out, nil
		}
		if len(out.Tasks) >= q.Limit {
			out.Cursor = sealCursor("past", at)
			return out, nil
		}
	}
}

// livePage returns the live rows that q asks for after the place at, and one more
// than its limit when there are more. It reads no further than the page, unless
// tasks are to be counted on the ones above them.
func (a *App) livePage(ctx context.Context, who identity.Caller, q ListQuery, at string) ([]Live, map[id.Task]int, error) {
	in := func(l Live) bool {
		return (len(q.Status) == 0 || slices.Contains(q.Status, l.Status)) && (q.Tag == "" || slices.Contains(l.Tags, q.Tag))
	}
	project := store.For(who.Tenant).Project(who.Project)
	if q.Levels > 0 {
		live, err := a.liveRows(ctx, who)
		if err != nil {
			return nil, nil, err
		}
		rows, hidden := depth(live, in, q.Levels)
		seen := func(l Live) bool { return project.Live(l.Created, l.ID).SK <= at }
		return slices.DeleteFunc(rows, seen), hidden, nil
	}
	read := store.Query{PK: project.PK, From: "LIVE#", To: "LIVE$", Limit: q.Limit + 1}
	if at != "" {
		read.From = at + "\x00"
	}
	if len(q.Status) > 0 || q.Tag != "" {
		read.Limit = store.MaxLimit
	}
	var rows []Live
	var bad error
	err := store.All(ctx, a.Store, read, func(it store.Item) bool {
		l, err := decode[Live](it)
		if bad = err; err == nil && in(l) {
			rows = append(rows, l)
		}
		return err == nil && len(rows) <= q.Limit
	})
	return rows, nil, errors.Join(err, bad)
}

// ListActive lists the tasks with a live worktree.
func (a *App) ListActive(ctx context.Context, c Call, levels int) (Listing, error) {
	var active []task.Status
	for _, s := range task.Statuses() {
		if s.Active() {
			active = append(active, s)
		}
	}
	return a.ListTasks(ctx, c, ListQuery{Status: active, Levels: levels, Limit: listMost})
}

// ListBlocked lists the tasks a person's decision is due on, flat and without a
// parent (OT-011).
func (a *App) ListBlocked(ctx context.Context, c Call) (Listing, error) {
	var waiting []task.Status
	for _, s := range task.Statuses() {
		if s.Waiting() {
			waiting = append(waiting, s)
		}
	}
	l, err := a.ListTasks(ctx, c, ListQuery{Status: waiting, Limit: listMost})
	for i := range l.Tasks {
		l.Tasks[i].Parent = ""
	}
	return l, err
}

// row completes a live row with what its run says.
func (a *App) row(ctx context.Context, tenant string, l Live) (Row, error) {
	var run *turn.Run
	if l.Status == task.Working {
		t, ok, err := a.loadTask(ctx, tenant, l.ID)
		if err != nil {
			return Row{}, err
		}
		if ok {
			l.Commits = t.Commits
		}
		t.Tenant, t.ID = tenant, l.ID
		r, ok, err := a.seenRun(ctx, t, l.Epoch)
		if err != nil {
			return Row{}, err
		}
		if ok {
			run = &r
		}
	}
	now := a.Now()
	r := Row{
		TaskID: l.ID, Short: l.ID.Short(), Code: l.Code, Goal: l.Goal, Status: l.Status,
		Substate: Substate(l, run, now), Text: WithStatus(l, run, now), Progress: progressOf(l, run, now),
		Agent: l.Agent, Model: l.Model, Host: l.Host, Tags: l.Tags, Parent: l.Parent,
		Open: l.Open, Blocking: l.Blocking, Commits: l.Commits, Created: l.Created, Updated: l.Updated,
	}
	if run != nil {
		r.Retry = run.Retry
	}
	if l.MidMerge {
		r.Merge = MergeState([]string{""})
	}
	return r, nil
}

// depth keeps the rows that pass in, down to levels below the topmost ones, and
// counts what it left out on the nearest survivor above (OT-011). The parent of a
// row is its nearest ancestor that passes.
func depth(live []Live, in func(Live) bool, levels int) ([]Live, map[id.Task]int) {
	byID := make(map[id.Task]Live, len(live))
	for _, l := range live {
		byID[l.ID] = l
	}
	above := func(l Live) (Live, bool) {
		for range live { // a chain cannot be longer than the list
			p, ok := byID[l.Parent]
			if !ok {
				return Live{}, false
			}
			if in(p) {
				return p, true
			}
			l = p
		}
		return Live{}, false
	}
	hidden := map[id.Task]int{}
	var out []Live
	for _, l := range live {
		if !in(l) {
			continue
		}
		chain := []Live{l}
		for p, ok := above(l); ok && len(chain) <= len(live); p, ok = above(p) {
			chain = append(chain, p)
		}
		if levels <= 0 || len(chain) <= levels {
			out = append(out, l)
			continue
		}
		hidden[chain[len(chain)-levels].ID]++
	}
	return out, hidden
}

func sealCursor(phase, at string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(phase + "\x00" + at))
}

func openCursor(s string) (phase, at string, err error) {
	if s == "" {
		return "", "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	phase, at, ok := strings.Cut(string(b), "\x00")
	if err != nil || !ok || phase != "live" && phase != "past" ||
		phase == "live" && (!strings.HasPrefix(at, "LIVE#") || !utf8.ValidString(at)) {
		return "", "", badCursor(store.ErrCursor)
	}
	return phase, at, nil
}

func badCursor(err error) error {
	if errors.Is(err, store.ErrCursor) {
		return refusal.Of(refusal.InvalidArguments, "cursor", "a cursor of this very listing", "another text")
	}
	return err
}
