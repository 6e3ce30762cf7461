package op

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// StartIn asks for a backlog task to be launched.
type StartIn struct {
	Task   string `json:"task_id" jsonschema:"the task: id, short id or code"`
	Agent  string `json:"agent,omitempty" jsonschema:"registered agent to run it with, instead of the one it was created for"`
	Model  string `json:"model,omitempty" jsonschema:"model the agent is told to use"`
	Effort string `json:"effort,omitempty" jsonschema:"effort the agent is told to use"`
	Past   bool   `json:"past_usage_pause,omitempty" jsonschema:"let this turn past the usage pause; only if the person asked for it"`
}

// ResumeIn continues a task.
type ResumeIn struct {
	Task string `json:"task_id" jsonschema:"the task: id, short id or code"`
	Past bool   `json:"past_usage_pause,omitempty" jsonschema:"let this turn past the usage pause; only if the person asked for it"`
}

// ResolutionIn decides one raised item.
type ResolutionIn struct {
	Raised   string `json:"raised_id" jsonschema:"the raised item"`
	Action   string `json:"action" jsonschema:"respond, promote_subtask, promote_peer or dismiss"`
	Response string `json:"response,omitempty" jsonschema:"the answer; required for respond"`
	Goal     string `json:"goal,omitempty" jsonschema:"goal of the promoted task, instead of the item's title"`
	Prompt   string `json:"prompt,omitempty" jsonschema:"prompt of the promoted task, instead of the item's own"`
}

// UnblockIn delivers feedback and runs a turn.
type UnblockIn struct {
	Task     string         `json:"task_id" jsonschema:"the task: id, short id or code"`
	Feedback string         `json:"feedback" jsonschema:"what the agent is to know or do next; kept word for word"`
	Resolve  []ResolutionIn `json:"raised_resolutions,omitempty" jsonschema:"decisions on raised items, delivered with the feedback"`
	Past     bool           `json:"past_usage_pause,omitempty" jsonschema:"let this turn past the usage pause; only if the person asked for it"`
}

// TaskIn names a task.
type TaskIn struct {
	Task string `json:"task_id" jsonschema:"the task: id, short id or code"`
}

// ReasonIn names a task and says why.
type ReasonIn struct {
	Task   string `json:"task_id" jsonschema:"the task: id, short id or code"`
	Reason string `json:"reason" jsonschema:"why, in words that stay on the record"`
}

// ReopenIn returns a finished task.
type ReopenIn struct {
	Task   string `json:"task_id" jsonschema:"the task: id, short id or code"`
	Reason string `json:"reason,omitempty" jsonschema:"why it is taken up again; required when it was merged"`
}

// AskIn puts a question to a task's agent.
type AskIn struct {
	Task     string `json:"task_id" jsonschema:"the task: id, short id or code"`
	Question string `json:"question" jsonschema:"the question; nothing is changed by answering it"`
	Past     bool   `json:"past_usage_pause,omitempty" jsonschema:"let this turn past the usage pause"`
}

// AcceptIn merges a task.
type AcceptIn struct {
	Task          string         `json:"task_id" jsonschema:"the task: id, short id or code"`
	Reason        string         `json:"reason,omitempty" jsonschema:"why it is good to merge; kept on the record and in the merge commit"`
	Approve       []string       `json:"approved_files,omitempty" jsonschema:"protected files whose change is approved by this accept"`
	Resolve       []ResolutionIn `json:"raised_resolutions,omitempty" jsonschema:"decisions on every open blocking item"`
	AllowComments bool           `json:"allow_queued_comments,omitempty" jsonschema:"merge although comments were never read by the agent"`
}

// AwaitIn asks for the progress of an operation.
type AwaitIn struct {
	Operation string `json:"operation_id" jsonschema:"id the operation was announced with"`
	Cursor    string `json:"cursor,omitempty" jsonschema:"cursor of the last answer; leave out at first"`
}

func people() []identity.Kind { return []identity.Kind{identity.Owner, identity.User} }

func readers() []identity.Kind {
	return []identity.Kind{identity.Owner, identity.User, identity.Operator}
}

func resolutions(in []ResolutionIn) []app.Resolution {
	out := make([]app.Resolution, len(in))
	for i, r := range in {
		out[i] = app.Resolution{Raised: r.Raised, Action: r.Action, Response: r.Response, Goal: r.Goal, Prompt: r.Prompt}
	}
	return out
}

func notBlank(field string) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) { Prop(s, field).MinLength = new(1) }
}

func subtree() app.Rule {
	return app.Rule{Agent: app.Self | app.Child, Else: string(refusal.NotYourSubtree)}
}

func ending() app.Rule {
	return app.Rule{Agent: app.Child, Self: string(refusal.SelfTerminating), Else: string(refusal.NotYourSubtree)}
}

func launchGates() []refusal.Code {
	return []refusal.Code{
		refusal.GroundStop, refusal.Draining, refusal.UsagePaused, refusal.UsageUnreadable, refusal.AgentUnconfigured,
		refusal.TaskBusy, refusal.StatusNotAllowed,
	}
}

