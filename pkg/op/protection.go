package op

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// SetProtectionIn is the input of setProtection.
type SetProtectionIn struct {
	Add    []string `json:"add,omitempty" jsonschema:"patterns to protect from now on: a file, a glob, or a folder with a trailing / or /**"`
	Remove []string `json:"remove,omitempty" jsonschema:"patterns not to protect any more, as they are listed"`
}

// ProtectionRules answers showProtection and setProtection.
type ProtectionRules = app.ProtectionRules

// protectionOps say which files an agent's change of is decided by a person. They
// have no tool: looking at a gate is harmless, arranging one's own is not (HO-017).
func protectionOps() []Op {
	return []Op{
		Define(Op{
			Name: "showProtection", Effect: Read, People: readers(),
			Doc: "List the patterns of files whose change by an agent has to be approved at accept, with who added each.",
		}, func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (ProtectionRules, error) {
			return a.ShowProtection(ctx, c)
		}),
		Define(Op{
			Name: "setProtection", People: people(),
			Doc: "Protect further files, or protect some no longer. It is the owner's, and an administrator's in a team. " +
				"It counts from a task's next rest on, and for every accept.",
			Refuses: []refusal.Code{refusal.AdminOnly},
		}, func(ctx context.Context, a *app.App, c app.Call, in SetProtectionIn) (ProtectionRules, error) {
			return a.SetProtection(ctx, c, in.Add, in.Remove)
		}, items("add", 0, app.RulesMost), items("remove", 0, app.RulesMost)),
	}
}
