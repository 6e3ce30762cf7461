package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Sections are the parts of a task's record that can be asked for.
func Sections() []string {
	return []string{"summary", "turns", "journal", "comments", "raised", "protection", "report", "usage", "history"}
}

// Part is a window on one kind of rows, oldest first.
type Part[T any] struct {
	Total  int  `json:"total" jsonschema:"how many there are"`
	Offset int  `json:"offset" jsonschema:"how many come before the first one shown"`
	Items  []T  `json:"items" jsonschema:"the ones shown, oldest first"`
	More   bool `json:"more" jsonschema:"whether later ones were left out"`
}

// Ref names another task.
type Ref struct {
	TaskID id.Task     `json:"task_id" jsonschema:"full id"`
	Code   string      `json:"code" jsonschema:"code"`
	Goal   string      `json:"goal,omitempty" jsonschema:"goal"`
	Status task.Status `json:"status" jsonschema:"status"`
}

// TurnShown is one entry of a task's conversation.
type TurnShown struct {
	Seq         int64           `json:"seq" jsonschema:"number of the entry"`
	TurnID      id.Turn         `json:"turn_id" jsonschema:"id of the entry"`
	Side        turn.Side       `json:"side" jsonschema:"input, answer, crash or note"`
	Kind        turn.Kind       `json:"kind" jsonschema:"what the run was for"`
	Verb        string          `json:"verb,omitempty" jsonschema:"the verb that began it"`
	By          *identity.Actor `json:"by,omitempty" jsonschema:"who it came from; absent on an agent's answer"`
	ByText      string          `json:"by_text" jsonschema:"the same as one label"`
	Text        string          `json:"text,omitempty" jsonschema:"its words"`
	Truncated   bool            `json:"truncated,omitempty" jsonschema:"the words were cut to keep the answer short; ask for fewer entries to see more"`
	Agent       string          `json:"agent,omitempty" jsonschema:"registered agent"`
	Model       string          `json:"model,omitempty" jsonschema:"model"`
	Effort      string          `json:"effort,omitempty" jsonschema:"effort"`
	AgentText   string          `json:"agent_text,omitempty" jsonschema:"agent, model and effort as one label"`
	Host        bool            `json:"host_process,omitempty" jsonschema:"it ran without a sandbox"`
	Ending      turn.Ending     `json:"ending,omitempty" jsonschema:"how a work turn ended"`
	Declared    bool            `json:"declared,omitempty" jsonschema:"the declaration in force was made in this turn"`
	Outcome     string          `json:"outcome,omitempty" jsonschema:"ok, error, stopped, crashed or history"`
	Failure     *turn.Failure   `json:"failure,omitempty" jsonschema:"what went wrong"`
	ExitCode    int             `json:"exit_code,omitempty" jsonschema:"exit code of the agent"`
	Log         string          `json:"log,omitempty" jsonschema:"last lines of the run"`
	Setup       string          `json:"setup,omitempty" jsonschema:"what the workspace setup before it printed"`
	Head        string          `json:"head,omitempty" jsonschema:"head of the branch at its end"`
	Commits     int64           `json:"commits,omitempty" jsonschema:"commits it made"`
	Uncommitted turn.Leftover   `json:"uncommitted,omitzero" jsonschema:"files it left uncommitted"`
	Drifted     string          `json:"drifted,omitempty" jsonschema:"a HEAD found inside the workspace that was not the recorded one"`
	Lost        string          `json:"lost_session,omitempty" jsonschema:"the agent's conversation, which was lost: this turn began a fresh one from the record"`
	LostWhy     string          `json:"lost_reason,omitempty" jsonschema:"how it showed that the conversation was lost"`
	Delivered   string          `json:"receipt,omitempty" jsonschema:"whether a run was shown these words, and ended normally"`
	Began       time.Time       `json:"began" jsonschema:"when it began"`
	Ended       time.Time       `json:"ended,omitzero" jsonschema:"when it ended"`
	WaitedS     int64           `json:"waited_s,omitempty" jsonschema:"seconds of it spent waiting for other tasks"`
	Usage       []Spend         `json:"usage,omitempty" jsonschema:"what its run spent, per model"`
}

// EntryShown is a journal entry as it is read.
type EntryShown struct {
	Index  int64          `json:"index" jsonschema:"its number, which never changes"`
	Text   string         `json:"text" jsonschema:"its words"`
	By     identity.Actor `json:"by" jsonschema:"who wrote it"`
	ByText string         `json:"by_text" jsonschema:"the same as one label"`
	At     time.Time      `json:"created_at" jsonschema:"when"`
	Cut    bool           `json:"truncated,omitempty" jsonschema:"the words were cut"`
}

