package cli

import (
	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
)

func (e *Env) editCommand() *cobra.Command {
	names := []struct{ flag, doc string }{
		{"goal", "what is to be achieved, in one line"},
		{"prompt", "what the agent is asked to do; - reads standard input"},
		{"code", "short name of the task"},
		{"type", "type label"},
		{"parent", "task it is a subtask of; \"\" for the top level"},
		{"agent", "agent to run it"},
		{"model", "model for the agent"},
		{"effort", "effort for the agent"},
	}
	c := &cobra.Command{
		Use:   "edit TASK",
		Short: "Change a task",
		Long:  "edit changes a live task. Goal, prompt, code, type and parent can be changed until it is started.",
		Args:  exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			in := args{"task_id": words[0]}
			for _, n := range names {
				if !c.Flags().Changed(n.flag) {
					continue
				}
				v, err := c.Flags().GetString(n.flag)
				if err != nil {
					return err
				}
				if n.flag == "prompt" && v == "-" {
					if v, err = e.stdin("prompt"); err != nil {
						return err
					}
				}
				in[n.flag] = v
			}
			if len(in) == 1 {
				return usage(c, "there is nothing to change; say what with a flag")
			}
			raw, err := e.call(c.Context(), "editTask", in)
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Edited) error {
				if len(out.Changed) == 0 {
					return e.printf("%s is as it was.\n", line(out.Code))
				}
				return e.printf("Changed %s: %s.\n", line(out.Code), line(joined(out.Changed)))
			})
		},
	}
	for _, n := range names {
		c.Flags().String(n.flag, "", n.doc)
	}
	e.jsonFlag(c)
	return c
}
