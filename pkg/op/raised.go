package op

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// TriageIn decides one raised item on its own, or changes whether it blocks.
type TriageIn struct {
	RaisedID string `json:"raised_id" jsonschema:"the item"`
	Action   string `json:"action" jsonschema:"respond, promote_subtask, promote_peer or dismiss decide it; set_blocking changes whether it holds accept"`
	Response string `json:"response,omitempty" jsonschema:"the answer; required to respond, a reason otherwise"`
	Goal     string `json:"goal,omitempty" jsonschema:"goal of the promoted task; the item's title when left out"`
	Prompt   string `json:"prompt,omitempty" jsonschema:"prompt of the promoted task; the proposed one, or the item's text, when left out"`
	Blocking *bool  `json:"blocking,omitempty" jsonschema:"for set_blocking: whether the item holds accept"`
}

// tuneResolutions narrows the raised_resolutions of accept and unblock.
func tuneResolutions(s *jsonschema.Schema) {
	items("raised_resolutions", 0, resolutionsMost)(s)
	within("raised_resolutions", oneOf("action", app.Actions()...), lengths(0, goalMost, "goal"))(s)
}

const resolutionsMost = 25

// RaiseIn is the input of lazy_raise.
type RaiseIn struct {
	Title    string `json:"title" jsonschema:"the question, decision or finding in one line"`
	Content  string `json:"content" jsonschema:"everything its reader needs to decide"`
	Blocking bool   `json:"blocking" jsonschema:"whether it has to be decided before the work can merge"`
	Proposed string `json:"proposed_prompt,omitempty" jsonschema:"prompt of a task that could be made from it"`
}

// ListRaisedIn is the input of listRaised.
type ListRaisedIn struct {
	TaskID string `json:"task_id,omitempty" jsonschema:"one task (id, short id or code); all live tasks when left out"`
	State  string `json:"state,omitempty" jsonschema:"open (when left out), resolved or all"`
}

// ShowRaisedIn is the input of showRaised.
type ShowRaisedIn struct {
	RaisedID string `json:"raised_id" jsonschema:"the item"`
}

// ResolveRaisedIn is the input of resolveRaised.
type ResolveRaisedIn struct {
	Resolutions []TriageIn `json:"raised_resolutions" jsonschema:"the decisions; items of one task, all carried out or none"`
}

// SetRaisedBlockingIn is the input of setRaisedBlocking.
type SetRaisedBlockingIn struct {
	RaisedID string `json:"raised_id" jsonschema:"the item"`
	Blocking bool   `json:"blocking" jsonschema:"whether it holds accept"`
}

// PromoteIn is the input of lazy_raised_promote.
type PromoteIn struct {
	RaisedID string `json:"raised_id" jsonschema:"the item"`
	As       string `json:"as" jsonschema:"subtask of the task that raised it, or a peer beside that task"`
	Goal     string `json:"goal,omitempty" jsonschema:"goal of the new task; the item's title when left out"`
	Prompt   string `json:"prompt,omitempty" jsonschema:"prompt of the new task; the proposed one, or the item's text, when left out"`
}

// raisedOps are the operations on what agents raise for others to decide.
func raisedOps() []Op {
	lists := read("listRaised", "lazy_raised_items",
		"List raised items with their texts and decisions. It decides nothing.")
	shows := read("showRaised", "", "Read one raised item.")
	shows.Builder, shows.Agent = false, false
	return []Op{
		Define(agentOnly(Op{
			Tool: "lazy_raise",
			Doc: "Record a question, a decision that is due, or unrelated work for others to decide. " +
				"It changes no status and notifies nobody's agent; a blocking item holds the merge of your task until a person or the builder decides it.",
			Missing: map[string]refusal.Code{"blocking": refusal.BlockingRequired},
			Refuses: []refusal.Code{refusal.AgentOnly, refusal.BlockingRequired},
		}, "Builders review items: lazy_raised_items lists them."),
			func(ctx context.Context, a *app.App, c app.Call, in RaiseIn) (app.Raised, error) {
				return a.Raise(ctx, c, app.NewRaised{Title: in.Title, Content: in.Content, Proposed: in.Proposed, Blocking: in.Blocking})
			}, lengths(1, 200, "title"), lengths(1, 0, "content")),
		Define(lists, func(ctx context.Context, a *app.App, c app.Call, in ListRaisedIn) (app.RaisedList, error) {
			return a.ListRaised(ctx, c, in.TaskID, in.State)
		}, oneOf("state", app.ItemOpen, app.ItemResolved, "all")),
		Define(shows, func(ctx context.Context, a *app.App, c app.Call, in ShowRaisedIn) (app.RaisedShown, error) {
			return a.ShowRaised(ctx, c, in.RaisedID)
		}),
		Define(Op{
			Name: "resolveRaised", Tool: "lazy_raised_resolve",
			Doc: "Decide raised items of one task: answer, promote to a backlog task, or dismiss; or change whether one blocks. " +
				"All of a call's decisions are carried out, or none is. Nothing is started.",
			People: people(), Builder: true, Refuse: refusal.RaisedSelf,
			Refuses: []refusal.Code{refusal.RaisedSelf, refusal.StatusNotAllowed},
		}, func(ctx context.Context, a *app.App, c app.Call, in ResolveRaisedIn) (app.Resolutions, error) {
			var rs []app.Resolution
			for _, r := range in.Resolutions {
				rs = append(rs, app.Resolution{Raised: r.RaisedID, Action: r.Action, Response: r.Response, Goal: r.Goal, Prompt: r.Prompt, Blocking: r.Blocking})
			}
			return a.ResolveRaised(ctx, c, rs)
		}, items("raised_resolutions", 1, resolutionsMost),
			within("raised_resolutions", oneOf("action", append(app.Actions(), app.SetBlocking)...), lengths(0, goalMost, "goal"))),
		Define(Op{
			Name:   "setRaisedBlocking",
			Doc:    "Change whether an open raised item holds the accept of its task.",
			People: people(),
		}, func(ctx context.Context, a *app.App, c app.Call, in SetRaisedBlockingIn) (app.Resolutions, error) {
			return a.ResolveRaised(ctx, c, []app.Resolution{{Raised: in.RaisedID, Action: app.SetBlocking, Blocking: &in.Blocking}})
		}),
		Define(Op{
			Tool: "lazy_raised_promote",
			Doc: "Turn a raised item into a task in backlog, as a subtask or beside the task that raised it. " +
				"It is not started.",
			Builder: true, Refuse: refusal.BuilderOnly,
			Why:     "Promotion is vetting: lazy_raise records, others promote.",
			Refuses: []refusal.Code{refusal.BuilderOnly, refusal.StatusNotAllowed},
		}, func(ctx context.Context, a *app.App, c app.Call, in PromoteIn) (app.Created, error) {
			r := app.Resolution{Raised: in.RaisedID, Action: app.PromoteSubtask, Goal: in.Goal, Prompt: in.Prompt}
			if in.As == "peer" {
				r.Action = app.PromotePeer
			}
			return a.PromoteRaised(ctx, c, r)
		}, oneOf("as", "subtask", "peer"), lengths(0, goalMost, "goal")),
	}
}
