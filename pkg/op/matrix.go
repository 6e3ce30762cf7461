package op

import (
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
)

// Matrix draws the catalogue as docs/callers.md: who may call what, on which
// tasks, how it is refused otherwise. A test fails when the file is stale.
func (c *Catalogue) Matrix() string {
	var b strings.Builder
	b.WriteString("# Who may call what\n\nGenerated from `pkg/op` by `UPDATE=1 go test ./pkg/op`; do not edit.\n\n" +
		"*People* are the credential kinds accepted on `POST /rpc/{command}`. *Builder* and *task agent* are the two\n" +
		"populations of `/mcp`; a task agent meets a relation: **self** is its own task, **child** a direct subtask,\n" +
		"**other** everything else. A *code* makes the tool two calls.\n\n" +
		"| Command | Tool | Effect | People | Builder | Task agent | Code | Done by | Refuses |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, o := range c.ops {
		kinds := make([]string, len(o.People))
		for i, k := range o.People {
			kinds[i] = string(k)
		}
		refuses := make([]string, len(o.Refuses))
		for i, r := range o.Refuses {
			refuses[i] = "`" + string(r) + "`"
		}
		code := ""
		if o.Confirm {
			code = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", tick(o.Name), tick(o.Tool), o.Effect,
			strings.Join(kinds, " "), allowed(o, identity.Builder), allowed(o, identity.Task), code, o.Flow, strings.Join(refuses, " "))
	}
	return b.String()
}

func tick(s string) string {
	if s == "" {
		return "–"
	}
	return "`" + s + "`"
}

func allowed(o Op, k identity.Kind) string {
	if o.Tool == "" {
		return "–"
	}
	if k == identity.Builder {
		if o.Builder {
			return "any"
		}
		return "refused: `" + string(o.Refuse) + "`"
	}
	if !o.Agent {
		return "refused: `" + string(o.Refuse) + "`"
	}
	var reach []string
	for _, r := range []struct {
		bit  app.Reach
		name string
	}{{app.Self, "self"}, {app.Child, "child"}, {app.Other, "other"}} {
		if o.Rule.Agent&r.bit != 0 {
			reach = append(reach, r.name)
		}
	}
	if len(reach) == 0 {
		return "own" // it takes no task argument: the task is the token's
	}
	return strings.Join(reach, ", ")
}
