package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Bounds of a handover. People's words are given whole as long as all of them
// fit; the agent can read everything else with its tools.
const (
	handoverMost   = 60_000
	handoverAnswer = 2_000 // of one answer of the agent
)

// piece is one entry of a conversation as a handover quotes it.
type piece struct {
	at   time.Time
	who  string
	text string
}

// handover is what the agent of a run is told when its own conversation is lost:
// how that came about, what it was asked and answered before this turn, oldest
// first, and to look before it repeats anything. The words of this turn are in
// its prompt, which follows.
func (a *App) handover(ctx context.Context, t task.Task, seq int64, lost string) (string, error) {
	var all []piece
	var bad error
	err := a.eachTurn(ctx, t, func(tr turn.Turn) bool {
		if tr.Seq >= seq {
			return true
		}
		s, err := a.saidIn(ctx, t, tr)
		if err != nil {
			bad = err
			return false
		}
		if s.text != "" {
			all = append(all, s)
		}
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return "", err
	}
	comments, err := a.delivered(ctx, t)
	if err != nil {
		return "", err
	}
	all = append(all, comments...)
	slices.SortStableFunc(all, func(x, y piece) int { return y.at.Compare(x.at) })

	var b strings.Builder
	fmt.Fprintf(&b, "# Handover\nYou have worked on task %s (%s) before. The conversation you had about it, %s, is lost, so this is a fresh one, and what "+
		"follows is lazy's record of it. Check the files, git log and git status before you repeat anything: what is told here has been done "+
		"or may have been. More is in lazy_show(task_id=%q, sections=[\"turns\"]).\n", t.Name(), t.Goal, text.Line(cut(lost, 100)), t.ID)
	first, err := a.getBody(ctx, t, t.Prompt)
	if err != nil {
		return "", err
	}
	if first != "" {
		fmt.Fprintf(&b, "\n## What the task was started with\n\n%s\n", cut(first, handoverMost))
	}
	room, kept := handoverMost-b.Len(), 0
	for _, s := range all { // the newest have the best claim to the room
		if room -= len(s.text) + len(s.who) + 40; room < 0 && kept > 0 {
			break
		}
		kept++
	}
	if kept > 0 {
		b.WriteString("\n## What was said since, oldest first\n")
	}
	if left := len(all) - kept; left > 0 {
		fmt.Fprintf(&b, "\n(%d earlier pieces are left out; lazy_show has them.)\n", left)
	}
	for _, s := range slices.Backward(all[:kept]) {
		fmt.Fprintf(&b, "\n%s, %s:\n%s\n", s.who, s.at.UTC().Format(time.RFC3339), cut(s.text, handoverMost))
	}
	if err := a.decisions(ctx, &b, t, time.Unix(1, 0)); err != nil {
		return "", err
	}
	b.WriteString("\n# This turn\n\n")
	return b.String(), nil
}

// saidIn is what one turn contributes; the first prompt of a task is told apart.
func (a *App) saidIn(ctx context.Context, t task.Task, tr turn.Turn) (piece, error) {
	s := piece{at: tr.Began}
	switch tr.Side {
	case turn.Input:
		s.who = turnBy(tr)
		if tr.Kind == turn.Ask {
			s.who += " asked"
		}
		words, err := a.readText(ctx, t, tr.Text, tr.Body)
		s.text = words
		return s, err
	case turn.Answer:
		s.at, s.who = tr.Ended, "You answered"
		words, err := a.readText(ctx, t, tr.Text, tr.Body)
		if words == "" {
			words = tr.Summary
		}
		s.text, _ = text.Cut(words, handoverAnswer)
		if f := tr.Failure; f != nil {
			s.who, s.text = "Your turn failed", strings.TrimSpace(string(f.Class)+": "+text.Line(f.Reason)+"\n"+s.text)
		}
		return s, err
	case turn.Crash:
		s.at, s.who = tr.Ended, "Your turn was broken off"
		s.text = "It did not end by itself."
		if f := tr.Failure; f != nil {
			s.text = text.Line(f.Reason)
		}
	case turn.Note: // of no concern to a fresh conversation
	}
	return s, nil
}

// delivered are the comments that the lost conversation had. Those that are due
// are in the prompt.
func (a *App) delivered(ctx context.Context, t task.Task) ([]piece, error) {
	var out []piece
	err := a.eachComment(ctx, t, func(cm raise.Comment, said func() (string, error)) (bool, error) {
		if cm.System || cm.Delivered.IsZero() {
			return true, nil
		}
		words, err := said()
		out = append(out, piece{cm.At, cm.Actor.String() + " commented", words})
		return true, err
	})
	return out, err
}
