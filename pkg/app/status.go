package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// TaskState is where one task is.
type TaskState struct {
	Row
	Final         *task.Declaration `json:"final" jsonschema:"what the agent declared final; null when it has not"`
	FinalText     string            `json:"final_text" jsonschema:"the declaration in words"`
	Why           string            `json:"why,omitempty" jsonschema:"why it rests or was interrupted"`
	Hold          bool              `json:"stop_hold,omitempty" jsonschema:"it was stopped by hand or by a ground stop: nothing resumes it on its own"`
	Interruptions int               `json:"interruptions,omitempty" jsonschema:"interruptions in a row"`
	AutoResumes   int               `json:"auto_resumes,omitempty" jsonschema:"automatic resumes in a row"`
	TurnKind      string            `json:"turn_kind,omitempty" jsonschema:"kind of the turn under way, or of the last one"`
	HeadSHA       string            `json:"head_sha,omitempty" jsonschema:"recorded head of its branch; the merge commit once it is complete"`
}

// taskState reads the run behind a task and puts both into words.
func (a *App) taskState(ctx context.Context, t task.Task) (TaskState, error) {
	r, err := a.row(ctx, t.Tenant, liveOf(t))
	if err != nil {
		return TaskState{}, err
	}
	r.Goal, r.Tags, r.Merge = t.Goal, t.Tags, MergeState(t.MidMerge)
	s := TaskState{
		Row: r, Final: t.Final, FinalText: FinalText(t.Final), Why: t.Why, Hold: t.Hold,
		Interruptions: t.Interruptions, AutoResumes: t.Resumes, TurnKind: t.TurnKind, HeadSHA: t.Tip,
	}
	if t.Status == task.Complete && t.Merge != "" {
		s.HeadSHA = t.Merge
	}
	return s, nil
}

// Standing answers "where am I": the caller's project, and one task in full.
type Standing struct {
	Project   string              `json:"project" jsonschema:"the project this credential belongs to"`
	Caller    string              `json:"caller" jsonschema:"who is asking, as records show it"`
	Counts    map[task.Status]int `json:"counts" jsonschema:"live tasks by status"`
	Task      *TaskState          `json:"task,omitempty" jsonschema:"the task asked for; for a task agent its own"`
	Active    []Row               `json:"active,omitempty" jsonschema:"tasks with a live worktree, when no task was asked for"`
	Stop      *Flag               `json:"ground_stop,omitempty" jsonschema:"a ground stop in force: no turn starts and no model is called"`
	Drain     *Flag               `json:"drain,omitempty" jsonschema:"a drain in force: no turn starts, running ones finish"`
	Acks      []RunAck            `json:"stop_acknowledged,omitempty" jsonschema:"per running turn whether it has heard of the ground stop"`
	Dashboard *string             `json:"dashboard_url" jsonschema:"address of the web pages; null when off or unknown"`
}

// GetStatus says where the caller is, or where one task is.
func (a *App) GetStatus(ctx context.Context, c Call, word string) (Standing, error) {
	out := Standing{Project: c.Who.Project, Caller: c.Actor().String(), Counts: map[task.Status]int{}}
	set, err := a.Settings(ctx, c.Who.Tenant, c.Who.Project)
	if err != nil {
		return out, err
	}
	if set.Dashboard != "" {
		out.Dashboard = &set.Dashboard
	}
	g, err := a.gatesOf(ctx, c.Who.Tenant, c.Who.Project)
	if err != nil {
		return out, err
	}
	if out.Stop, out.Drain = shownFlag(g.stop), shownFlag(g.drain); g.stop != nil {
		all, err := a.GroundStopStatus(ctx, c)
		if err != nil {
			return out, err
		}
		out.Acks = all.Running
	}
	if word == "" && c.Who.Kind == identity.Task {
		word = c.Who.Subject
	}
	live, err := a.liveRows(ctx, c.Who)
	if err != nil {
		return out, err
	}
	for _, l := range live {
		out.Counts[l.Status]++
		if word == "" && l.Status.Active() {
			r, err := a.row(ctx, c.Who.Tenant, l)
			if err != nil {
				return out, err
			}
			out.Active = append(out.Active, r)
		}
	}
	if word == "" {
		return out, nil
	}
	t, err := a.target(ctx, c, word)
	if err != nil {
		return out, err
	}
	s, err := a.taskState(ctx, t)
	out.Task = &s
	return out, err
}

// Identity is the answer to whoAmI.
type Identity struct {
	Kind    identity.Kind `json:"kind" jsonschema:"kind of the credential"`
	Role    identity.Role `json:"role" jsonschema:"role its records carry"`
	Email   string        `json:"email,omitempty" jsonschema:"the person, where one is known"`
	Name    string        `json:"name,omitempty" jsonschema:"the person's name, where one is known"`
	Shown   string        `json:"shown_as" jsonschema:"how records show this caller"`
	Tenant  string        `json:"tenant" jsonschema:"team"`
	Project string        `json:"project" jsonschema:"project"`
}

// WhoAmI says what the presented credential stands for.
func (a *App) WhoAmI(c Call) Identity {
	by := c.Actor()
	return Identity{
		Kind: c.Who.Kind, Role: by.Role, Email: by.Email, Name: by.Name, Shown: by.String(),
		Tenant: c.Who.Tenant, Project: c.Who.Project,
	}
}