const pastPause = "past_usage_pause"

// noPass leaves the way past the usage pause out of a role's schema (US-011,
// US-012).
func noPass(kinds ...identity.Kind) map[identity.Kind][]string {
	m := map[identity.Kind][]string{}
	for _, k := range kinds {
		m[k] = []string{pastPause}
	}
	return m
}

// turnOps are the operations that begin and end turns.
func turnOps() []Op {
	onlyCreate := map[string]refusal.Code{}
	for _, p := range []string{"goal", "prompt", "code", "type", "parent"} {
		onlyCreate[p] = refusal.CreationOnStart
	}
	onlyCreate[pastPause] = refusal.UsagePassDenied
	return []Op{
		Define(Op{
			Name: "startTask", Tool: "lazy_start", People: people(), Builder: true, Agent: true, Narrated: true,
			Doc: "Launch a task that waits in the backlog. It creates nothing: the task is made beforehand. " +
				"The answer comes as soon as the turn is durable; waiting for its end is a call of its own.",
			Rule: app.Rule{Agent: app.Child, Self: string(refusal.StartChildrenOnly), Else: string(refusal.StartChildrenOnly)},
			Flow: names.MachineTurn, Omit: noPass(identity.Task), Instead: onlyCreate, Refuses: append(launchGates(), refusal.CreationOnStart, refusal.UsagePassDenied),
		}, func(ctx context.Context, a *app.App, c app.Call, in StartIn) (app.Begun, error) {
			return a.Start(ctx, c, in.Task, app.Begin{Agent: in.Agent, Model: in.Model, Effort: in.Effort, Past: in.Past})
		}),
		Define(Op{
			Name: "unblockTask", Tool: "lazy_unblock", People: people(), Builder: true, Agent: true, Narrated: true,
			Doc: "Give a resting task feedback and run its agent again. The words are stored before anything is launched and are " +
				"delivered until a turn that saw them ends normally. Comments that wait ride along. It never merges upstream.",
			Rule: subtree(), Flow: names.MachineTurn,
			Omit: map[identity.Kind][]string{identity.Task: {"raised_resolutions", pastPause}},
			Instead: map[string]refusal.Code{
				"raised_resolutions": refusal.RaisedSelf, "approved_files": refusal.RetiredParameter,
				pastPause: refusal.UsagePassDenied,
			},
			Missing: map[string]refusal.Code{"feedback": refusal.FeedbackRequired},
			Refuses: append(launchGates(), refusal.FeedbackRequired, refusal.AcceptPending, refusal.RetiredParameter, refusal.RaisedSelf),
		}, func(ctx context.Context, a *app.App, c app.Call, in UnblockIn) (app.Begun, error) {
			return a.Unblock(ctx, c, in.Task, in.Feedback, resolutions(in.Resolve), in.Past)
		}, notBlank("feedback"), tuneResolutions),
		Define(Op{
			Name: "resumeTask", Tool: "lazy_resume", People: people(), Builder: true, Agent: true, Narrated: true,
			Doc:  "Continue a stopped task without new feedback. It resets the count of interruptions.",
			Rule: subtree(), Flow: names.MachineTurn,
			Omit:    noPass(identity.Task),
			Instead: map[string]refusal.Code{pastPause: refusal.UsagePassDenied},
			Refuses: append(launchGates(), refusal.AcceptPending, refusal.UsagePassDenied),
		}, func(ctx context.Context, a *app.App, c app.Call, in ResumeIn) (app.Begun, error) {
			return a.Resume(ctx, c, in.Task, in.Past)
		}),
		Define(Op{
			Name: "askTask", Tool: "lazy_ask", People: people(), Builder: true, Agent: true, Narrated: true,
			Doc:  "Put one question to the agent of a resting task. The turn is read-only, and the task goes back to the status it had.",
			Rule: subtree(), Flow: names.MachineTurn, Refuses: append(launchGates(), refusal.UsagePassDenied),
			Omit:    noPass(identity.Task, identity.Builder),
			Instead: map[string]refusal.Code{pastPause: refusal.UsagePassDenied},
		}, func(ctx context.Context, a *app.App, c app.Call, in AskIn) (app.Begun, error) {
			return a.Ask(ctx, c, in.Task, in.Question, in.Past)
		}, notBlank("question")),
		Define(Op{
			Name: "syncTask", Tool: "lazy_sync", People: people(), Builder: true, Agent: true, Narrated: true,
			Doc: "Bring a resting task's branch up to date: what the same branch has on its remote is merged into it, then the branch it merges into. A conflict goes to the task's " +
				"agent. The status found is put back, and nothing is written to the other branch. A task that works is brought up to date " +
				"by its own agent only, in the middle of its turn: what conflicts comes back to it, to resolve, commit and sync once more.",
			Rule: subtree(), Flow: names.MachineTurn, Refuses: append(launchGates(), refusal.WorkingSync),
		}, func(ctx context.Context, a *app.App, c app.Call, in TaskIn) (app.Synced, error) {
			return a.Sync(ctx, c, in.Task)
		}),
		Define(Op{
			Name: "stopTask", Tool: "lazy_stop", People: people(), Builder: true, Agent: true,
			Doc: "End the running turn of a task. Work stops as interrupted and is not resumed by itself; a question or review is " +
				"ended and the status found is put back.",
			Rule: ending(), Flow: names.MachineTurn, Refuses: []refusal.Code{refusal.StatusNotAllowed, refusal.SelfTerminating},
		}, func(ctx context.Context, a *app.App, c app.Call, in TaskIn) (app.Stopped, error) {
			return a.Stop(ctx, c, in.Task)
		}),
	}
}

