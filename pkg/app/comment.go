package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Commented answers a comment.
type Commented struct {
	TaskID    id.Task `json:"task_id" jsonschema:"the task it is queued on"`
	Code      string  `json:"code" jsonschema:"its code"`
	CommentID string  `json:"comment_id" jsonschema:"id of the comment inside its task"`
	Delivery  string  `json:"delivery" jsonschema:"when the agent will read it"`
}

const delivery = "queued: the whole text is part of the next work prompt, whatever starts that turn; it starts none itself"

func (a *App) commented(t task.Task, m raise.Comment) Commented {
	return Commented{TaskID: t.ID, Code: t.Code, CommentID: m.ID, Delivery: delivery}
}

// AddComment queues an instruction for the next work turn. It never starts one
// (AN-006).
func (a *App) AddComment(ctx context.Context, c Call, word, message string) (Commented, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Commented{}, err
	}
	defer a.lanes.enter(string(t.ID))()
	var m raise.Comment
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if err := related(c, t); err != nil {
			return change{}, err
		}
		if t.Status.Terminal() {
			return change{}, finished("comment", t)
		}
		fence, err := a.fence(ctx, c, t)
		if err != nil {
			return change{}, err
		}
		var ws []store.Write
		m, ws, err = a.queueComment(ctx, &t, c.Actor(), text.Prose(message))
		return change{task: t, writes: append(ws, fence...), result: a.commented(t, m)}, err
	})
	return a.commented(t, m), err
}

// queueComment adds a comment to t and returns the writes that store it.
func (a *App) queueComment(ctx context.Context, t *task.Task, by identity.Actor, words string) (raise.Comment, []store.Write, error) {
	t.Comments++
	t.Queued++
	m := raise.Comment{
		ID: fmt.Sprintf("c%d", t.Comments), Seq: t.Comments, Actor: by, At: a.Now(), Version: 1,
	}
	inline, body, ws, err := a.keepText(ctx, *t, fmt.Sprintf("comment.%d.1", m.Seq), words)
	if err != nil {
		return m, nil, err
	}
	m.Text, m.Body = inline, body
	return m, append(ws, commentWrite(a.part(*t), m, 0)), nil
}

func commentState(m raise.Comment) string {
	switch {
	case m.System:
		return "record"
	case !m.Delivered.IsZero():
		return "delivered"
	case !m.Shown.IsZero():
		return "shown"
	}
	return "queued"
}

// EditComment lets a person rewrite their own comment as long as no prompt has
// carried it (AN-007 to AN-010). The new text is a body of its own.
func (a *App) EditComment(ctx context.Context, c Call, word, comment, message string) (Commented, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Commented{}, err
	}
	seq, err := strconv.ParseInt(strings.TrimPrefix(strings.ToLower(strings.TrimSpace(comment)), "c"), 10, 64)
	if err != nil || seq < 1 {
		return Commented{}, refusal.Of(refusal.NotFound, "comment", comment)
	}
	k := a.part(t).Comment(seq)
	var m raise.Comment
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		var ok bool
		var err error
		m, ok, err = get[raise.Comment](ctx, a.Store, k)
		switch by := c.Actor(); {
		case err != nil:
			return change{}, err
		case !ok:
			return change{}, refusal.Of(refusal.NotFound, "comment", comment)
		case m.System || m.Actor.Role != by.Role || m.Actor.Email != by.Email || by.Role != identity.Human:
			return change{}, refusal.Of(refusal.CommentNotAuthor, m.ID, m.Actor.String())
		case !m.Shown.IsZero():
			return change{}, refusal.Of(refusal.CommentDelivered, m.ID, stamp(m.Shown))
		}
		inline, body, ws, err := a.keepText(ctx, t, fmt.Sprintf("comment.%d.%d", m.Seq, m.Version+1), text.Prose(message))
		if err != nil {
			return change{}, err
		}
		was := m.Version
		m.Text, m.Body, m.Version = inline, body, was+1
		return change{silent: true, writes: append(ws, commentWrite(a.part(t), m, was)), result: a.commented(t, m)}, nil
	})
	return a.commented(t, m), err
}

// commentWrite puts a changed comment on condition of the version read.
func commentWrite(p store.Partition, cm raise.Comment, was int64) store.Write {
	w := put(p.Comment(cm.Seq), "comment", cm, store.VersionIs(was))
	w.Item.Attr[store.AttrVersion] = cm.Version
	if was == 0 {
		w.If = []store.Cond{store.Absent()}
	}
	return w
}
