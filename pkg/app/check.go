package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Finding is one broken promise, in words a person can act on.
type Finding struct {
	Promise string `json:"promise" jsonschema:"the promise that does not hold, for example P4"`
	Task    string `json:"task,omitempty" jsonschema:"code of the task it is about"`
	Says    string `json:"says" jsonschema:"what was found"`
	Next    string `json:"next,omitempty" jsonschema:"what to do about it"`
}

// Checked is the answer of a deep check.
type Checked struct {
	Tasks    int       `json:"tasks" jsonschema:"tasks that were checked"`
	Rows     int       `json:"rows" jsonschema:"records that were read"`
	Moving   []string  `json:"moving,omitempty" jsonschema:"tasks that changed at every look, so nothing is said about them"`
	Ordered  int       `json:"ordered" jsonschema:"outbox records whose work is not done yet"`
	Pending  []string  `json:"pending,omitempty" jsonschema:"work that failed so far and is retried"`
	Findings []Finding `json:"findings" jsonschema:"what is wrong; empty when every promise holds"`
}

// Inspector is a Repository that can be searched for what nobody owns.
type Inspector interface {
	// Branches lists the branches below lazy/ with their heads.
	Branches(ctx context.Context) (map[string]string, error)
	// Workspaces lists the short ids of the tasks that have files on this machine.
	Workspaces(ctx context.Context) ([]string, error)
	// Landings counts the commits of a branch that carry the task's marker.
	Landings(ctx context.Context, branch string, t id.Task) (int, error)
}

// partition is all of one task, read at once.
type partition struct {
	task    task.Task
	due     bool // the task row has a time at which it is looked at
	history []task.History
	turns   []turn.Turn
	runs    []turn.Run
	answers map[int64]turn.Response
	commits []CommitRow
	jobs    []Job
	undue   []string // outbox rows that nothing will ever visit
	strange []string
	bodies  map[string]body
	rows    int
}

// checkTries bounds how often a task that changes under the check is read anew.
const checkTries = 5

// CheckDeep compares every record of the project with every other one, with the
// repository and with the processes of this machine, and says which promises do
// not hold. It changes nothing.
func (a *App) CheckDeep(ctx context.Context, c Call) (Checked, error) {
	out := Checked{Findings: []Finding{}}
	proj := store.For(c.Who.Tenant).Project(c.Who.Project)
	world, err := a.world(ctx)
	if err != nil {
		return out, err
	}
	var ids []id.Task
	live := map[id.Task]store.Item{}
	var bad error
	err = store.All(ctx, a.Store, store.Query{PK: proj.PK}, func(it store.Item) bool {
		out.Rows++
		switch {
		case strings.HasPrefix(it.Key.SK, "SHORT#"):
			ptr, err := decode[pointer](it)
			bad = errors.Join(bad, err)
			ids = append(ids, ptr.Task)
		case strings.HasPrefix(it.Key.SK, "LIVE#"):
			live[id.Task(it.Key.SK[strings.LastIndexByte(it.Key.SK, '#')+1:])] = it
		}
		return true
	})
	if err := errors.Join(err, bad); err != nil {
		return out, err
	}
	known := map[string]task.Task{}
	for _, tid := range ids {
		var found []Finding
		var p partition
		still := false
		for range checkTries {
			var ok bool
			if p, ok, err = a.readAll(ctx, c.Who.Tenant, tid); err != nil {
				return out, err
			}
			if !ok {
				found = []Finding{{"P6", tid.Short(), "a short id is taken by a task that has no record", ""}}
				still = true
				break
			}
			row, listed := live[tid]
			if !listed || row.Doc == nil {
				row, listed, err = a.listRow(ctx, proj.Live(p.task.Created, tid))
				if err != nil {
					return out, err
				}
			}
			if found, err = a.checkTask(ctx, &p, row, listed, world); err != nil {
				return out, err
			}
			now, ok, err := a.loadTask(ctx, c.Who.Tenant, tid)
			if err != nil {
				return out, err
			}
			if still = ok && now.Version == p.task.Version; still && len(found) == 0 {
				break
			}
			// What was read piece by piece may only seem wrong: look again.
			delete(live, tid)
			if world, err = a.world(ctx); err != nil {
				return out, err
			}
		}
		if p.task.ID != "" {
			known[p.task.ID.Short()] = p.task
			out.Tasks++
			out.Rows += p.rows
			out.Ordered += len(p.jobs)
			for _, j := range p.jobs {
				if j.Attempts > 0 {
					out.Pending = append(out.Pending, fmt.Sprintf("%s: %s was tried %d times: %s", p.task.Name(), j.Kind, j.Attempts, j.Error))
				}
			}
		}
		if !still {
			out.Moving = append(out.Moving, p.task.Name())
			continue
		}
		out.Findings = append(out.Findings, found...)
	}
	for tid := range live {
		if _, ok := known[tid.Short()]; !ok {
			out.Findings = append(out.Findings, Finding{"P6", tid.Short(), "a list row belongs to no task", ""})
		}
	}
	out.Findings = append(out.Findings, a.checkWorld(known, world)...)
	return out, nil
}

