// Package statemachines carries the flow definitions inside the program, so that
// a laptop runs the very files that are deployed.
package statemachines

import (
	"embed"
	"fmt"
)

//go:embed *.asl.json asl-subset.schema.json
var files embed.FS

// Names lists the flows.
func Names() []string { return []string{"turn", "recovery", "accept"} }

// Source returns the text of a flow's definition, with its ${…} substitutions
// still to be made.
func Source(name string) ([]byte, error) {
	b, err := files.ReadFile(name + ".asl.json")
	if err != nil {
		return nil, fmt.Errorf("read the definition of flow %s: %w", name, err)
	}
	return b, nil
}

// Schema returns the JSON schema of the subset, for tools that check the files
// without this program.
func Schema() ([]byte, error) {
	b, err := files.ReadFile("asl-subset.schema.json")
	if err != nil {
		return nil, fmt.Errorf("read the schema of the subset: %w", err)
	}
	return b, nil
}
