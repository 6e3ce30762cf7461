package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/text"
)

func (e *Env) protectCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "protect",
		Short: "Say which files an agent's change of is yours to approve",
		Long: "A change of a protected file keeps a task from being accepted until the accept names that file with\n" +
			"--approve-file. The rules are a record of the project: lazy.toml's [protection] is read once, when the\n" +
			"project begins, and merging another one changes nothing.",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	list := &cobra.Command{
		Use: "list", Short: "List the rules in force and who made them", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return e.protection(c, "showProtection", args{}) },
	}
	add := &cobra.Command{
		Use: "add PATH...", Short: "Protect files from now on",
		Example: "  lazy protect add infra/** go.mod",
		Args:    patterns,
		RunE: func(c *cobra.Command, words []string) error {
			return e.protection(c, "setProtection", args{"add": words})
		},
	}
	rm := &cobra.Command{
		Use: "rm PATH...", Short: "Do not protect files any more; name rules as they are listed",
		Args: patterns, ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			return e.protection(c, "setProtection", args{"remove": words})
		},
	}
	for _, sub := range []*cobra.Command{list, add, rm} {
		e.jsonFlag(sub)
		c.AddCommand(sub)
	}
	return c
}

// patterns admits one or more arguments, none of them blank.
func patterns(c *cobra.Command, words []string) error {
	if len(words) == 0 {
		return usage(c, "PATH is missing")
	}
	if slices.ContainsFunc(words, text.Blank) {
		return usage(c, "PATH is empty")
	}
	return nil
}

// protection asks or changes the rules, and prints those in force.
func (e *Env) protection(c *cobra.Command, command string, in args) error {
	raw, err := e.call(c.Context(), command, in)
	if err != nil {
		return err
	}
	return show(e, raw, func(out op.ProtectionRules) error {
		if len(out.Rules) == 0 {
			if err := e.printf("Nothing is protected.\n"); err != nil {
				return err
			}
		}
		wide := 0
		for _, r := range out.Rules {
			wide = max(wide, len(line(r.Path)))
		}
		for _, r := range out.Rules {
			p := line(r.Path)
			by := "by " + line(r.ByText)
			if r.By.Role == identity.System {
				by = "from lazy.toml"
			}
			if err := e.printf("%s%s  %s, %s\n", p, strings.Repeat(" ", wide-len(p)), by, e.ago(r.At)); err != nil {
				return err
			}
		}
		if len(out.OnlyFile) > 0 {
			return e.printf("Not in force, though lazy.toml names it: %s\nTo protect it: lazy protect add PATH\n", line(strings.Join(out.OnlyFile, ", ")))
		}
		return nil
	})
}
