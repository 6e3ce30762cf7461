// Package config reads what a person sets: lazy.toml at the root of a
// repository, and the environment that says where state lies. It reports every
// problem at once, and a setting nobody would change is a constant here.
package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// File is the name of a project's configuration at the root of its repository.
const File = "lazy.toml"

// Values of publish: when a task's branch is published to the forge (PR-014).
const (
	PublishSubmit = "submit"
	PublishTurn   = "turn"
)

// Values of network besides "allow:host,…".
const (
	NetworkOpen  = "open"
	NetworkNone  = "none"
	NetworkAllow = "allow:"
)

// CommandAgent is the agent that runs any program: [agents.command] names it.
const CommandAgent = "command"

// Project is one repository's lazy.toml with its defaults filled in.
type Project struct {
	Name      string
	Agent     string // id of the default agent
	Watchdog  time.Duration
	Agents    map[string]Agent
	Setup     string
	Copy      []string
	Network   string
	Limits    Limits
	Publish   string
	Protected []string
	TurnAge   time.Duration
	TinyLines int
	TinyFiles int
	// UsagePause is the percent of a subscription's window at which nothing new
	// starts on it; 0 is off.
	UsagePause int
	// TokenBudget is how many tokens the turns of one task may spend in all; 0 is
	// no bound.
	TokenBudget int64
}

// Limits are what the processes of one task may use together; zero is no limit.
type Limits struct {
	Processes   int64
	MemoryBytes int64
	DiskBytes   int64
	OpenFiles   int64 // of each process
}

// DefaultLimits leave room for a large build and stop what would take the machine
// with it.
func DefaultLimits() Limits {
	return Limits{Processes: 4096, MemoryBytes: 32 << 30, DiskBytes: 64 << 30, OpenFiles: 65536}
}

// Agent is a registered agent: a program and its environment.
type Agent struct {
	Command []string
	Env     map[string]string
}

// Defaults is a project whose lazy.toml says nothing.
func Defaults() Project {
	return Project{
		Agent:     CommandAgent,
		Watchdog:  names.Watchdog,
		Agents:    map[string]Agent{},
		Network:   NetworkOpen,
		Limits:    DefaultLimits(),
		Publish:   PublishSubmit,
		TurnAge:   names.TurnAge,
		TinyLines: names.TinyDiffLines,
		TinyFiles: names.TinyDiffFiles,

		UsagePause: names.UsagePause,
	}
}

// LoadProject reads the lazy.toml at path. Its error lists every problem.
func LoadProject(path string) (Project, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Project{}, fault.Wrap(fault.Invalid, err, "%s cannot be read", path).
			WithNext("Run `lazy init` at the root of the repository.")
	}
	p, problems := ParseProject(b)
	if len(problems) > 0 {
		return Project{}, fault.New(fault.Invalid, "%s is not valid:\n  %s", path, strings.Join(problems, "\n  ")).
			WithDetail("problems", problems).
			WithNext("Correct the file; nothing was started.")
	}
	if p.Name == "" {
		p.Name = filepath.Base(filepath.Dir(path))
	}
	return p, nil
}

// ParseProject reads the text of a lazy.toml and lists everything wrong with it.
func ParseProject(text []byte) (Project, []string) {
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return Project{}, []string{syntax(err)}
	}
	p := Defaults()
	var r reader
	top := r.table("", tree)
	r.text(top, "network", &p.Network)
	r.text(top, "publish", &p.Publish)
	r.section(top, "project", func(t table) {
		r.text(t, "name", &p.Name)
	})
	r.section(top, "agent", func(t table) {
		r.text(t, "agent_id", &p.Agent)
		r.millis(t, "watchdog_output_timeout_ms", &p.Watchdog)
		r.tokens(t, "token_budget", &p.TokenBudget)
	})
	r.section(top, "agents", func(t table) {
		for _, id := range t.names() {
			r.section(t, id, func(a table) {
				var g Agent
				r.texts(a, "command", &g.Command)
				r.textMap(a, "env", &g.Env)
				switch {
				case slices.Contains(names.AgentCLIs(), id):
					if len(g.Command) > 0 {
						r.problem(a.path("command"), fmt.Sprintf("%s is started by lazy itself; call an agent with a command of its own something else", id))
					}
				case len(g.Command) == 0 || strings.TrimSpace(g.Command[0]) == "":
					r.problem(a.path("command"), "expected a program and its arguments, for example [\"./agent.sh\"]")
				}
				p.Agents[id] = g
			})
		}
	})
	r.section(top, "workspace", func(t table) {
		r.text(t, "setup", &p.Setup)
		r.texts(t, "copy", &p.Copy)
		for _, c := range p.Copy {
			if !filepath.IsLocal(c) {
				r.problem(t.path("copy"), fmt.Sprintf("%q leaves the repository; expected paths relative to its root", c))
			}
		}
	})
	r.section(top, "protection", func(t table) { r.texts(t, "paths", &p.Protected) })
	r.section(top, "runner", func(t table) { r.duration(t, "max_turn_age", &p.TurnAge) })
	r.section(top, "limits", func(t table) {
		r.amount(t, "processes", &p.Limits.Processes)
		r.size(t, "memory", &p.Limits.MemoryBytes)
		r.size(t, "disk", &p.Limits.DiskBytes)
		r.amount(t, "open_files", &p.Limits.OpenFiles)
	})
	r.section(top, "accept", func(t table) {
		r.count(t, "tiny_lines", &p.TinyLines)
		r.count(t, "tiny_files", &p.TinyFiles)
	})
	r.section(top, "usage_pause", func(t table) {
		r.count(t, "threshold", &p.UsagePause)
		if p.UsagePause > 100 {
			r.problem(t.path("threshold"), "expected a percentage of 0 to 100; 0 is off")
		}
	})
	r.finish()
	if p.Publish != PublishSubmit && p.Publish != PublishTurn {
		r.problem("publish", fmt.Sprintf("expected %q or %q, got %q", PublishSubmit, PublishTurn, p.Publish))
	}
	if bad := network(p.Network); bad != "" {
		r.problem("network", bad)
	}
	if _, ok := p.Agents[p.Agent]; !ok && !r.has("agents."+p.Agent) && !slices.Contains(names.AgentCLIs(), p.Agent) {
		r.problem("agent.agent_id", fmt.Sprintf("agent %q has no [agents.%s] section that names its command, and is none of %s", p.Agent, p.Agent, strings.Join(names.AgentCLIs(), ", ")))
	}
	return p, r.problems
}

func network(v string) string {
	if v == NetworkOpen || v == NetworkNone {
		return ""
	}
	hosts, ok := strings.CutPrefix(v, NetworkAllow)
	if !ok {
		return fmt.Sprintf("expected %q, %q or \"allow:host,…\", got %q", NetworkOpen, NetworkNone, v)
	}
	for h := range strings.SplitSeq(hosts, ",") {
		if h = strings.TrimSpace(h); h == "" || strings.ContainsAny(h, "/:@* \t\n") {
			return fmt.Sprintf("%q is not a host name; expected names such as \"example.com\", or \".example.com\" for all below it", h)
		}
	}
	return ""
}
