package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func (e *Env) statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status [TASK]",
		Short: "Where am I: the project's tasks by status, or one task's state",
		Args:  between(0, 1, "the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			in := args{}
			if len(words) == 1 {
				in["task_id"] = words[0]
			}
			raw, err := e.call(c.Context(), "getStatus", in)
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Standing) error {
				if out.Task != nil {
					return e.printf("%s", e.stateText(*out.Task)+flagsText(e, out.Stop, out.Drain))
				}
				return e.printf("%s", e.standingText(out))
			})
		},
	}
	e.jsonFlag(c)
	return c
}

// stateText is one task's state in a few lines.
func (e *Env) stateText(s op.TaskState) string {
	r := recordPrinter{e: e}
	r.line("%s  %s  %s", line(s.Code), line(s.Short), line(statusCell(s.Row)))
	r.field("goal", s.Goal)
	r.field("progress", s.Progress)
	r.field("retry", s.Retry)
	r.field("why", s.Why)
	r.field("merge", s.Merge)
	if s.Final != nil || s.HeadSHA != "" {
		r.field("final", s.FinalText)
	}
	if s.HeadSHA != "" {
		r.field("head", short(s.HeadSHA))
	}
	return r.b.String()
}

func (e *Env) standingText(out op.Standing) string {
	var b strings.Builder
	fmt.Fprintf(&b, "project %s, as %s\n", line(out.Project), line(out.Caller))
	var counts []string
	for _, s := range task.Statuses() {
		if n := out.Counts[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s.Words()))
		}
	}
	if len(counts) == 0 {
		counts = []string{"no live tasks"}
	}
	b.WriteString(strings.Join(counts, ", ") + "\n")
	b.WriteString(flagsText(e, out.Stop, out.Drain))
	for _, r := range out.Acks {
		b.WriteString("  " + ackText(r) + "\n")
	}
	if out.Dashboard != nil {
		fmt.Fprintf(&b, "Web: %s\n", line(*out.Dashboard))
	}
	if len(out.Active) > 0 {
		b.WriteString(e.rowsText(listing{}, out.Active, nil))
	}
	return b.String()
}
