package op

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// CreateTaskIn is the input of createTask.
type CreateTaskIn struct {
	Goal   string   `json:"goal" jsonschema:"what the task is for, one line"`
	Prompt string   `json:"prompt" jsonschema:"what the agent is to do, in full"`
	Code   string   `json:"code,omitempty" jsonschema:"short name of the task, unique in the project; made from the goal when left out"`
	Type   string   `json:"type,omitempty" jsonschema:"label for the kind of work"`
	Parent *string  `json:"parent,omitempty" jsonschema:"task it becomes a subtask of (id, short id or code); a task agent's tasks are always subtasks of its own"`
	Agent  string   `json:"agent,omitempty" jsonschema:"registered agent that will run it; the project's default when left out"`
	Model  string   `json:"model,omitempty" jsonschema:"model for it; the agent's own default when left out"`
	Effort string   `json:"effort,omitempty" jsonschema:"effort for it; the agent's own default when left out"`
	Base   string   `json:"base,omitempty" jsonschema:"branch a top-level task is cut from and merges into; the project's default branch when left out"`
	Tags   []string `json:"tags,omitempty" jsonschema:"labels to find it by"`
}

// EditTaskIn is the input of editTask.
type EditTaskIn struct {
	TaskID string  `json:"task_id" jsonschema:"the task (id, short id or code)"`
	Goal   *string `json:"goal,omitempty" jsonschema:"another goal; only in backlog"`
	Prompt *string `json:"prompt,omitempty" jsonschema:"another prompt; only in backlog"`
	Code   *string `json:"code,omitempty" jsonschema:"another code; only in backlog"`
	Type   *string `json:"type,omitempty" jsonschema:"another type label; only in backlog"`
	Parent *string `json:"parent,omitempty" jsonschema:"another parent, or an empty text for the top level; only in backlog"`
	Agent  *string `json:"agent,omitempty" jsonschema:"another registered agent, from its next turn on"`
	Model  *string `json:"model,omitempty" jsonschema:"another model, from its next turn on; an empty text for the agent's default"`
	Effort *string `json:"effort,omitempty" jsonschema:"another effort, from its next turn on; an empty text for the agent's default"`
}

// The most characters of a goal and of a label: they lie on the task's own row.
const (
	goalMost  = 500
	labelMost = 100
)

// taskOps are the operations that make and shape tasks.
func taskOps() []Op {
	create := Op{
		Name: "createTask", Tool: "lazy_create",
		Doc: "Create a task. It lands in backlog and is not started; starting it is a second call. " +
			"A subtask is cut from its parent's branch when it is started, and merges back into it.",
		People: people(), Builder: true, Agent: true,
		Rule:    app.Rule{Agent: app.Any}, // it addresses no task; the parent is always the caller's own
		Confirm: true,
		Omit:    map[identity.Kind][]string{identity.Builder: {"tags"}, identity.Task: {"tags"}},
		Refuses: []refusal.Code{refusal.ParentNotSelf, refusal.StatusNotAllowed},
	}
	edit := Op{
		Name: "editTask", Tool: "lazy_edit",
		Doc: "Change a task. Goal, prompt, code, type and parent can change only while it is in backlog; " +
			"agent, model and effort as long as it is live, and count from its next turn on.",
		People: people(), Builder: true, Agent: true,
		Rule:    app.Rule{Agent: app.Self | app.Child, Else: string(refusal.NotYourSubtree)},
		Omit:    map[identity.Kind][]string{identity.Task: {"parent"}},
		Instead: map[string]refusal.Code{"parent": refusal.ParentLocked, "image": refusal.HumanOnly},
		Refuses: []refusal.Code{refusal.NotYourSubtree, refusal.ParentLocked, refusal.StatusNotAllowed},
	}
	return []Op{
		Define(create, func(ctx context.Context, a *app.App, c app.Call, in CreateTaskIn) (app.Created, error) {
			return a.CreateTask(ctx, c, app.NewTask(in))
		}, lengths(1, goalMost, "goal"), lengths(1, 0, "prompt"), lengths(0, 64, "code"),
			lengths(0, labelMost, "type", "agent", "model", "effort"), items("tags", 0, 20),
			func(s *jsonschema.Schema) { most := 50; Prop(s, "tags").Items.MaxLength = &most }),
		Define(edit, func(ctx context.Context, a *app.App, c app.Call, in EditTaskIn) (app.Edited, error) {
			return a.EditTask(ctx, c, in.TaskID, app.Edit{
				Goal: in.Goal, Prompt: in.Prompt, Code: in.Code, Type: in.Type,
				Parent: in.Parent, Agent: in.Agent, Model: in.Model, Effort: in.Effort,
			})
		}, lengths(1, goalMost, "goal"), lengths(1, 0, "prompt"), lengths(1, 64, "code"),
			lengths(0, labelMost, "type", "agent", "model", "effort")),
	}
}
