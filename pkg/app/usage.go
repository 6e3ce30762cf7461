package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// How many models and credentials a record keeps apart.
const (
	runUsages  = 3 // of a run item, which stays below 1 KB
	turnUsages = 12
	taskUsages = 6
)

// Spend is what one model was asked and answered, in tokens as its service counted
// them.
type Spend struct {
	Model      string `json:"model" jsonschema:"the model"`
	Requests   int64  `json:"requests" jsonschema:"how often it was called"`
	Input      int64  `json:"input_tokens" jsonschema:"tokens it was given, without those of a cache"`
	Output     int64  `json:"output_tokens" jsonschema:"tokens it answered"`
	CacheRead  int64  `json:"cache_read_tokens" jsonschema:"tokens read from a cache"`
	CacheWrite int64  `json:"cache_write_tokens" jsonschema:"tokens written to a cache"`
	Tokens     int64  `json:"tokens" jsonschema:"all of these together"`
}

// spend puts usage into what surfaces show: per model, never per credential
// (ST-004).
func spend(all ...[]model.Usage) []Spend {
	out := []Spend{}
	for _, u := range model.ByModel(all...) {
		out = append(out, Spend{
			Model: u.Model, Requests: u.Requests, Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Tokens: u.Tokens(),
		})
	}
	return out
}

// UsageShown is what a task has spent.
type UsageShown struct {
	Tokens  int64   `json:"tokens" jsonschema:"tokens of all its turns, as far as they were reported"`
	Models  []Spend `json:"models" jsonschema:"the same per model"`
	Running []Spend `json:"running,omitempty" jsonschema:"the part that the turn under way has spent so far"`
}

// showUsage sums a task's turns, the running one included.
func (a *App) showUsage(ctx context.Context, t task.Task) (*UsageShown, error) {
	var live []model.Usage
	if t.Claimed && t.Status == task.Working && t.Wait == nil {
		r, _, err := a.seenRun(ctx, t, t.Epoch)
		if err != nil {
			return nil, err
		}
		live = r.Usage
	}
	v := &UsageShown{Models: spend(t.Spent, live)}
	if len(live) > 0 {
		v.Running = spend(live)
	}
	for _, s := range v.Models {
		v.Tokens += s.Tokens
	}
	return v, nil
}

// counts reports whether a caller may read what a task has spent: a task agent
// sees its own and its descendants' only (CM-022, ST-002).
func (a *App) counts(ctx context.Context, c Call, t task.Task) (bool, error) {
	if c.Who.Kind != identity.Task {
		return true, nil
	}
	return a.below(ctx, t, c.Who)
}

// below reports whether t is the caller's own task or descends from it.
func (a *App) below(ctx context.Context, t task.Task, who identity.Caller) (bool, error) {
	for range maxDepth {
		if t.ID == who.Task() {
			return true, nil
		}
		if t.Parent == "" {
			return false, nil
		}
		up, ok, err := a.loadTask(ctx, t.Tenant, t.Parent)
		if err != nil || !ok {
			return false, err
		}
		t = up
	}
	return false, nil
}

// maxDepth ends a walk up a tree of tasks that somebody bent into a ring.
const maxDepth = 100

// book adds what a run spent to its task, in the transaction that settles it.
func book(t *task.Task, usage []model.Usage) {
	if len(usage) > 0 {
		t.Spent = model.Merge(taskUsages, t.Spent, usage)
	}
}

// crashRecord is the record that a crash of the run of o left, if it did. What
// that record counts is what was booked.
func (a *App) crashRecord(ctx context.Context, t task.Task, o Op) (turn.Turn, error) {
	tr, ok, err := get[turn.Turn](ctx, a.Store, a.part(t).Turn(o.Seq+1))
	if err != nil || !ok || tr.Side != turn.Crash {
		return turn.Turn{}, err
	}
	return tr, nil
}
