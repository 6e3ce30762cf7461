package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Reference is docs/cli.md: every command as its own help describes it, so that
// the page cannot drift from the program.
func Reference(e *Env) string {
	var b strings.Builder
	b.WriteString(`# Commands

Generated from the commands' own help; ` + "`UPDATE=1 go test ./pkg/cli`" + ` rewrites it.

Every command takes ` + "`-C DIR`" + `, which works as if started in DIR. Commands with ` + "`--json`" + ` print the operation's answer as
one JSON document on standard output; everything said about the work is then on standard error. A TASK is named by its
code, its short id or its id.

Exit codes: 0 done, 1 failed, 2 refused or wrong usage, 4 not logged in, 5 still running, with the id or the command to
come back with.

A local command finds its project by the ` + "`lazy.toml`" + ` at the root of the repository, and starts the project's control
plane when none runs; ` + "`lazy down`" + ` stops it. LAZY_HOME says where state lies (` + "`~/.lazy`" + ` by default). LAZY_TARGET and LAZY_TOKEN
name a control plane somewhere else and the credential for it; then nothing is started here.
`)
	root := e.root()
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				reference(&b, c)
			}
		}
	}
	return b.String()
}

func reference(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	if c.HasAvailableSubCommands() {
		for _, sub := range c.Commands() {
			reference(b, sub)
		}
		return
	}
	fmt.Fprintf(b, "\n### `%s`\n\n%s.\n", strings.TrimSuffix(c.UseLine(), " [flags]"), strings.TrimSuffix(c.Short, "."))
	if len(c.Parent().Aliases) > 0 {
		fmt.Fprintf(b, "Also `%s %s`.\n", strings.Replace(c.Parent().CommandPath(), c.Parent().Name(), c.Parent().Aliases[0], 1), c.Name())
	}
	if c.Long != "" {
		fmt.Fprintf(b, "\n%s\n", c.Long)
	}
	var flags []string
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, doc := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		flags = append(flags, fmt.Sprintf("- `%s`: %s\n", name, doc))
	})
	if len(flags) > 0 {
		fmt.Fprintf(b, "\n%s", strings.Join(flags, ""))
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.TrimPrefix(strings.ReplaceAll(c.Example, "\n  ", "\n"), "  "))
	}
}
