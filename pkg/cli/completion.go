package cli

import "github.com/spf13/cobra"

func (e *Env) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a completion script for your shell",
		Example:   "  lazy completion bash > ~/.local/share/bash-completion/completions/lazy",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args:      exactly("the shell"),
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(e.Out, true)
			case "zsh":
				return root.GenZshCompletion(e.Out)
			case "fish":
				return root.GenFishCompletion(e.Out, true)
			}
			return usage(c, "expected bash, zsh or fish, got %q", args[0])
		},
	}
}
