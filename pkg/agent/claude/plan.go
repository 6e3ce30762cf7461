package claude

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/agent"
)

// dir is what Claude Code has below the agent's own directory.
const dir = "claude"

// denied are the tools that a read-only turn takes away by name, besides what
// plan mode refuses (AG-010).
func denied() []string {
	return []string{"Edit", "MultiEdit", "Write", "NotebookEdit", "Task", "EnterWorktree", "CronCreate", "ScheduleWakeup", "Workflow", "ExitPlanMode"}
}

// Plan starts it with the prompt on its stdin. The sandbox is the boundary, so
// nothing is asked inside it; a read-only turn is in plan mode.
func (d Driver) Plan(l agent.Launch) (agent.Plan, error) {
	program := l.Program
	if program == "" {
		program = d.Install().Program
	}
	p := agent.Plan{
		Argv:  []string{program, "-p", "--output-format", "stream-json", "--verbose", "--mcp-config", l.MCP, "--strict-mcp-config"},
		Env:   environment(l),
		Stdin: l.Prompt,
	}
	if l.ReadOnly {
		p.Argv = append(p.Argv, "--permission-mode", "plan", "--permission-prompts", "none", "--disallowedTools")
		p.Argv = append(p.Argv, denied()...)
	} else {
		p.Argv = append(p.Argv, "--dangerously-skip-permissions")
	}
	if l.Model != "" {
		p.Argv = append(p.Argv, "--model", l.Model)
	}
	if l.Effort != "" {
		p.Argv = append(p.Argv, "--effort", l.Effort)
	}
	if l.Session != "" {
		p.Argv = append(p.Argv, "--resume", l.Session)
	}
	settings, err := settings(l)
	if err != nil {
		return agent.Plan{}, err
	}
	if l.Home != "" {
		p.Files = append(p.Files,
			agent.File{Path: dir + "/settings.json", Mode: 0o600, Data: settings},
			// What it remembers of its launches. Nothing of it is needed, and one
			// that is damaged ends or holds up every start.
			agent.File{Path: dir + "/.claude.json", Mode: 0o600, Data: []byte("{}\n")})
	}
	return p, nil
}

func environment(l agent.Launch) []string {
	env := []string{
		"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		// The supervisor paces retries where people can see them; the CLI only
		// rides out a blip.
		"CLAUDE_CODE_MAX_RETRIES=1",
		// The lazy tools are what a turn is about, so they are never deferred.
		"ENABLE_TOOL_SEARCH=false",
	}
	if l.Home != "" {
		env = append(env, "CLAUDE_CONFIG_DIR="+filepath.Join(l.Home, dir))
	}
	if l.Gateway != "" {
		env = append(env, "ANTHROPIC_BASE_URL="+l.Gateway)
	}
	if l.Key != "" {
		env = append(env, "ANTHROPIC_API_KEY="+l.Key)
	}
	if l.Root {
		env = append(env, "IS_SANDBOX=1")
	}
	return env
}

// settings pre-approves the reads of a read-only turn, and nothing else (AG-010).
func settings(l agent.Launch) ([]byte, error) {
	type permissions struct {
		Allow []string `json:"allow,omitempty"`
		Deny  []string `json:"deny,omitempty"`
	}
	s := struct {
		Permissions permissions `json:"permissions"`
	}{}
	if l.ReadOnly {
		for _, t := range l.Tools.Reads {
			s.Permissions.Allow = append(s.Permissions.Allow, "mcp__"+l.Tools.Name+"__"+t)
		}
		s.Permissions.Deny = denied()
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	return b, nil
}
