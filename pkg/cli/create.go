package cli

import (
	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/text"
)

func (e *Env) createCommand() *cobra.Command {
	var goal, prompt, code, typ, parent, agent, model, effort, base string
	var tags []string
	c := &cobra.Command{
		Use:   "create --goal TEXT",
		Short: "Make a task; nothing is started",
		Long: "create makes a task in backlog. The goal is one line that people read in listings; the prompt is what\n" +
			"the agent is asked to do, and is the goal where it is left out.",
		Example: "  lazy create --goal \"Fix the login timeout\" --code login\n  lazy create --goal \"Port the parser\" --prompt - <task.md",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if prompt == "-" {
				if prompt, err = e.stdin("prompt"); err != nil {
					return err
				}
				if text.Blank(prompt) {
					return usage(c, "--prompt - found nothing on standard input")
				}
			}
			if text.Blank(goal) {
				return usage(c, "--goal is missing")
			}
			if text.Blank(prompt) {
				prompt = goal
			}
			in := args{"goal": goal, "prompt": prompt}.with("code", code).with("type", typ).with("agent", agent).
				with("model", model).with("effort", effort).with("base", base).with("tags", tags)
			if c.Flags().Changed("parent") {
				in["parent"] = parent
			}
			raw, err := e.call(c.Context(), "createTask", in)
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Created) error {
				if err := e.printf("Created %s (%s), from %s, in backlog.\n", line(out.Code), out.TaskID.Short(), line(out.CutFrom)); err != nil {
					return err
				}
				return e.printf("Start it with: lazy start %s\n", line(out.Code))
			})
		},
	}
	f := c.Flags()
	f.StringVar(&goal, "goal", "", "what is to be achieved, in one line")
	f.StringVar(&prompt, "prompt", "", "what the agent is asked to do; - reads standard input")
	f.StringVar(&code, "code", "", "short name of the task; made from the goal by default")
	f.StringVar(&typ, "type", "", "type label")
	f.StringVar(&parent, "parent", "", "task it is a subtask of; \"\" for the top level")
	f.StringVar(&agent, "agent", "", "agent to run it; the project's by default")
	f.StringVar(&model, "model", "", "model for the agent")
	f.StringVar(&effort, "effort", "", "effort for the agent")
	f.StringVar(&base, "base", "", "branch to start from and to merge into; the one checked out by default")
	f.StringSliceVar(&tags, "tag", nil, "label; may be repeated")
	f.Bool("yes", false, "answer every question with its default")
	e.jsonFlag(c)
	return c
}