// acceptOps are the operations that end tasks, and the one that follows
// operations in flight.
func acceptOps() []Op {
	gates := []refusal.Code{
		refusal.ParentActive, refusal.Uncommitted, refusal.UnresolvedMerge, refusal.InterruptedEnding, refusal.RaisedUnresolved,
		refusal.ProtectedPending, refusal.QueuedComments, refusal.TargetOverlap, refusal.StatusNotAllowed, refusal.TaskBusy,
	}
	end := []refusal.Code{refusal.StatusNotAllowed, refusal.AcceptPending, refusal.SelfTerminating}
	return []Op{
		Define(Op{
			Name: "acceptTask", Tool: "lazy_accept", People: people(), Builder: true, Agent: true, Narrated: true, Confirm: true,
			Doc: "Merge a finished task into the branch it was cut for, as one commit, and complete it. Every precondition is checked " +
				"before anything is written. An accept that is under way, or died, is followed and resumed, never begun twice.",
			Rule: app.Rule{Agent: app.Child, Self: string(refusal.AcceptSelf), Else: string(refusal.AcceptChildrenOnly)},
			Flow: names.MachineAccept,
			Omit: map[identity.Kind][]string{
				identity.Task: {"raised_resolutions", "allow_queued_comments"}, identity.Builder: {"allow_queued_comments"},
			},
			Instead: map[string]refusal.Code{
				"raised_resolutions": refusal.RaisedSelf, "allow_queued_comments": refusal.HumanOnly,
				"allow_review_issues": refusal.HumanOnly, "allow_broken": refusal.HumanOnly, "passphrase": refusal.HumanOnly,
			},
			Refuses: append(gates, refusal.AcceptSelf, refusal.AcceptChildrenOnly, refusal.RaisedSelf, refusal.HumanOnly),
		}, func(ctx context.Context, a *app.App, c app.Call, in AcceptIn) (app.Accepted, error) {
			return a.Accept(ctx, c, in.Task, app.AcceptIn{
				Reason: in.Reason, Approve: in.Approve, Resolve: resolutions(in.Resolve), AllowComments: in.AllowComments,
			})
		}, tuneResolutions),
		Define(Op{
			Name: "rejectTask", Tool: "lazy_reject", People: people(), Builder: true, Agent: true, Narrated: true, Confirm: true,
			Doc:  "Refuse the work of a task for good. A running turn is stopped first. The workspace and branch are removed; what was committed can be had back by reopening.",
			Rule: ending(), Flow: names.MachineTurn, Refuses: append(end, refusal.Uncommitted, refusal.UnresolvedMerge),
		}, func(ctx context.Context, a *app.App, c app.Call, in ReasonIn) (app.Ended, error) {
			return a.Reject(ctx, c, in.Task, in.Reason)
		}, notBlank("reason")),
		Define(Op{
			Name: "closeTask", Tool: "lazy_close", People: people(), Builder: true, Agent: true, Narrated: true, Confirm: true,
			Doc:  "Cancel a task, started or not. A running turn is stopped first. Edits that were never committed are kept as a patch.",
			Rule: ending(), Flow: names.MachineTurn, Refuses: end,
		}, func(ctx context.Context, a *app.App, c app.Call, in ReasonIn) (app.Ended, error) {
			return a.Close(ctx, c, in.Task, in.Reason)
		}, notBlank("reason")),
		Define(Op{
			Name: "reopenTask", Tool: "lazy_reopen", People: people(), Builder: true, Agent: true, Confirm: true,
			Doc:     "Take a finished task up again. A merged one needs a reason and begins a new branch; an abandoned one finds its commits again.",
			Rule:    app.Rule{Agent: app.Child, Self: string(refusal.NotYourSubtree), Else: string(refusal.NotYourSubtree)},
			Refuses: []refusal.Code{refusal.StatusNotAllowed},
		}, func(ctx context.Context, a *app.App, c app.Call, in ReopenIn) (app.Ended, error) {
			return a.Reopen(ctx, c, in.Task, in.Reason)
		}),
		Define(Op{
			Name: "awaitOperation", Doc: "Follow an operation in flight: its phases since a cursor, and in the end the answer or refusal the first call would have given.",
			Effect: Read, People: readers(), Long: true, Flow: "none: waiting does nothing",
		}, func(ctx context.Context, a *app.App, c app.Call, in AwaitIn) (app.Progress, error) {
			return a.Await(ctx, c, in.Operation, in.Cursor)
		}),
	}
}
