package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func (e *Env) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			if e.json {
				raw, err := json.Marshal(struct {
					Version string `json:"version"`
					Build   Build  `json:"build"`
				}{e.Version, e.Build})
				if err != nil {
					return fmt.Errorf("print version: %w", err)
				}
				return e.printJSON(raw)
			}
			built := e.Build.Go + " " + e.Build.OS + "/" + e.Build.Arch
			if e.Build.Revision != "" {
				built = short(e.Build.Revision) + ", " + built
			}
			return e.printf("lazy %s (%s)\n", e.Version, built)
		},
	}
	e.jsonFlag(c)
	return c
}