func (a *App) listRow(ctx context.Context, k store.Key) (store.Item, bool, error) {
	it, err := a.Store.Get(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return it, false, nil
	}
	return it, err == nil, err
}

// surroundings is what exists outside the store.
type surroundings struct {
	branches map[string]string // nil when they cannot be listed
	places   []string          // short ids with files
	runs     []runner.Seen
}

func (a *App) world(ctx context.Context) (surroundings, error) {
	var w surroundings
	if in, ok := a.Repo.(Inspector); ok {
		var err error
		if w.branches, err = in.Branches(ctx); err != nil {
			return w, err
		}
		if w.places, err = in.Workspaces(ctx); err != nil {
			return w, err
		}
	}
	if l, ok := a.Runner.(runner.Lister); ok {
		var err error
		if w.runs, err = l.List(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

// readAll reads a task's whole partition.
func (a *App) readAll(ctx context.Context, tenant string, tid id.Task) (partition, bool, error) {
	p := partition{answers: map[int64]turn.Response{}, bodies: map[string]body{}}
	part := store.For(tenant).Task(tid)
	var bad error
	err := store.All(ctx, a.Store, store.Query{PK: part.PK}, func(it store.Item) bool {
		p.rows++
		bad = p.add(it)
		return bad == nil
	})
	return p, p.task.ID != "", errors.Join(err, bad)
}

func (p *partition) add(it store.Item) (err error) {
	kind, _, _ := strings.Cut(it.Key.SK, "#")
	_, due := it.Index[store.Due]
	switch kind {
	case "META":
		p.task, err = decode[task.Task](it)
		p.due = due
		if err == nil && (it.Int(store.AttrVersion) != p.task.Version || it.Str(store.AttrStatus) != string(p.task.Status) || it.Int(store.AttrEpoch) != p.task.Epoch) {
			p.strange = append(p.strange, "the fields that conditions look at differ from the record")
		}
	case "HIS":
		return push(&p.history, it)
	case "TRN":
		return push(&p.turns, it)
	case "RUN":
		return push(&p.runs, it)
	case "COM":
		return push(&p.commits, it)
	case "RSP":
		r, err := decode[turn.Response](it)
		p.answers[r.Epoch] = r
		return err
	case "BDY":
		b, err := decode[body](it)
		p.bodies[strings.TrimPrefix(it.Key.SK, "BDY#")] = b
		return err
	case "OUT":
		if !due {
			p.undue = append(p.undue, it.Key.SK)
		}
		return push(&p.jobs, it)
	}
	return err
}

func push[T any](to *[]T, it store.Item) error {
	v, err := decode[T](it)
	*to = append(*to, v)
	return err
}

// overdueBy is how long a claim may go without a sign before the check calls it
// stuck: longer than every look that would have moved it.
const overdueBy = 10 * time.Minute
