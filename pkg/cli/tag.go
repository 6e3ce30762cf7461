package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/text"
)

func (e *Env) tagCommand() *cobra.Command {
	c := e.labelCommand("tag TASK TAG...", "Label a task, so that lists find it", "tagTask")
	c.Example = "  lazy tag fix release urgent\n  lazy list --tag release"
	return c
}

func (e *Env) untagCommand() *cobra.Command {
	return e.labelCommand("untag TASK TAG...", "Take labels off a task", "untagTask")
}

func (e *Env) labelCommand(use, short, command string) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, ValidArgsFunction: noFiles,
		Args: func(c *cobra.Command, words []string) error {
			for i, name := range []string{"the task", "the tag"} {
				if len(words) <= i || text.Blank(words[i]) {
					return usage(c, "%s is missing", name)
				}
			}
			return nil
		},
		RunE: func(c *cobra.Command, words []string) error {
			raw, err := e.call(c.Context(), command, args{"task_id": words[0], "tags": words[1:]})
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Tagged) error {
				if len(out.Tags) == 0 {
					return e.printf("%s has no tags.\n", line(out.Code))
				}
				return e.printf("%s is tagged %s.\n", line(out.Code), line(strings.Join(out.Tags, ", ")))
			})
		},
	}
	e.jsonFlag(c)
	return c
}
