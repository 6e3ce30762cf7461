package cli

import (
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// agents are the CLIs that lazy starts by itself.
func (e *Env) agents() []AgentCLI {
	if e.Agents == nil {
		return nil
	}
	return e.Agents()
}

// agentCLI is the one of that id.
func (e *Env) agentCLI(id string) (AgentCLI, bool) {
	for _, a := range e.agents() {
		if a.ID == id {
			return a, true
		}
	}
	return AgentCLI{}, false
}

// chooseAgent decides which CLI a new project's agent is: the one asked for, else
// one that is installed, which a person at a terminal may change. about is what
// init says of it.
func (e *Env) chooseAgent(asked string) (id, about string, err error) {
	var found []AgentCLI
	var have []string
	for _, a := range e.agents() {
		if a.Found != "" {
			found, have = append(found, a), append(have, a.ID)
		}
	}
	if asked == "" {
		if len(found) == 0 {
			return "", "No agent is set up yet: put its command under [agents.command].\n", nil
		}
		asked = found[0].ID
		if len(found) > 1 && e.TTY(e.In) {
			answer, err := e.ask(fmt.Sprintf("Agents on this machine: %s. Which one works here? [%s] ", strings.Join(have, ", "), asked))
			if err != nil {
				return "", "", err
			}
			if answer != "" {
				asked = answer
			}
		}
	}
	a, ok := e.agentCLI(asked)
	if !ok {
		return "", "", fault.New(fault.Invalid, "there is no agent %q", line(asked)).
			WithNext("Choose one of those that lazy knows, or give any program with --command.")
	}
	if a.Found == "" {
		return a.ID, fmt.Sprintf("Its agent is %s, which is not installed yet: %s\n", a.ID, a.Get), nil
	}
	if len(found) > 0 {
		about = "Agents on this machine: " + strings.Join(have, ", ") + ".\n"
	}
	return a.ID, about + fmt.Sprintf("Its agent is %s; store its model's key once: lazy auth add %s\n", a.ID, a.Service), nil
}
