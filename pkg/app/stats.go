package app

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// TaskStats is what one task has spent and what came of it.
type TaskStats struct {
	TaskID  id.Task     `json:"task_id" jsonschema:"full id"`
	Code    string      `json:"code" jsonschema:"its code"`
	Status  task.Status `json:"status" jsonschema:"its status"`
	Outcome string      `json:"outcome" jsonschema:"accepted, abandoned or open"`
	Rounds  int         `json:"feedback_rounds" jsonschema:"how often it was given feedback"`
	Tokens  int64       `json:"tokens" jsonschema:"tokens of all its turns"`
	Models  []Spend     `json:"models" jsonschema:"the same per model"`
}

// ModelStats is how the project fares with one model.
type ModelStats struct {
	Model     string   `json:"model" jsonschema:"the model"`
	Tasks     int      `json:"tasks" jsonschema:"tasks that spent tokens of it"`
	Accepted  int      `json:"accepted" jsonschema:"of these, the accepted ones"`
	Ended     int      `json:"ended" jsonschema:"of these, the accepted and the abandoned ones"`
	Accepts   *float64 `json:"accept_rate" jsonschema:"accepted of the ended ones; null while none has ended"`
	FirstPass *float64 `json:"first_pass_rate" jsonschema:"of the accepted ones, those without feedback; null while none is accepted"`
	Tokens    *float64 `json:"tokens_per_accepted_task" jsonschema:"mean of the accepted ones; null with a reason where it is not told"`
	Withheld  string   `json:"withheld,omitempty" jsonschema:"why a figure is null"`
}

// tally is a model's figures while they are being added up.
type tally struct {
	ModelStats
	first int
	spent int64
}

// TokenStats answers tokenStats.
type TokenStats struct {
	Tasks  []TaskStats  `json:"tasks" jsonschema:"the tasks in scope that spent any, the dearest first"`
	Models []ModelStats `json:"models" jsonschema:"the whole project per model"`
	AsOf   string       `json:"as_of" jsonschema:"finished tasks come from an index that may lag behind this time"`
}

// pooled is how many accepted tasks a mean needs so that it does not tell an agent
// the bill of one of them (ST-005).
const pooled = 3

// TokenStats says what tasks have spent. People and the builder see the whole
// project; a task agent its own row, with subtree those of its descendants too,
// and the project's figures per model (ST-001 to ST-005).
func (a *App) TokenStats(ctx context.Context, c Call, word string, subtree bool) (TokenStats, error) {
	out := TokenStats{Tasks: []TaskStats{}, Models: []ModelStats{}, AsOf: stamp(a.Now())}
	agent := c.Who.Kind == identity.Task
	if word == "" && agent {
		word = c.Who.Subject
	}
	var root id.Task
	if word != "" {
		t, err := a.target(ctx, c, word)
		if err != nil {
			return out, err
		}
		root = t.ID
		if agent && root != c.Who.Task() {
			ok := false
			if subtree {
				if ok, err = a.below(ctx, t, c.Who); err != nil {
					return out, err
				}
			}
			if !ok {
				return out, refusal.Of(refusal.OwnStatsOnly)
			}
		}
	}
	all, err := a.everyTask(ctx, c.Who)
	if err != nil {
		return out, err
	}
	parents := map[id.Task]id.Task{}
	for _, t := range all {
		parents[t.ID] = t.Parent
	}
	models := map[string]*tally{}
	for _, t := range all {
		live, err := a.showUsage(ctx, t)
		if err != nil {
			return out, err
		}
		row := TaskStats{
			TaskID: t.ID, Code: t.Code, Status: t.Status, Outcome: outcome(t), Rounds: t.Rounds, Tokens: live.Tokens, Models: live.Models,
		}
		for _, s := range row.Models {
			m := models[s.Model]
			if m == nil {
				m = &tally{ModelStats: ModelStats{Model: s.Model}}
				models[s.Model] = m
			}
			m.add(row, s.Tokens)
		}
		if (root == "" || t.ID == root || subtree && descends(parents, t.ID, root)) && (row.Tokens > 0 || t.ID == root) {
			out.Tasks = append(out.Tasks, row)
		}
	}
	slices.SortFunc(out.Tasks, func(x, y TaskStats) int {
		return cmp.Or(cmp.Compare(y.Tokens, x.Tokens), strings.Compare(string(x.TaskID), string(y.TaskID)))
	})
	for _, name := range sortedKeys(models) {
		out.Models = append(out.Models, models[name].told(agent))
	}
	return out, nil
}

func (m *tally) add(t TaskStats, tokens int64) {
	m.Tasks++
	if t.Outcome != "open" {
		m.Ended++
	}
	if t.Outcome != "accepted" {
		return
	}
	m.Accepted++
	m.spent += tokens
	if t.Rounds == 0 {
		m.first++
	}
}

// told completes the figures, without the one that an agent may not be told.
func (m *tally) told(agent bool) ModelStats {
	v := m.ModelStats
	if v.Ended > 0 {
		v.Accepts = new(float64(v.Accepted) / float64(v.Ended))
	}
	switch {
	case v.Accepted == 0:
		v.Withheld = "no task that used this model is accepted yet"
		return v
	case agent && v.Accepted < pooled:
		v.Withheld = "fewer than three accepted tasks: it would tell the bill of one"
	default:
		v.Tokens = new(float64(m.spent) / float64(v.Accepted))
	}
	v.FirstPass = new(float64(m.first) / float64(v.Accepted))
	return v
}

func outcome(t task.Task) string {
	switch t.Status {
	case task.Complete:
		return "accepted"
	case task.Abandoned:
		return "abandoned"
	default:
		return "open"
	}
}

func descends(parents map[id.Task]id.Task, t, root id.Task) bool {
	for range maxDepth {
		if t = parents[t]; t == root || t == "" {
			break
		}
	}
	return t == root && t != ""
}

// everyTask reads the rows of all tasks of a project, live ones first.
func (a *App) everyTask(ctx context.Context, who identity.Caller) ([]task.Task, error) {
	live, err := a.liveRows(ctx, who)
	if err != nil {
		return nil, err
	}
	var out []task.Task
	seen := map[id.Task]bool{}
	for _, l := range live {
		t, ok, err := a.loadTask(ctx, who.Tenant, l.ID)
		if err != nil {
			return nil, err
		}
		if ok {
			out, seen[t.ID] = append(out, t), true
		}
	}
	var bad error
	q := store.Query{Index: store.Past, PK: store.For(who.Tenant).Project(who.Project).PK + "#PAST", Limit: 1000}
	err = store.All(ctx, a.Store, q, func(it store.Item) bool {
		t, err := decode[task.Task](it)
		if err != nil {
			bad = err
			return false
		}
		if !seen[t.ID] {
			out, seen[t.ID] = append(out, t), true
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return out, err
}
