package codex

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// dir is what Codex has below the agent's own directory.
const dir = "codex"

// EnvKey is the variable that the configuration names for the key.
const EnvKey = "LAZY_MODEL_KEY"

// Plan starts it with the prompt on its stdin. All else is in its configuration
// file, because `exec` and `exec resume` do not take the same switches.
func (d Driver) Plan(l agent.Launch) (agent.Plan, error) {
	program := l.Program
	if program == "" {
		program = d.Install().Program
	}
	p := agent.Plan{Argv: []string{program, "exec"}, Stdin: l.Prompt}
	if l.Session != "" {
		p.Argv = append(p.Argv, "resume")
	}
	p.Argv = append(p.Argv, "--json", "--skip-git-repo-check")
	if l.Home != "" {
		p.Env = append(p.Env, "CODEX_HOME="+filepath.Join(l.Home, dir))
		p.Files = []agent.File{{Path: dir + "/config.toml", Mode: 0o600, Data: []byte(configuration(l))}}
	}
	if l.Key != "" {
		p.Env = append(p.Env, EnvKey+"="+l.Key)
	}
	if l.Session != "" {
		p.Argv = append(p.Argv, l.Session)
	}
	p.Argv = append(p.Argv, "-")
	return p, nil
}

// toolSeconds is longer than any tool of ours is held: a wait reports progress
// and comes back by itself.
const toolSeconds = 7200

// configuration is config.toml. Nobody is there to approve anything, and the
// sandbox around all of it is the boundary: Codex's own would need namespaces that
// there are none of inside, and nothing it starts could run. In a read-only turn
// the workspace cannot be written to (see Guards); where there is no sandbox
// around it, its own does that.
func configuration(l agent.Launch) string {
	var b strings.Builder
	set := func(key, value string) { fmt.Fprintf(&b, "%s = %s\n", key, value) }
	mode := "danger-full-access"
	if l.ReadOnly && !l.Sealed {
		mode = "read-only"
	}
	set("sandbox_mode", text.TOML(mode))
	set("approval_policy", text.TOML("never"))
	set("check_for_update_on_startup", "false")
	if l.Model != "" {
		set("model", text.TOML(l.Model))
	}
	if l.Effort != "" {
		set("model_reasoning_effort", text.TOML(l.Effort))
	}
	if l.Gateway != "" {
		set("model_provider", text.TOML("lazy"))
		b.WriteString("\n[model_providers.lazy]\n")
		set("name", text.TOML("OpenAI through the gateway of lazy"))
		set("base_url", text.TOML(strings.TrimSuffix(l.Gateway, "/")+"/v1"))
		set("env_key", text.TOML(EnvKey))
		set("wire_api", text.TOML("responses"))
		// The supervisor paces retries where people can see them.
		set("request_max_retries", "1")
		set("stream_max_retries", "1")
	}
	b.WriteString("\n[analytics]\n")
	set("enabled", "false")
	b.WriteString("\n[shell_environment_policy]\n")
	set("inherit", text.TOML("all"))
	set("exclude", list([]string{EnvKey}))
	if l.Tools.Name != "" {
		fmt.Fprintf(&b, "\n[mcp_servers.%s]\n", text.TOML(l.Tools.Name))
		set("command", text.TOML(l.Tools.Command))
		set("args", list(l.Tools.Args))
		// Codex starts servers with an environment of its own choice.
		set("env_vars", list([]string{names.EnvSocket, names.EnvTask, names.EnvTaskCode, names.EnvTurnKind, names.EnvReadOnly}))
		set("startup_timeout_sec", "60")
		set("tool_timeout_sec", strconv.Itoa(toolSeconds))
		// A read-only turn is served reads only, by the supervisor and again by
		// the control plane, so there is nothing left to ask about.
		set("default_tools_approval_mode", text.TOML("approve"))
	}
	return b.String()
}

func list(items []string) string {
	q := make([]string, len(items))
	for i, s := range items {
		q[i] = text.TOML(s)
	}
	return "[" + strings.Join(q, ", ") + "]"
}
