package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/refusal"
)

func (e *Env) dashboardCommand() *cobra.Command {
	onlyPrint := false
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Sign a browser in to this project's control plane",
		Long: "Make a link that signs a browser in to this project's control plane, once, and open it. In that browser\n" +
			"you can then let an MCP client work for you. There are no other pages yet.",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := e.inContainer("`lazy dashboard`"); err != nil {
				return err
			}
			if e.elsewhere() != "" {
				return refusal.Of(refusal.LocalOnly, "`lazy dashboard`")
			}
			raw, err := e.call(c.Context(), "mintLoginLink", args{})
			if err != nil {
				return err
			}
			var out struct {
				Link string `json:"link"`
			}
			if err := decode(raw, &out); err != nil {
				return err
			}
			s, err := e.state(c.Context())
			if err != nil {
				return err
			}
			at := strings.TrimRight(s.URL, "/") + out.Link
			if !onlyPrint && e.TTY(e.Out) {
				e.browse(c.Context(), at)
			}
			return e.printf("Open this once, within five minutes:\n\n  %s\n", line(at))
		},
	}
	c.Flags().BoolVar(&onlyPrint, "print", false, "only print the link")
	return c
}
