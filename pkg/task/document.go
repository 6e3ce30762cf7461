package task

import (
	"fmt"
	"strings"
)

// Document draws the table as docs/states.md: a Mermaid diagram of the pairs and
// the full list of edges. A test fails when the file is stale.
func Document() string {
	var b strings.Builder
	b.WriteString("# Statuses and transitions\n\nGenerated from `pkg/task` by `UPDATE=1 go test ./pkg/task`; do not edit.\n\n```mermaid\nstateDiagram-v2\n")
	drawn := map[[2]Status]bool{}
	for _, e := range Edges() {
		pair := [2]Status{e.From, e.To}
		if drawn[pair] {
			continue
		}
		drawn[pair] = true
		from := string(e.From)
		if e.From == None {
			from = "[*]"
		}
		fmt.Fprintf(&b, "    %s --> %s\n", from, e.To)
	}
	b.WriteString("```\n\n| Edge | From | To | Trigger | Who | Unless refused by the guard |\n|---|---|---|---|---|---|\n")
	for _, e := range Edges() {
		on := make([]string, len(e.On))
		for i, t := range e.On {
			on[i] = string(t)
		}
		by := make([]string, len(e.By))
		for i, r := range e.By {
			by[i] = string(r)
		}
		from := e.From.Words()
		if e.From == None {
			from = "(none)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", e.ID, from, e.To.Words(), strings.Join(on, ", "), strings.Join(by, ", "), e.Guard)
	}
	return b.String()
}
