package opencode

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
)

// dir is what OpenCode has below the agent's own directory.
const dir = "opencode"

// DefaultModel is used when the project names none: OpenCode itself would take
// whatever its list has first.
const DefaultModel = "claude-sonnet-5"

// Plan starts it with the prompt on its stdin.
func (d Driver) Plan(l agent.Launch) (agent.Plan, error) {
	program := l.Program
	if program == "" {
		program = d.Install().Program
	}
	provider, name := split(l.Model)
	if name == "" {
		name = DefaultModel
	}
	conf, err := configuration(l, provider, name)
	if err != nil {
		return agent.Plan{}, err
	}
	p := agent.Plan{
		Argv: []string{program, "run", "--format", "json", "--model", provider + "/" + name},
		Env: []string{
			"OPENCODE_CONFIG_CONTENT=" + conf,
			"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_SHARE=1",
			"OPENCODE_DISABLE_TERMINAL_TITLE=1",
		},
		Stdin: l.Prompt,
	}
	if l.ReadOnly {
		p.Argv = append(p.Argv, "--agent", "plan")
	} else {
		p.Argv = append(p.Argv, "--auto")
	}
	if l.Effort != "" {
		p.Argv = append(p.Argv, "--variant", l.Effort)
	}
	if l.Session != "" {
		p.Argv = append(p.Argv, "--session", l.Session)
	}
	if l.Home != "" {
		at := filepath.Join(l.Home, dir)
		p.Env = append(p.Env, "XDG_DATA_HOME="+at+"/data", "XDG_CONFIG_HOME="+at+"/config", "XDG_STATE_HOME="+at+"/state", "XDG_CACHE_HOME="+at+"/cache")
	}
	return p, nil
}

type object = map[string]any

// configuration is the inline configuration. Nobody is there to approve anything;
// a read-only turn is OpenCode's plan agent, without what could write (AG-010).
func configuration(l agent.Launch, provider, name string) (string, error) {
	c := object{
		"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled",
		"model": provider + "/" + name, "small_model": provider + "/" + name,
		"enabled_providers": []string{provider},
	}
	if l.Gateway != "" {
		p := object{
			"options": object{"baseURL": strings.TrimSuffix(l.Gateway, "/") + "/v1", "apiKey": l.Key},
			"models":  object{name: object{}},
		}
		if provider == providerChat {
			p["npm"], p["name"] = "@ai-sdk/openai-compatible", "OpenAI, Chat Completions"
			p["models"] = object{name: object{"name": name}}
		}
		c["provider"] = object{provider: p}
	}
	if l.Tools.Name != "" {
		c["mcp"] = object{l.Tools.Name: object{
			"type": "local", "command": append([]string{l.Tools.Command}, l.Tools.Args...), "enabled": true, "timeout": 7_200_000,
		}}
	}
	if l.ReadOnly {
		deny := object{"edit": "deny", "bash": "deny", "task": "deny", "todowrite": "allow", "external_directory": "deny", "question": "deny"}
		c["permission"] = deny
		c["agent"] = object{"plan": object{"permission": deny}}
		c["tools"] = object{"bash": false, "write": false, "edit": false, "patch": false, "apply_patch": false, "task": false}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode configuration: %w", err)
	}
	return string(b), nil
}
