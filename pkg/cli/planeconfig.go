package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/op"
)

// pauseKey is the one runtime setting.
const pauseKey = "usage_pause_threshold"

func (e *Env) planeConfigCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Read and change what the running control plane goes by", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.planeConfigGet(), e.planeConfigSet())
	return c
}

func (e *Env) planeConfigGet() *cobra.Command {
	c := &cobra.Command{
		Use: "get [KEY]", Short: "Print a setting: " + pauseKey, Args: between(0, 1, "the key"), ValidArgs: []string{pauseKey},
		RunE: func(c *cobra.Command, words []string) error {
			if len(words) == 1 && words[0] != pauseKey {
				return usage(c, "there is no setting %q; there is %s", words[0], pauseKey)
			}
			raw, err := e.call(c.Context(), "usageLimits", args{})
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.UsageLimits) error {
				text := "off"
				if out.Pause.Threshold > 0 {
					text = fmt.Sprintf("%g", out.Pause.Threshold)
				}
				for _, p := range out.Pause.Passes {
					text += fmt.Sprintf("\n  off once for %s", line(p.Code))
				}
				if e.TTY(e.Out) && len(out.Pause.Paused) > 0 { // a hint for a person, and for nobody else (US-014)
					text += "\n  let one task through: lazy plane config set " + pauseKey + " off --task TASK"
				}
				return e.printf("%s = %s\n", pauseKey, text)
			})
		},
	}
	e.jsonFlag(c)
	return c
}

func (e *Env) planeConfigSet() *cobra.Command {
	word := ""
	c := &cobra.Command{
		Use: "set KEY VALUE", Short: "Let one task past the usage pause: set " + pauseKey + " off --task TASK",
		Args: exactly("the key", "the value"), ValidArgs: []string{pauseKey},
		RunE: func(c *cobra.Command, words []string) error {
			switch {
			case words[0] != pauseKey:
				return usage(c, "there is no setting %q; there is %s", words[0], pauseKey)
			case words[1] != "off" && words[1] != "on":
				return fault.New(fault.Invalid, "the threshold itself is set in lazy.toml: [usage_pause] threshold").
					WithNext("Here: off lets the next turn of one --task through, on takes that back.")
			case word == "":
				return usage(c, "--task is missing: off lets the next turn of one task through")
			}
			raw, err := e.call(c.Context(), "letTaskPastPause", args{"task_id": word}.with("revoke", words[1] == "on"))
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.LetPast) error {
				if !out.Passes {
					return e.printf("%s waits for the usage pause again.\n", line(out.Code))
				}
				return e.printf("The next turn of %s that the usage pause would stop is let through, once.\n", line(out.Code))
			})
		},
	}
	c.Flags().StringVar(&word, "task", "", "the task whose next turn is let through")
	return c
}
