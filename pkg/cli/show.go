package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// shownLines is how much of a long text show prints without --full.
const shownLines = 12

func (e *Env) showCommand() *cobra.Command {
	full := false
	c := &cobra.Command{
		Use:   "show TASK",
		Short: "Show the whole record of a task",
		Long:  "show prints a task's state, its turns with who they came from, and what was said around it.",
		Args:  exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			in := args{"task_id": words[0]}
			if full {
				in["limit"] = 200
			}
			raw, err := e.call(c.Context(), "showTask", in)
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Shown) error {
				r := recordPrinter{e: e, full: full}
				r.print(out)
				return e.printf("%s", r.b.String())
			})
		},
	}
	c.Flags().BoolVar(&full, "full", false, "print every text whole, with logs and history")
	e.jsonFlag(c)
	return c
}

// recordPrinter lays a task's record out as text.
type recordPrinter struct {
	e    *Env
	full bool
	b    strings.Builder
}

func (r *recordPrinter) line(format string, args ...any) {
	fmt.Fprintf(&r.b, format+"\n", args...)
}

// field prints a named value, and nothing for an empty one.
func (r *recordPrinter) field(name, value string) {
	if value = line(value); value != "" {
		r.line("  %-9s %s", name, value)
	}
}

// text prints words under a heading, cut unless everything was asked for.
func (r *recordPrinter) text(s, by string, cut bool) {
	s = strings.TrimSpace(clean(s))
	if s == "" {
		return
	}
	lines := strings.Split(s, "\n")
	if !r.full && len(lines) > shownLines {
		more := len(lines) - shownLines
		lines = append(lines[:shownLines], fmt.Sprintf("… %d more lines (--full)", more))
	}
	r.b.WriteString(indent(strings.Join(lines, "\n"), by))
	if cut {
		r.line("%s… (cut by the control plane)", by)
	}
}

func (r *recordPrinter) heading(format string, args ...any) {
	r.line("\n%s", r.e.styled(r.e.Out, bold, fmt.Sprintf(format, args...)))
}

func (r *recordPrinter) print(s op.Shown) {
	r.line("%s  %s  %s", r.e.styled(r.e.Out, bold, line(s.Code)), line(string(s.TaskID)), line(statusCell(s.Row)))
	r.field("goal", s.Goal)
	r.field("progress", s.Progress)
	r.field("why", s.Why)
	r.field("merge", s.Merge)
	if s.Retry != "" {
		r.field("retry", s.Retry)
	}
	if strings.HasPrefix(s.Substate, "waiting on usage pause") && r.e.TTY(r.e.Out) { // a hint for a person, and for nobody else (US-014)
		r.field("pause", "let its next turn through: lazy plane config set "+pauseKey+" off --task "+line(s.Code))
	}
	r.field("agent", s.AgentText)
	if s.Usage != nil && len(s.Usage.Models) > 0 {
		r.field("spent", spendText(s.Usage.Models))
	}
	r.field("type", s.Type)
	r.field("tags", strings.Join(s.Tags, ", "))
	if s.Parent != "" {
		r.field("parent", s.ParentCode+" "+s.Parent.Short())
	}
	branch := s.Branch
	if branch != "" && s.Tip != "" {
		branch += fmt.Sprintf(" at %s, %s", short(s.Tip), count(int(s.Commits), "commit"))
	}
	r.field("branch", branch)
	r.field("target", s.Target)
	if s.Final != nil || s.HeadSHA != "" {
		r.field("final", s.FinalText)
	}
	if s.MergeSHA != "" {
		r.field("merged", "as "+short(s.MergeSHA)+" into "+s.Target)
	}
	if a := s.Accept; a != nil && s.MergeSHA == "" {
		text := "by " + a.By.String() + ", " + r.e.ago(a.Began)
		if a.Failure != "" {
			text += "; undone: " + a.Failure
		}
		r.field("accept", text)
	}
	r.interrupted(s)
	for _, c := range s.Children {
		r.field("subtask", c.Code+" "+c.TaskID.Short()+" "+c.Status.Words()+"  "+c.Goal)
	}
	if s.Prompt != "" {
		r.heading("Prompt")
		r.text(s.Prompt, "  ", s.PromptCut)
	}
	r.turns(s)
	r.notes(s)
}

// interrupted is the diagnosis of a task whose runs die (HA-030).
func (r *recordPrinter) interrupted(s op.Shown) {
	if s.Interruptions == 0 && s.AutoResumes == 0 && !s.Hold {
		return
	}
	var all []string
	if s.Interruptions > 0 {
		all = append(all, count(s.Interruptions, "interruption")+" in a row")
	}
	if s.AutoResumes > 0 {
		all = append(all, count(s.AutoResumes, "automatic resume"))
	}
	if s.Hold {
		all = append(all, "stopped by hand or by a ground stop: nothing resumes it on its own")
	}
	r.field("runs", strings.Join(all, ", "))
}

