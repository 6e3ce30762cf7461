package cli

import (
	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
)

func (e *Env) whoamiCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "whoami",
		Short: "Print who you are to the control plane",
		Args:  exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			raw, err := e.call(c.Context(), "whoAmI", args{})
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Identity) error {
				return e.printf("%s (%s) on project %s of %s\n", line(out.Shown), line(string(out.Kind)), line(out.Project), line(out.Tenant))
			})
		},
	}
	e.jsonFlag(c)
	return c
}