// CommentShown is a comment as it is read.
type CommentShown struct {
	ID     string         `json:"comment_id" jsonschema:"id inside its task"`
	Text   string         `json:"text" jsonschema:"its words"`
	By     identity.Actor `json:"by" jsonschema:"who wrote it"`
	ByText string         `json:"by_text" jsonschema:"the same as one label"`
	At     time.Time      `json:"created_at" jsonschema:"when"`
	State  string         `json:"state" jsonschema:"queued, shown to the agent, delivered, or a record of lazy's own"`
	Cut    bool           `json:"truncated,omitempty" jsonschema:"the words were cut"`
}

// Protection is the read-only view of the protected files a task touched.
type Protection struct {
	Violations []task.Violation `json:"violations" jsonschema:"protected files the agent changed"`
	Pending    int              `json:"pending" jsonschema:"how many still need a decision at accept"`
	Rules      []string         `json:"rules" jsonschema:"patterns of the files that are protected; only a person changes them"`
	Target     string           `json:"target,omitempty" jsonschema:"branch that an accept merges into"`
}

// AcceptShown is the merge phase in force, or the last one.
type AcceptShown struct {
	Operation string         `json:"operation_id" jsonschema:"id to follow it by"`
	By        identity.Actor `json:"by" jsonschema:"who accepted"`
	Step      string         `json:"step,omitempty" jsonschema:"last step that was recorded"`
	Failure   string         `json:"failure,omitempty" jsonschema:"why it was undone"`
	Began     time.Time      `json:"began" jsonschema:"when it began"`
	Resumes   int            `json:"resumes,omitempty" jsonschema:"how often it was resumed after a crash"`
}

// Shown is the record of a task.
type Shown struct {
	TaskState
	Prompt     string              `json:"prompt,omitempty" jsonschema:"what the agent was asked to do"`
	PromptCut  bool                `json:"prompt_truncated,omitempty" jsonschema:"the prompt was cut to keep the answer short"`
	Type       string              `json:"type,omitempty" jsonschema:"type label"`
	Effort     string              `json:"effort,omitempty" jsonschema:"effort, when one is set"`
	AgentText  string              `json:"agent_text,omitempty" jsonschema:"agent, model and effort as one label"`
	ParentCode string              `json:"parent_code,omitempty" jsonschema:"code of the task it belongs to"`
	Children   []Ref               `json:"children,omitempty" jsonschema:"its live direct subtasks"`
	Branch     string              `json:"branch,omitempty" jsonschema:"branch it works on"`
	Target     string              `json:"target,omitempty" jsonschema:"branch it merges into"`
	Base       string              `json:"base,omitempty" jsonschema:"commit it was cut from"`
	Tip        string              `json:"tip,omitempty" jsonschema:"recorded head of its branch"`
	MergeSHA   string              `json:"merge_sha,omitempty" jsonschema:"the commit that landed"`
	Accept     *AcceptShown        `json:"accept,omitempty" jsonschema:"the accept under way, or the last one"`
	Protection *Protection         `json:"protection,omitempty" jsonschema:"protected files"`
	Turns      *Part[TurnShown]    `json:"turns,omitempty" jsonschema:"its conversation"`
	Journal    *Part[EntryShown]   `json:"journal,omitempty" jsonschema:"passive notes: they are looked up here and reach no prompt"`
	Comments   *Part[CommentShown] `json:"comments,omitempty" jsonschema:"instructions: they are delivered with the next work prompt"`
	Raised     *Part[RaisedShown]  `json:"raised_items,omitempty" jsonschema:"what its agents raised for others to decide"`
	History    *Part[task.History] `json:"history,omitempty" jsonschema:"its changes of status"`
	Usage      *UsageShown         `json:"usage,omitempty" jsonschema:"what its turns have spent"`
	Report     *ReportShown        `json:"report,omitempty" jsonschema:"the agent's latest turn report"`
}

// Window picks rows of a record. A nil Offset means the newest ones.
type Window struct {
	Sections []string
	Offset   *int
	Limit    int
}

const (
	showLimit = 50
	showMost  = 200
	textMost  = 16 << 10  // of one text in an answer
	textsMost = 192 << 10 // of all texts in an answer
)

