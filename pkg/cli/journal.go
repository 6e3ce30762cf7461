package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/text"
)

func (e *Env) journalCommand() *cobra.Command {
	message := ""
	c := &cobra.Command{
		Use:   "journal TASK [TEXT]",
		Short: "Read a task's journal, or append a note to it",
		Long: "journal appends a note that others can look up; it reaches no prompt and starts nothing. Without TEXT\n" +
			"it lists the journal.",
		Args: firstThen("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			given := c.Flags().Changed("message")
			if len(words) > 1 {
				if given {
					return usage(c, "the text is given twice, as an argument and with --message")
				}
				message, given = strings.Join(words[1:], " "), true
			}
			if given && message == "-" {
				var err error
				if message, err = e.stdin("note"); err != nil {
					return err
				}
			}
			if !given {
				return e.listJournal(c, words[0])
			}
			if text.Blank(message) {
				return required("note", message, "an argument")
			}
			raw, err := e.call(c.Context(), "addJournal", args{"task_id": words[0], "content": message})
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Journaled) error {
				return e.printf("Entry %d in the journal of %s.\n", out.Index, line(out.Code))
			})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "the note; - reads standard input")
	e.jsonFlag(c)
	return c
}

func (e *Env) listJournal(c *cobra.Command, word string) error {
	raw, err := e.call(c.Context(), "showTask", args{"task_id": word, "sections": []string{"journal"}})
	if err != nil {
		return err
	}
	return show(e, raw, func(out op.Shown) error {
		if out.Journal == nil || len(out.Journal.Items) == 0 {
			return e.printf("The journal of %s is empty.\n", line(out.Code))
		}
		r := recordPrinter{e: e, full: true}
		r.notes(op.Shown{TaskState: out.TaskState, Journal: out.Journal})
		return e.printf("%s", strings.TrimPrefix(r.b.String(), "\n"))
	})
}
