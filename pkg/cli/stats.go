package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
)

func (e *Env) statsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "stats", Short: "Say what was spent on models, and how near their limits are", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.statsTokens(), e.statsLimits())
	return c
}

func (e *Env) statsTokens() *cobra.Command {
	word, subtree := "", false
	c := &cobra.Command{
		Use: "tokens", Short: "Tokens per task and per model", Args: exactly(),
		Long: "tokens lists the tasks that called a model, the dearest first, and how the project fares with each\n" +
			"model. A turn counts when it has settled; the one under way as far as it was reported.",
		RunE: func(c *cobra.Command, _ []string) error {
			in := args{}.with("task_id", word).with("subtree", subtree)
			raw, err := e.call(c.Context(), "tokenStats", in)
			if err != nil {
				return err
			}
			return show(e, raw, e.printStats)
		},
	}
	c.Flags().StringVar(&word, "task", "", "only this task")
	c.Flags().BoolVar(&subtree, "subtree", false, "with --task: its subtasks too")
	e.jsonFlag(c)
	return c
}

func (e *Env) statsLimits() *cobra.Command {
	c := &cobra.Command{
		Use: "limits", Short: "How near credentials are to their limits, and what the usage pause holds", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			raw, err := e.call(c.Context(), "usageLimits", args{})
			if err != nil {
				return err
			}
			return show(e, raw, e.printLimits)
		},
	}
	e.jsonFlag(c)
	return c
}

func (e *Env) printLimits(out op.UsageLimits) error {
	r := recordPrinter{e: e}
	if len(out.Readings) == 0 {
		r.line("No model service has said anything about limits so far.")
	}
	for _, v := range out.Readings {
		r.line("%s (%s), %s", line(v.Credential), line(v.Provider), e.ago(v.At))
		for _, w := range v.Windows {
			r.field(w.Name, fmt.Sprintf("%.0f%% used, begins anew %s", w.Percent, e.clock(w.Resets)))
		}
		if len(v.Windows) == 0 {
			r.field("windows", "none: it is no subscription, or says nothing about one")
		}
		r.field("overage", v.Overage)
	}
	p := out.Pause
	if p.Threshold <= 0 {
		r.line("Usage pause: off.")
		return e.printf("%s", r.b.String())
	}
	r.line("Usage pause: nothing starts on a credential from %.0f%% of a window on.", p.Threshold)
	for _, v := range p.Paused {
		r.line("  paused: %s until %s", line(v.Credential), e.clock(v.Resets))
	}
	for _, v := range p.Waiting {
		r.line("  waiting: %s %s until %s", line(v.Code), v.TaskID.Short(), e.clock(v.Until))
	}
	for _, v := range p.Passes {
		r.line("  let through once: %s %s, by %s", line(v.Code), v.TaskID.Short(), line(v.By))
	}
	for _, v := range p.Armed {
		if v.Unread {
			r.line("  not read yet: %s", line(v.Credential))
		}
	}
	return e.printf("%s", r.b.String())
}

func (e *Env) printStats(out op.TokenStats) error {
	if len(out.Tasks) == 0 && len(out.Models) == 0 {
		return e.printf("No model was called so far.\n")
	}
	var b strings.Builder
	if len(out.Tasks) > 0 {
		rows := make([][]string, len(out.Tasks))
		for i, t := range out.Tasks {
			rows[i] = []string{t.Code, t.TaskID.Short(), t.Outcome, fmt.Sprint(t.Rounds), amount(t.Tokens), spendText(t.Models)}
		}
		b.WriteString(e.table([]string{"TASK", "ID", "OUTCOME", "FEEDBACK", "TOKENS", "MODELS"}, rows))
	}
	if len(out.Models) > 0 {
		rows := make([][]string, len(out.Models))
		for i, m := range out.Models {
			each := m.Withheld
			if m.Tokens != nil {
				each = amount(int64(*m.Tokens))
			}
			rows[i] = []string{m.Model, fmt.Sprint(m.Tasks), fmt.Sprint(m.Accepted), share(m.Accepts), share(m.FirstPass), each}
		}
		b.WriteString("\n" + e.table([]string{"MODEL", "TASKS", "ACCEPTED", "OF ENDED", "AT ONCE", "TOKENS EACH"}, rows))
	}
	return e.printf("%s", b.String())
}

// spendText is what models were asked and answered, on one line.
func spendText(all []op.Spend) string {
	var out []string
	for _, s := range all {
		text := fmt.Sprintf("%s tokens of %s in %s (%s in, %s out", amount(s.Tokens), s.Model, count(int(s.Requests), "call"), amount(s.Input), amount(s.Output))
		if n := s.CacheRead + s.CacheWrite; n > 0 {
			text += ", " + amount(n) + " cached"
		}
		out = append(out, text+")")
	}
	return strings.Join(out, "; ")
}

// amount prints a number short enough to compare at a glance.
func amount(n int64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1_000_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%dk", n/1000)
	case n >= 1000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

func share(f *float64) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%.0f%%", *f*100)
}
