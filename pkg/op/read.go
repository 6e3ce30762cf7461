package op

import (
	"context"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// ListIn is the input of listTasks.
type ListIn struct {
	Status []string `json:"status,omitempty" jsonschema:"only these statuses; finished ones are listed only when named, all live ones when left out"`
	Tag    string   `json:"tag,omitempty" jsonschema:"only tasks with this label"`
	Levels int      `json:"levels,omitempty" jsonschema:"how many levels of subtasks to show; what is left out is counted on the task above it"`
	Limit  int      `json:"limit,omitempty" jsonschema:"most tasks in one answer, 200 when left out"`
	Cursor string   `json:"cursor,omitempty" jsonschema:"cursor of the answer before"`
}

// LevelsIn is the input of listActive.
type LevelsIn struct {
	Levels int `json:"levels,omitempty" jsonschema:"how many levels of subtasks to show; what is left out is counted on the task above it"`
}

// NoneIn is the input of an operation that takes nothing.
type NoneIn struct{}

// StatusIn is the input of getStatus.
type StatusIn struct {
	TaskID string `json:"task_id,omitempty" jsonschema:"one task (id, short id or code); when left out a task agent's own, for others the project"`
}

// ShowIn is the input of showTask.
type ShowIn struct {
	TaskID   string   `json:"task_id" jsonschema:"the task (id, short id or code)"`
	Sections []string `json:"sections,omitempty" jsonschema:"parts of the record; all when left out"`
	Offset   *int     `json:"offset,omitempty" jsonschema:"how many entries of each listed part to skip, oldest first; the newest are shown when left out"`
	Limit    int      `json:"limit,omitempty" jsonschema:"most entries of each listed part, 50 when left out"`
}

// DiffIn is the input of diffTask.
type DiffIn struct {
	TaskID string `json:"task_id" jsonschema:"the task (id, short id or code)"`
	Path   string `json:"path,omitempty" jsonschema:"only this file or folder"`
	Offset int    `json:"offset,omitempty" jsonschema:"where to go on, from next_offset of the answer before"`
}

// SearchIn is the input of search.
type SearchIn struct {
	Query string `json:"query" jsonschema:"words that must all occur in one text; quotes keep words together; in:journal or in:prompt,turns narrows it to sections"`
	Limit int    `json:"limit,omitempty" jsonschema:"most hits, 20 when left out"`
}

// WaitIn is the input of waitTasks.
type WaitIn struct {
	TaskIDs  []string `json:"task_ids,omitempty" jsonschema:"the tasks to wait for (id, short id or code); the first to rest ends the wait"`
	Pending  string   `json:"operation_id,omitempty" jsonschema:"instead of tasks: an operation of your own that answered pending"`
	TimeoutS int      `json:"timeout_s,omitempty" jsonschema:"most seconds to wait, 600 when left out"`
	Cursor   string   `json:"cursor,omitempty" jsonschema:"cursor of a pending answer, to go on with that wait"`
}

// readOps are the operations that change nothing.
func readOps() []Op {
	limit := between("limit", 0, 500)
	wait := read("waitTasks", "lazy_wait",
		"Wait until any of several tasks comes to rest, or an operation of your own ends, at most 600 seconds. It changes nothing; your task shows what it waits for.")
	wait.Rule = app.Rule{Agent: app.Child | app.Other, Self: string(refusal.SelfWait)}
	wait.Long = true
	wait.Refuses = []refusal.Code{refusal.SelfWait}
	find := read("search", "lazy_search", "Search the texts of the project's tasks. Finished tasks come from an index that may lag; the answer says as of when.")
	find.Refuses = []refusal.Code{refusal.ScratchBoundary}
	me := Op{
		Name: "whoAmI", Doc: "Say what the presented credential stands for.", Effect: Read, People: readers(),
	}
	projects := Op{
		Name: "listProjects", Effect: Read, People: readers(),
		Doc: "List the projects of the team that the presented credential can work with.",
	}
	deep := Op{
		Name:   "checkDeep",
		Doc:    "Compare every record of the project with every other one, with the repository and with the processes of the machine, and say which promises do not hold. It changes nothing and may take long.",
		Effect: Read, People: []identity.Kind{identity.Owner, identity.Operator},
	}
	return []Op{
		Define(read("listTasks", "lazy_list", "List tasks. Live ones are complete and current; finished ones are listed only when their status is named, from an index that may lag."),
			func(ctx context.Context, a *app.App, c app.Call, in ListIn) (app.Listing, error) {
				q := app.ListQuery{Tag: in.Tag, Levels: in.Levels, Limit: in.Limit, Cursor: in.Cursor}
				for _, s := range in.Status {
					q.Status = append(q.Status, task.Status(s))
				}
				return a.ListTasks(ctx, c, q)
			}, oneOf("status", strs(task.Statuses())...), between("levels", 1, 1000), limit),
		Define(read("listActive", "lazy_active", "List the tasks that have a live worktree: working, interrupted, pairing or merging."),
			func(ctx context.Context, a *app.App, c app.Call, in LevelsIn) (app.Listing, error) {
				return a.ListActive(ctx, c, in.Levels)
			}, between("levels", 1, 1000)),
		Define(read("listBlocked", "lazy_blocked", "List the tasks that wait for a person's review or decision."),
			func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (app.Listing, error) {
				return a.ListBlocked(ctx, c)
			}),
		Define(read("getStatus", "lazy_status", "Say where you are: the project's live tasks by status, or the state of one task."),
			func(ctx context.Context, a *app.App, c app.Call, in StatusIn) (app.Standing, error) {
				return a.GetStatus(ctx, c, in.TaskID)
			}),
		Define(read("showTask", "lazy_show", "Read the record of a task: its conversation, declaration, raised items, comments, journal, protected files and merge state."),
			func(ctx context.Context, a *app.App, c app.Call, in ShowIn) (app.Shown, error) {
				return a.ShowTask(ctx, c, in.TaskID, app.Window{Sections: in.Sections, Offset: in.Offset, Limit: in.Limit})
			}, oneOf("sections", app.Sections()...), between("offset", 0, 1e9), between("limit", 0, 200)),
		Define(read("diffTask", "lazy_diff", "Read what a task changes, from its commits only, as a unified diff in bounded parts."),
			func(ctx context.Context, a *app.App, c app.Call, in DiffIn) (app.DiffShown, error) {
				var paths []string
				if in.Path != "" {
					paths = []string{in.Path}
				}
				return a.DiffTask(ctx, c, in.TaskID, paths, in.Offset)
			}, between("offset", 0, 1e12)),
		Define(find, func(ctx context.Context, a *app.App, c app.Call, in SearchIn) (app.Found, error) {
			return a.Search(ctx, c, in.Query, in.Limit)
		}, lengths(1, 1000, "query"), between("limit", 0, 100)),
		Define(wait, func(ctx context.Context, a *app.App, c app.Call, in WaitIn) (app.Waited, error) {
			timeout := time.Duration(in.TimeoutS) * time.Second
			switch {
			case (len(in.TaskIDs) == 0) == (in.Pending == ""):
				return app.Waited{}, refusal.Of(refusal.InvalidArguments, "arguments", "either task_ids or operation_id", "both or neither")
			case in.Pending != "":
				return a.WaitOperation(ctx, c, in.Pending, timeout, in.Cursor)
			}
			return a.WaitTasks(ctx, c, in.TaskIDs, timeout, in.Cursor)
		}, items("task_ids", 0, names.WaitTasks), between("timeout_s", 0, names.WaitMax.Seconds())),
		Define(me, func(_ context.Context, a *app.App, c app.Call, _ NoneIn) (app.Identity, error) {
			return a.WhoAmI(c), nil
		}),

		Define(projects, func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (app.Projects, error) {
			return a.ListProjects(ctx, c)
		}), Define(Op{
			Name:   "explainTask",
			Doc:    "Say why a task is where it is: its run and process, its flow, the work ordered for it and its counts, what happens next by itself and when, and what a person can type. It changes nothing.",
			Effect: Read, People: readers(),
		}, func(ctx context.Context, a *app.App, c app.Call, in TaskIn) (app.Explained, error) {
			return a.Explain(ctx, c, in.Task)
		}),
		Define(deep, func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (app.Checked, error) {
			return a.CheckDeep(ctx, c)
		}),
	}
}
