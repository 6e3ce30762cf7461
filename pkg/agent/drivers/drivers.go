// Package drivers lists the agent drivers there are.
package drivers

import (
	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/claude"
	"github.com/lazyplane/lazyplane/pkg/agent/codex"
	"github.com/lazyplane/lazyplane/pkg/agent/command"
	"github.com/lazyplane/lazyplane/pkg/agent/opencode"
)

// Drivers returns every driver, each once.
func Drivers() []agent.Driver {
	return []agent.Driver{command.Driver{}, claude.Driver{}, codex.Driver{}, opencode.Driver{}}
}

// Installed returns the drivers of CLIs that people install.
func Installed() []agent.Installed {
	var all []agent.Installed
	for _, d := range Drivers() {
		if i, ok := d.(agent.Installed); ok {
			all = append(all, i)
		}
	}
	return all
}

// Find returns the driver of an agent id. A project may name an agent as it
// likes; what has argv and no driver of its own is a command.
func Find(id string, argv []string) (agent.Driver, bool) {
	for _, d := range Drivers() {
		if d.ID() == id {
			return d, true
		}
	}
	if len(argv) > 0 {
		return command.Driver{}, true
	}
	return nil, false
}

// Provider asks an agent's driver which service it spends a credential at with a
// model. An agent that only a project knows is a command, which needs none.
func Provider(agent, model string) string {
	d, ok := Find(agent, []string{agent})
	if !ok {
		return ""
	}
	return d.Provider(model)
}
