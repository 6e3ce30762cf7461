package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
)

func (e *Env) commentCommand() *cobra.Command {
	message, edit := "", ""
	c := &cobra.Command{
		Use:   "comment TASK [TEXT]",
		Short: "Queue an instruction for the task's next turn; nothing is started",
		Long: "comment queues words that the agent reads with its next work prompt, whatever starts that turn.\n" +
			"Without TEXT they come from --message, standard input or your editor. --edit changes a comment that\n" +
			"has not reached the agent yet.",
		Args: firstThen("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			given := c.Flags().Changed("message")
			if len(words) > 1 {
				if given {
					return usage(c, "the text is given twice, as an argument and with --message")
				}
				message, given = strings.Join(words[1:], " "), true
			}
			said, err := e.words(c.Context(), "comment", message, given, "It reaches the agent of "+words[0]+" with its next turn.")
			if err != nil {
				return err
			}
			if err := required("comment", said, "--message"); err != nil {
				return err
			}
			command, in := "addComment", args{"task_id": words[0], "message": said}
			if edit != "" {
				command = "editComment"
				in["comment_id"] = edit
			}
			raw, err := e.call(c.Context(), command, in)
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Commented) error {
				return e.printf("Comment %s on %s: %s.\n", line(out.CommentID), line(out.Code), line(out.Delivery))
			})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "the text; - reads standard input")
	c.Flags().StringVar(&edit, "edit", "", "id of a comment to change instead")
	e.jsonFlag(c)
	return c
}
