package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// DiffShown is a bounded part of a task's change.
type DiffShown struct {
	TaskID    id.Task      `json:"task_id" jsonschema:"the task"`
	Code      string       `json:"code" jsonschema:"its code"`
	Base      string       `json:"base" jsonschema:"commit it was cut from"`
	Tip       string       `json:"tip" jsonschema:"recorded head of its branch: uncommitted edits are not part of the change"`
	Diff      string       `json:"diff" jsonschema:"unified diff, from offset on"`
	Files     []FileChange `json:"files" jsonschema:"the changed files with their line counts"`
	Truncated bool         `json:"truncated" jsonschema:"whether more follows"`
	Next      int          `json:"next_offset,omitempty" jsonschema:"offset to go on from when truncated"`
}

const diffMost = 48 << 10

// DiffTask shows what a task changes, from commits only (UW-001).
func (a *App) DiffTask(ctx context.Context, c Call, word string, paths []string, offset int) (DiffShown, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return DiffShown{}, err
	}
	if t.Base == "" || t.Tip == "" {
		return DiffShown{}, refusal.Of(refusal.StatusNotAllowed, "diff", t.Status.Words()+" that has never run", "tasks that have been started").
			WithDetail("status", string(t.Status))
	}
	out := DiffShown{TaskID: t.ID, Code: t.Code, Base: t.Base, Tip: t.Tip, Files: []FileChange{}}
	if t.Base == t.Tip {
		return out, nil
	}
	d, err := a.repo(t).Diff(ctx, DiffQuery{Base: t.Base, Tip: t.Tip, Paths: paths, MaxBytes: diffMost, Offset: offset})
	if err != nil {
		return DiffShown{}, err
	}
	out.Diff, out.Truncated, out.Next = d.Text, d.Truncated, d.Next
	out.Files = append(out.Files, d.Files...)
	return out, nil
}
