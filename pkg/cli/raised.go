package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
)

func raisedLine(it op.RaisedShown) string {
	s := line(it.RaisedID) + "  "
	if it.Blocking && it.State == "open" {
		s += "[blocking] "
	}
	s += line(it.Title)
	if it.Resolution != nil {
		s += "  – " + line(it.Resolution.Action)
		if it.Resolution.Response != "" {
			s += ": " + line(it.Resolution.Response)
		}
	}
	return s
}

func (e *Env) raisedCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "raised",
		Short: "Triage what agents raised for others to decide",
		Args:  exactly(),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.raisedList(), e.raisedShow(), e.raisedRespond(), e.raisedPromote(), e.raisedDismiss(), e.raisedBlocking())
	return c
}

func (e *Env) raisedList() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use:   "list [TASK]",
		Short: "List open items, of one task or of all",
		Args:  between(0, 1, "the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			in := args{}
			if len(words) == 1 {
				in["task_id"] = words[0]
			}
			if all {
				in["state"] = "all"
			} else {
				in["state"] = "open"
			}
			raw, err := e.call(c.Context(), "listRaised", in)
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.RaisedList) error {
				if len(out.Items) == 0 {
					return e.printf("Nothing is raised.\n")
				}
				var rows [][]string
				for _, it := range out.Items {
					kind := ""
					if it.Blocking {
						kind = "blocking"
					}
					rows = append(rows, []string{it.RaisedID, it.TaskCode, it.State, kind, it.Title})
				}
				return e.printf("%s", e.table([]string{"ID", "TASK", "STATE", "KIND", "TITLE"}, rows))
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also the items that are resolved")
	e.jsonFlag(c)
	return c
}

func (e *Env) raisedShow() *cobra.Command {
	c := &cobra.Command{
		Use:   "show ITEM",
		Short: "Show one item",
		Args:  exactly("the item"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			raw, err := e.call(c.Context(), "showRaised", args{"raised_id": words[0]})
			if err != nil {
				return err
			}
			return show(e, raw, func(it op.RaisedShown) error { return e.printf("%s", e.itemText(it)) })
		},
	}
	e.jsonFlag(c)
	return c
}

func (e *Env) itemText(it op.RaisedShown) string {
	r := recordPrinter{e: e, full: true}
	r.line("%s", raisedLine(it))
	r.field("task", it.TaskCode+" "+it.TaskID.Short())
	r.field("state", it.State)
	r.field("by", it.ByText)
	r.text(it.Body, "  ", it.Cut)
	if it.Proposed != "" {
		r.heading("Proposed prompt")
		r.text(it.Proposed, "  ", false)
	}
	return r.b.String()
}

// resolve decides one item and reports what became of it.
func (e *Env) resolve(ctx context.Context, word, done string, in args) error {
	in["raised_id"] = word
	raw, err := e.call(ctx, "resolveRaised", args{"raised_resolutions": []args{in}})
	if err != nil {
		return err
	}
	return show(e, raw, func(out op.Resolutions) error {
		for _, it := range out.Items {
			if it.Code != "" {
				done += ", " + it.Code + " in backlog"
			}
		}
		return e.printf("%s: %s.\n", line(word), line(done))
	})
}

func (e *Env) raisedRespond() *cobra.Command {
	message := ""
	c := &cobra.Command{
		Use:   "respond ITEM",
		Short: "Answer an item; the answer reaches the agent with its next turn",
		Args:  exactly("the item"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			answer, err := e.words(c.Context(), "answer", message, c.Flags().Changed("message"), "Item "+words[0])
			if err != nil {
				return err
			}
			if err := required("answer", answer, "--message"); err != nil {
				return err
			}
			return e.resolve(c.Context(), words[0], "answered", args{"action": "respond", "response": answer})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "the answer; - reads standard input")
	e.jsonFlag(c)
	return c
}

func (e *Env) raisedPromote() *cobra.Command {
	as, goal, prompt := "", "", ""
	c := &cobra.Command{
		Use:   "promote ITEM --as subtask|peer",
		Short: "Make a task of an item; it is not started",
		Args:  exactly("the item"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if as != "subtask" && as != "peer" {
				return usage(c, "--as expects subtask or peer, got %q", as)
			}
			in := args{"action": "promote_" + as}.with("goal", goal).with("prompt", prompt)
			return e.resolve(c.Context(), words[0], "promoted as a "+as, in)
		},
	}
	c.Flags().StringVar(&as, "as", "", "subtask of the task that raised it, or peer beside it")
	c.Flags().StringVar(&goal, "goal", "", "goal of the new task; the item's title by default")
	c.Flags().StringVar(&prompt, "prompt", "", "prompt of the new task; the item's proposal by default")
	e.jsonFlag(c)
	return c
}

func (e *Env) raisedDismiss() *cobra.Command {
	c := &cobra.Command{
		Use:   "dismiss ITEM",
		Short: "Dismiss an item",
		Args:  exactly("the item"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			return e.resolve(c.Context(), words[0], "dismissed", args{"action": "dismiss"})
		},
	}
	e.jsonFlag(c)
	return c
}

func (e *Env) raisedBlocking() *cobra.Command {
	c := &cobra.Command{
		Use:   "blocking ITEM on|off",
		Short: "Say whether an item holds accept",
		Args:  exactly("the item", "on or off"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if words[1] != "on" && words[1] != "off" {
				return usage(c, "expected on or off, got %q", words[1])
			}
			raw, err := e.call(c.Context(), "setRaisedBlocking", args{"raised_id": words[0], "blocking": words[1] == "on"})
			if err != nil {
				return err
			}
			return show(e, raw, func(op.Resolutions) error {
				return e.printf("%s: blocking is %s.\n", line(words[0]), words[1])
			})
		},
	}
	e.jsonFlag(c)
	return c
}
