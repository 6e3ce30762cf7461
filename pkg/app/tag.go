package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// TagsMost is how many tags a task has at most.
const TagsMost = 20

// Tagged answers a change of tags.
type Tagged struct {
	Task id.Task  `json:"task_id" jsonschema:"full id"`
	Code string   `json:"code" jsonschema:"its code"`
	Tags []string `json:"tags" jsonschema:"its tags now"`
}

// Tag adds tags to a task, in any status. An agent labels its direct subtasks and
// nothing else, its own task included (AN-001, AN-003): who set a tag is not kept.
func (a *App) Tag(ctx context.Context, c Call, word string, tags []string) (Tagged, error) {
	return a.setTags(ctx, c, word, tags, func(have, tags []string) []string {
		for _, tag := range tags {
			if !slices.Contains(have, tag) {
				have = append(have, tag)
			}
		}
		return have
	})
}

// Untag removes tags from a task. One that it does not have is no error.
func (a *App) Untag(ctx context.Context, c Call, word string, tags []string) (Tagged, error) {
	return a.setTags(ctx, c, word, tags, func(have, tags []string) []string {
		return slices.DeleteFunc(have, func(tag string) bool { return slices.Contains(tags, tag) })
	})
}

func (a *App) setTags(ctx context.Context, c Call, word string, tags []string, edit func(have, tags []string) []string) (Tagged, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Tagged{}, err
	}
	if tags, err = cleanTags(tags); err != nil {
		return Tagged{}, err
	}
	var out Tagged
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if err := related(c, t); err != nil {
			return change{}, err
		}
		fence, err := a.fence(ctx, c, t)
		if err != nil {
			return change{}, err
		}
		next := edit(slices.Clone(t.Tags), tags)
		if len(next) > TagsMost {
			return change{}, refusal.Of(refusal.InvalidArguments, "tags", fmt.Sprintf("at most %d tags on one task", TagsMost), len(next))
		}
		out = Tagged{Task: t.ID, Code: t.Code, Tags: append([]string{}, next...)}
		ch := change{task: t, writes: fence, result: out, silent: slices.Equal(next, t.Tags)}
		ch.task.Tags = next
		return ch, nil
	})
	return out, err
}
