package op

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// CommitIn is the input of lazy_commit.
type CommitIn struct {
	Message string   `json:"message" jsonschema:"commit message; its first line is the subject"`
	Files   []string `json:"files,omitempty" jsonschema:"paths to commit; every change of the worktree when left out"`
}

// ProgressIn is the input of lazy_update_progress.
type ProgressIn struct {
	Message string `json:"message" jsonschema:"what you are doing, in one short line"`
}

// FinalIn is the input of lazy_final.
type FinalIn struct {
	Note string `json:"note,omitempty" jsonschema:"one line about what is final"`
}

// JustifyIn is the input of lazy_justify_protected.
type JustifyIn struct {
	File   string `json:"file" jsonschema:"path of the protected file you changed"`
	Reason string `json:"reason" jsonschema:"why the change has to stay, in one or two sentences"`
}

// ownOps are the operations of a task's agent about its current turn. They take
// no task: it is the one of the token (CM-020).
func ownOps() []Op {
	return []Op{
		Define(agentOnly(Op{
			Tool: "lazy_commit",
			Doc: "Commit the work in your worktree. The answer comes once the commit is durable; " +
				"only commits are reviewed and merged, so commit what belongs to the task before you end.",
			Refuses: []refusal.Code{refusal.AgentOnly},
		}, "A builder has no worktree."),
			func(ctx context.Context, a *app.App, c app.Call, in CommitIn) (app.Committed, error) {
				return a.RecordCommit(ctx, c, in.Message)
			}, lengths(1, 0, "message"), items("files", 0, 1000)),
		Define(agentOnly(Op{
			Tool: "lazy_update_progress",
			Doc: "Show people one live line about what you are doing. The latest line wins, a long one is cut to 120 characters, " +
				"and it is gone with the turn.",
			Refuses: []refusal.Code{refusal.AgentOnly},
		}, "It decorates the running turn of a task."),
			func(ctx context.Context, a *app.App, c app.Call, in ProgressIn) (app.Progressed, error) {
				return a.UpdateProgress(ctx, c, in.Message)
			}, lengths(1, 0, "message")),
		Define(agentOnly(Op{
			Tool: "lazy_justify_protected",
			Doc: "Give your reason for changing a protected file that has to stay changed. It is shown to the person who decides at " +
				"accept; a reason approves nothing.",
			Refuses: []refusal.Code{refusal.AgentOnly},
		}, "Builders review; they do not author a turn's reasons."),
			func(ctx context.Context, a *app.App, c app.Call, in JustifyIn) (app.Justified, error) {
				return a.JustifyProtected(ctx, c, in.File, in.Reason)
			}, lengths(1, 0, "file"), lengths(1, 0, "reason")),
		Define(agentOnly(Op{
			Tool: "lazy_final",
			Doc: "Declare the work final at the present head of your branch. It ends nothing: the turn is over when you stop. " +
				"It is refused only while a blocking item of yours is open.",
			Refuses: []refusal.Code{refusal.AgentOnly, refusal.FinalBlocked},
		}, "No one else can make that claim."),
			func(ctx context.Context, a *app.App, c app.Call, in FinalIn) (app.Declared, error) {
				return a.Final(ctx, c, in.Note)
			}, lengths(0, 500, "note")),
		Define(agentOnly(Op{
			Tool: "lazy_report",
			Doc: "Write the report of your turn for its reviewer. It ends nothing and changes no status; " +
				"calling it again replaces the summary and the sections it names.",
			Refuses: []refusal.Code{refusal.AgentOnly},
		}, "Builders review; they do not author a turn report."),
			func(ctx context.Context, a *app.App, c app.Call, in app.Report) (app.Reported, error) {
				return a.TurnReport(ctx, c, in)
			}, lengths(1, 0, "summary"), items("sections", 0, 50),
			within("sections", lengths(1, 200, "title"))),
	}
}