// ShowTask reads the record of a task: any task of the project, for anyone in it
// (AA-010, CM-021). Without sections it shows them all.
func (a *App) ShowTask(ctx context.Context, c Call, word string, w Window) (Shown, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Shown{}, err
	}
	if w.Limit <= 0 {
		w.Limit = showLimit
	}
	w.Limit = min(w.Limit, showMost)
	want := func(s string) bool { return len(w.Sections) == 0 || slices.Contains(w.Sections, s) }
	s := Shown{}
	if s.TaskState, err = a.taskState(ctx, t); err != nil {
		return Shown{}, err
	}
	left := budget(textsMost)
	if want("summary") {
		if err := a.showSummary(ctx, c, t, &s, &left); err != nil {
			return Shown{}, err
		}
	}
	if want("protection") {
		rules, err := a.protection(ctx, t.Tenant, t.Project)
		if err != nil {
			return Shown{}, err
		}
		s.Protection = &Protection{
			Violations: append([]task.Violation{}, t.Violations...), Pending: t.Pending(), Rules: append([]string{}, rules...), Target: t.Target,
		}
	}
	open, err := a.counts(ctx, c, t)
	if err != nil {
		return Shown{}, err
	}
	parts := []struct {
		name string
		read func() error
	}{
		{"turns", func() (err error) { s.Turns, err = a.showTurns(ctx, t, w, open, &left); return }},
		{"journal", func() (err error) { s.Journal, err = a.showJournal(ctx, t, w, &left); return }},
		{"comments", func() (err error) { s.Comments, err = a.showComments(ctx, t, w, &left); return }},
		{"raised", func() (err error) { s.Raised, err = a.showRaised(ctx, t, w, &left); return }},
		{"report", func() (err error) { s.Report, err = a.showReport(ctx, t, &left); return }},
		{"usage", func() error {
			u, err := a.showUsage(ctx, t)
			if err == nil && open && len(u.Models) > 0 {
				s.Usage = u
			}
			return err
		}},
		{"history", func() (err error) {
			s.History, err = window(ctx, a, a.part(t).PK, "HIS#", w, func(h task.History) (task.History, error) { return h, nil })
			return
		}},
	}
	for _, p := range parts {
		if want(p.name) {
			if err := p.read(); err != nil {
				return Shown{}, err
			}
		}
	}
	return s, nil
}

func (a *App) showSummary(ctx context.Context, c Call, t task.Task, s *Shown, left *budget) error {
	prompt, err := a.getBody(ctx, t, t.Prompt)
	if err != nil {
		return err
	}
	s.Prompt, s.PromptCut = left.cut(prompt)
	s.Type, s.Effort, s.AgentText = t.Type, t.Effort, AgentText(t.Agent, t.Model, t.Effort)
	s.Branch, s.Target, s.Base, s.Tip, s.MergeSHA = t.Branch, t.Target, t.Base, t.Tip, t.Merge
	if m := t.Accept; m != nil {
		s.Accept = &AcceptShown{Operation: m.Operation, By: m.Actor, Step: m.Step, Failure: m.Failure, Began: m.Began, Resumes: m.Resumes}
	}
	if t.Parent != "" {
		p, ok, err := a.loadTask(ctx, t.Tenant, t.Parent)
		if err != nil {
			return err
		}
		if ok {
			s.ParentCode = p.Code
		}
	}
	live, err := a.liveRows(ctx, c.Who)
	for _, l := range live {
		if l.Parent == t.ID {
			s.Children = append(s.Children, Ref{TaskID: l.ID, Code: l.Code, Goal: l.Goal, Status: l.Status})
		}
	}
	return err
}

// receipt completes the words of a turn with what its answer says about them.
func (a *App) receipt(ctx context.Context, t task.Task, in *turn.Turn) error {
	if in.Side != turn.Input && in.Side != turn.Note || in.Delivered(false) || !in.Delivered(true) {
		return nil
	}
	k := a.part(t).Turn(in.Seq + 1)
	for _, k := range []store.Key{k, a.part(t).Key(k.SK + ".1")} {
		ans, ok, err := get[turn.Turn](ctx, a.Store, k)
		if err != nil || !ok {
			return err
		}
		if ans.Normal && ans.Answers == in.ID {
			in.Receipt, in.Ended = "delivered", ans.Ended
			return nil
		}
	}
	return nil
}

