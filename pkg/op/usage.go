package op

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// StatsIn is the input of tokenStats.
type StatsIn struct {
	TaskID  string `json:"task_id,omitempty" jsonschema:"only this task (id, short id or code); when left out the project, for a task agent its own task"`
	Subtree bool   `json:"subtree,omitempty" jsonschema:"its descendants too"`
}

// LetPastIn is the input of letTaskPastPause.
type LetPastIn struct {
	Task   string `json:"task_id" jsonschema:"the task: id, short id or code"`
	Revoke bool   `json:"revoke,omitempty" jsonschema:"take back a pass that is not used"`
}

// usageOps say what was spent.
func usageOps() []Op {
	stats := read("tokenStats", "lazy_token_stats",
		"Say what tasks have spent in tokens, what came of them, and how the project fares with each model.")
	stats.Refuses = []refusal.Code{refusal.OwnStatsOnly}
	limits := Op{
		Name: "usageLimits", Tool: "lazy_usage_limits", Effect: Read, People: readers(), Builder: true, Agent: true,
		Doc:     "Say how near credentials are to the limits of their plans, and what the usage pause holds. A task agent is served the credential that its running turn spends.",
		Refuses: []refusal.Code{refusal.UsageUnreadable},
	}
	return []Op{
		Define(limits, func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (app.UsageLimits, error) {
			return a.UsageLimits(ctx, c)
		}),
		Define(Op{
			Name: "letTaskPastPause", People: people(), Refuses: []refusal.Code{refusal.UsagePassDenied, refusal.StatusNotAllowed},
			Doc: "Let the next turn of one task past the usage pause, whatever starts it, once; or take that back while it is not used.",
		}, func(ctx context.Context, a *app.App, c app.Call, in LetPastIn) (app.LetPast, error) {
			return a.LetTaskPastPause(ctx, c, in.Task, in.Revoke)
		}),
		Define(stats, func(ctx context.Context, a *app.App, c app.Call, in StatsIn) (app.TokenStats, error) {
			return a.TokenStats(ctx, c, in.TaskID, in.Subtree)
		}),
	}
}
