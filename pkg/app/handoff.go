package app

import (
	"context"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// handed lists the hand-off entries of a report that count: none of a question's
// (HF-007), no more than the caps (HF-005). The report is untrusted, so they are
// applied here whatever the supervisor did.
func handed(resp turn.Response, kind turn.Kind) []turn.Handoff {
	if kind.ReadOnly() {
		return nil
	}
	var out []turn.Handoff
	for _, h := range resp.Handoff {
		switch h.Kind {
		case "journal", "followup":
			h.Blocking = false
		case "raised":
		default:
			continue
		}
		h.Content, _ = text.Cut(text.Prose(h.Content), names.HandoffChars)
		if !text.Blank(h.Content) && len(out) < names.HandoffEntries {
			out = append(out, h)
		}
	}
	return out
}

// handOver persists what an agent without tools left in its hand-off file, in the
// transaction that settles the turn (HF-004). The same content is kept once: the
// agent may have both written it and called a tool with it (HF-006).
func (a *App) handOver(ctx context.Context, t *task.Task, o Op, resp turn.Response, kind turn.Kind) ([]store.Write, error) {
	in := handed(resp, kind)
	if len(in) == 0 {
		return nil, nil
	}
	seen := map[string]bool{}
	if err := a.eachRaised(ctx, *t, func(it raise.Item) bool {
		words, err := a.readText(ctx, *t, it.Content, it.Body)
		seen["raised "+words] = err == nil
		return err == nil
	}); err != nil {
		return nil, err
	}
	err := store.All(ctx, a.Store, store.Query{PK: a.part(*t).PK, Prefix: "JRN#", Reverse: true}, func(it store.Item) bool {
		e, err := decode[raise.Entry](it)
		if err != nil || e.Turn != resp.Turn {
			return err == nil
		}
		words, err := a.readText(ctx, *t, e.Text, e.Body)
		seen["journal "+words] = true
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	var ws []store.Write
	by := Call{Who: identity.Caller{Kind: identity.Task, Tenant: t.Tenant, Subject: string(t.ID), Turn: resp.Turn, Epoch: o.Epoch}}
	for _, h := range in {
		kind := "raised "
		if h.Kind == "journal" {
			kind = "journal "
		}
		if seen[kind+h.Content] {
			continue
		}
		seen[kind+h.Content] = true
		var more []store.Write
		if h.Kind == "journal" {
			_, more, err = a.appendEntry(ctx, t, by, h.Content)
		} else {
			title, _ := text.Cut(text.Line(h.Content), 120)
			_, more, err = a.fileItem(ctx, t, by.Actor(), resp.Turn, NewRaised{Title: title, Content: h.Content, Blocking: h.Blocking})
		}
		if err != nil {
			return nil, fmt.Errorf("keep a hand-off entry: %w", err)
		}
		if len(ws)+len(more) > store.MaxWrites-30 {
			a.Log.WarnContext(ctx, "hand-off entries beyond one transaction were dropped", "task", t.ID.Short(), "turn", resp.Turn)
			break
		}
		ws = append(ws, more...)
	}
	return ws, nil
}
