package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Justified answers a recorded reason.
type Justified struct {
	File     string `json:"file" jsonschema:"the protected file"`
	Recorded bool   `json:"recorded" jsonschema:"the reason is on the record"`
	Pending  bool   `json:"approval_pending" jsonschema:"whether a person still has to approve the change"`
}

// most protected files a task row keeps, so that it stays within its size.
const justifyMost = 20

// JustifyProtected records an agent's reason for changing a protected file. A
// reason never approves: the file stays pending until a person decides (PF-008).
func (a *App) JustifyProtected(ctx context.Context, c Call, file, reason string) (Justified, error) {
	file = text.Field(file)
	reason, _ = text.Cut(text.Line(reason), 200)
	out := Justified{File: file, Recorded: true, Pending: true}
	rules, err := a.protection(ctx, c.Who.Tenant, c.Who.Project)
	if err != nil {
		return Justified{}, err
	}
	if !protected(rules, file) {
		return Justified{}, refusal.Of(refusal.InvalidArguments, "file", "a protected file of this project", fmt.Sprintf("%q", file))
	}
	_, err = a.own(ctx, c, func(t task.Task) (change, error) {
		ch := change{task: t, result: out}
		vs := slices.Clone(t.Violations)
		i := slices.IndexFunc(vs, func(v task.Violation) bool { return v.Path == file })
		if i < 0 {
			if len(vs) >= justifyMost {
				return change{}, refusal.Of(refusal.InvalidArguments, "file", fmt.Sprintf("at most %d protected files in one task", justifyMost), "one more")
			}
			vs = append(vs, task.Violation{Path: file})
			i = len(vs) - 1
		}
		vs[i].Reason = reason
		out.Pending = !vs[i].Approved
		ch.result = out
		ch.task.Violations = vs
		return ch, nil
	})
	return out, err
}