func (r *recordPrinter) turns(s op.Shown) {
	if s.Turns == nil || len(s.Turns.Items) == 0 {
		return
	}
	r.heading("Turns (%d)", s.Turns.Total)
	if s.Turns.Offset > 0 {
		r.line("  … %d before these (--full)", s.Turns.Offset)
	}
	for _, t := range s.Turns.Items {
		head := fmt.Sprintf("  %d  %s", t.Seq, line(turnTitle(t)))
		if t.AgentText != "" && t.Side == turn.Answer {
			head += "  [" + line(t.AgentText) + "]"
		}
		head += "  " + r.e.ago(t.Began)
		if t.Side == turn.Answer && t.Ended.After(t.Began) {
			head += ", took " + span(t.Ended.Sub(t.Began))
		}
		r.line("%s", head)
		if t.Host {
			r.line("       ran WITHOUT a sandbox (--host-process)")
		}
		if t.Failure != nil {
			r.line("       failed (%s): %s", line(string(t.Failure.Class)), line(t.Failure.Reason))
		}
		if t.ExitCode != 0 {
			r.line("       exit code %d", t.ExitCode)
		}
		if t.Uncommitted.Total > 0 {
			r.line("       left uncommitted: %s", line(paths(t.Uncommitted.Paths, t.Uncommitted.Total)))
		}
		if t.Drifted != "" {
			r.line("       HEAD inside the workspace had moved to %s; it was not adopted", line(short(t.Drifted)))
		}
		if t.Lost != "" {
			why := ""
			if t.LostWhy != "" {
				why = " (" + line(t.LostWhy) + ")"
			}
			r.line("       the agent's conversation %s was lost%s; it began a fresh one from the record", line(t.Lost), why)
		}
		if len(t.Usage) > 0 {
			r.line("       spent %s", line(spendText(t.Usage)))
		}
		r.text(t.Text, "       ", t.Truncated)
		if r.full || t.Failure != nil || t.ExitCode != 0 {
			r.output("setup", t.Setup)
			r.output("log", t.Log)
		}
	}
}

func (r *recordPrinter) output(what, s string) {
	if strings.TrimSpace(s) == "" {
		return
	}
	r.line("       %s:", what)
	r.text(s, "         ", false)
}

func turnTitle(t op.TurnShown) string {
	switch t.Side {
	case turn.Input:
		verb := t.Verb
		if verb == "" {
			verb = string(t.Kind)
		}
		return verb + " by " + t.ByText
	case turn.Answer:
		s := "the agent's turn"
		switch t.Ending {
		case turn.DeclaredDone:
			s += " ended declared done"
		case turn.NeedsInput:
			s += " ended needing a decision"
		case turn.Neither:
			s += " ended"
		}
		if t.Commits > 0 {
			s += ", " + count(int(t.Commits), "commit")
		}
		return s
	case turn.Crash:
		return "the run died"
	case turn.Note:
		return t.ByText + ": " + t.Verb
	}
	return string(t.Side)
}

func (r *recordPrinter) notes(s op.Shown) {
	if s.Raised != nil && len(s.Raised.Items) > 0 {
		r.heading("Raised (%d)", s.Raised.Total)
		for _, it := range s.Raised.Items {
			r.line("  %s", raisedLine(it))
			r.text(it.Body, "       ", false)
		}
	}
	if p := s.Protection; p != nil && len(p.Violations) > 0 {
		r.heading("Protected files (%d to decide at accept)", p.Pending)
		for _, v := range p.Violations {
			state := "awaits a decision"
			if v.Approved {
				state = "approved"
			}
			reason := ""
			if v.Reason != "" {
				reason = ": " + v.Reason
			}
			r.line("  %s  %s%s", line(v.Path), state, line(reason))
		}
	}
	if c := s.Comments; c != nil && len(c.Items) > 0 {
		r.heading("Comments (%d)", c.Total)
		for _, m := range c.Items {
			r.line("  %s  %s, %s, %s", line(m.ID), line(m.ByText), r.e.ago(m.At), line(m.State))
			r.text(m.Text, "       ", m.Cut)
		}
	}
	if j := s.Journal; j != nil && len(j.Items) > 0 {
		r.heading("Journal (%d)", j.Total)
		for _, m := range j.Items {
			r.line("  %d  %s, %s", m.Index, line(m.ByText), r.e.ago(m.At))
			r.text(m.Text, "       ", m.Cut)
		}
	}
	if h := s.History; r.full && h != nil && len(h.Items) > 0 {
		r.heading("History (%d)", h.Total)
		for _, x := range h.Items {
			r.line("  %s  %s → %s  %s by %s", x.At.Local().Format("2006-01-02 15:04:05"), line(x.From.Words()), line(x.To.Words()), line(string(x.Trigger)), line(x.Actor.String()))
		}
	}
}

// count prints a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// paths prints a capped list of paths.
func paths(all []string, total int) string {
	const most = 8
	cut := all
	if len(cut) > most {
		cut = cut[:most]
	}
	s := strings.Join(cut, ", ")
	if total > len(cut) {
		s += fmt.Sprintf(" and %d more", total-len(cut))
	}
	return s
}