func (a *App) showTurns(ctx context.Context, t task.Task, w Window, open bool, left *budget) (*Part[TurnShown], error) {
	return window(ctx, a, a.part(t).PK, "TRN#", w, func(tr turn.Turn) (TurnShown, error) {
		if err := a.receipt(ctx, t, &tr); err != nil {
			return TurnShown{}, err
		}
		v := TurnShown{
			Seq: tr.Seq, TurnID: tr.ID, Side: tr.Side, Kind: tr.Kind, Verb: tr.Verb, By: tr.Actor,
			Agent: tr.Agent, Model: tr.Model, Effort: tr.Effort, AgentText: AgentText(tr.Agent, tr.Model, tr.Effort),
			Host: tr.Host, Ending: tr.Ending, Outcome: tr.Outcome, Failure: tr.Failure, ExitCode: tr.ExitCode,
			Head: tr.Head, Commits: tr.Commits, Uncommitted: tr.Uncommitted, Drifted: tr.Drifted, Lost: tr.Lost, LostWhy: tr.LostWhy,
			Delivered: tr.Receipt, Began: tr.Began, Ended: tr.Ended, WaitedS: int64(tr.Waited / time.Second),
			Declared: t.Final != nil && (t.Final.Turn == tr.ID || t.Final.Turn == tr.Answers),
		}
		if open && len(tr.Usage) > 0 {
			v.Usage = spend(tr.Usage)
		}
		v.ByText = turnBy(tr)
		words, err := a.readText(ctx, t, tr.Text, tr.Body)
		if err != nil {
			return v, err
		}
		if words == "" {
			words = tr.Summary
		}
		v.Text, v.Truncated = left.cut(words)
		log, err := a.getBody(ctx, t, tr.Log)
		if err != nil {
			return v, err
		}
		v.Log, _ = left.cut(log)
		setup, err := a.getBody(ctx, t, tr.Setup)
		v.Setup, _ = left.cut(setup)
		return v, err
	})
}

// turnBy labels the origin of a turn: an agent's answer carries no actor, and on
// any other row the absence reads as a person at the CLI (AC-006).
func turnBy(tr turn.Turn) string {
	switch {
	case tr.Actor != nil:
		return tr.Actor.String()
	case tr.Side == turn.Answer:
		return string(identity.Agent)
	}
	return string(identity.Human)
}

func (a *App) showJournal(ctx context.Context, t task.Task, w Window, left *budget) (*Part[EntryShown], error) {
	return window(ctx, a, a.part(t).PK, "JRN#", w, func(e raise.Entry) (EntryShown, error) {
		words, err := a.readText(ctx, t, e.Text, e.Body)
		v := EntryShown{Index: e.Index, By: e.Actor, ByText: e.Actor.String(), At: e.At}
		v.Text, v.Cut = left.cut(words)
		return v, err
	})
}

func (a *App) showComments(ctx context.Context, t task.Task, w Window, left *budget) (*Part[CommentShown], error) {
	return window(ctx, a, a.part(t).PK, "CMT#", w, func(m raise.Comment) (CommentShown, error) {
		words, err := a.readText(ctx, t, m.Text, m.Body)
		v := CommentShown{ID: m.ID, By: m.Actor, ByText: m.Actor.String(), At: m.At, State: commentState(m)}
		v.Text, v.Cut = left.cut(words)
		return v, err
	})
}

// AgentText is the one label for the agent, model and effort of a turn (OT-009).
func AgentText(agent, model, effort string) string {
	label := []string{agent}
	for _, more := range []string{model, effort} {
		if more != "" {
			label = append(label, more)
		}
	}
	return strings.Join(label, " · ")
}

// window reads the rows of a partition under a prefix, in the order of their
// keys, and shows part of them. The newest get the texts' budget first.
func window[T, V any](ctx context.Context, a *App, pk, prefix string, w Window, show func(T) (V, error)) (*Part[V], error) {
	var rows []store.Item
	err := store.All(ctx, a.Store, store.Query{PK: pk, Prefix: prefix, Limit: 1000}, func(it store.Item) bool {
		rows = append(rows, it)
		return true
	})
	if err != nil {
		return nil, err
	}
	p := &Part[V]{Total: len(rows), Offset: max(0, len(rows)-w.Limit)}
	if w.Offset != nil {
		p.Offset = min(max(0, *w.Offset), len(rows))
	}
	rows = rows[p.Offset:min(len(rows), p.Offset+w.Limit)]
	p.More = p.Offset+len(rows) < p.Total
	p.Items = make([]V, len(rows))
	for i, it := range slices.Backward(rows) {
		row, err := decode[T](it)
		if err != nil {
			return nil, err
		}
		if p.Items[i], err = show(row); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// budget is how many bytes of texts an answer may still hold.
type budget int

func (b *budget) cut(s string) (string, bool) {
	n := min(len(s), textMost, max(int(*b), 0))
	for n > 0 && n < len(s) && s[n]&0xc0 == 0x80 {
		n-- // never in the middle of a character
	}
	*b -= budget(n)
	return s[:n], n < len(s)
}
