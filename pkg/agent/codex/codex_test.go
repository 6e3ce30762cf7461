package codex_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/agenttest"
	"github.com/lazyplane/lazyplane/pkg/agent/codex"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestRecordedRunsOfTwoVersionsTellTheSame(t *testing.T) {
	req.Covers(t, "FC-001", "FC-020")
	classes := map[string]turn.Class{"401": turn.FatalAuth, "429": turn.Overload, "overload": turn.Overload}
	versions := agenttest.Recorded(t, func(t *testing.T, _, name string, output []byte) {
		told := agenttest.Read(codex.Driver{}, agent.Launch{Model: "gpt-5.2"}, output)
		if told.Session != "00000000-0000-4000-8000-000000000001" {
			t.Errorf("session %q", told.Session)
		}
		if name == "work" {
			if told.Text != "All done." || told.Steps < 3 || !slices.Equal(told.Tools, []string{"shell"}) || told.Said != nil {
				t.Errorf("told %+v", told)
			}
			if len(told.Usage) != 1 || told.Usage[0].Model != "gpt-5.2" || told.Usage[0].Input != 600 || told.Usage[0].Output != 30 || told.Usage[0].CacheRead != 300 {
				t.Errorf("usage %+v", told.Usage)
			}
			return
		}
		f := codex.Driver{}.Classify(agent.End{Code: 1, Said: told.Said})
		if f == nil || f.Class != classes[name] || f.Reason == "" {
			t.Errorf("said %+v, classified %+v", told.Said, f)
		}
	})
	oldest, newest := codex.Driver{}.Versions()
	if len(versions) < 2 || !versions[oldest] || !versions[newest] {
		t.Errorf("recorded are %v", versions)
	}
}

func TestWarningsAndNewItemsAreNoFailures(t *testing.T) {
	told := agenttest.Read(codex.Driver{}, agent.Launch{}, []byte(`{"type":"item.completed","item":{"id":"1","type":"error","message":"Model metadata not found"}}
{"type":"item.completed","item":{"type":"dance"}}
{"type":"turn.paused"}
{"type":"item.completed","item":{"id":"2","type":"mcp_tool_call","server":"lazy-agent","tool":"lazy_commit","status":"completed"}}
`))
	if told.Said != nil || told.Steps != 1 || !slices.Equal(told.Tools, []string{"lazy_commit"}) {
		t.Errorf("told %+v", told)
	}
}

func TestAnAnswerPassedOnWholeIsReadForItsMessage(t *testing.T) {
	told := agenttest.Read(codex.Driver{}, agent.Launch{}, []byte(`{"type":"turn.failed","error":{"message":"{\"error\":{\"code\":null,\"message\":\"the request is not valid\",\"type\":\"invalid_request_error\"}}"}}`))
	if told.Said == nil || told.Said.Class != turn.FatalConfig || told.Said.Reason != "the request is not valid" {
		t.Errorf("told %+v", told.Said)
	}
}

func TestEverythingIsInOneConfigurationFile(t *testing.T) {
	req.Covers(t, "CM-031")
	for mode, sealed := range map[string]bool{"danger-full-access": true, "read-only": false} {
		p := agenttest.Plan(t, codex.Driver{}, func(l *agent.Launch) {
			l.Model, l.Effort, l.ReadOnly = `m"\1`, "high", true
			l.Sealed = sealed
			l.Tools.Args = []string{"mcp", "--worktree", "/a \"b\"\n\\c"}
		})
		if len(p.Files) != 1 || p.Files[0].Path != "codex/config.toml" || p.Files[0].Mode != 0o600 {
			t.Fatalf("files %+v", p.Files)
		}
		var c struct {
			Model    string `toml:"model"`
			Effort   string `toml:"model_reasoning_effort"`
			Sandbox  string `toml:"sandbox_mode"`
			Approval string `toml:"approval_policy"`
			Provider string `toml:"model_provider"`
			Updates  bool   `toml:"check_for_update_on_startup"`
			Models   map[string]struct {
				URL  string `toml:"base_url"`
				Key  string `toml:"env_key"`
				Wire string `toml:"wire_api"`
			} `toml:"model_providers"`
			Analytics struct {
				Enabled bool `toml:"enabled"`
			} `toml:"analytics"`
			Servers map[string]struct {
				Command string   `toml:"command"`
				Args    []string `toml:"args"`
				Env     []string `toml:"env_vars"`
			} `toml:"mcp_servers"`
		}
		if err := toml.Unmarshal(p.Files[0].Data, &c); err != nil {
			t.Fatalf("%v:\n%s", err, p.Files[0].Data)
		}
		m, s := c.Models[c.Provider], c.Servers["lazy-agent"]
		if c.Model != `m"\1` || c.Effort != "high" || c.Sandbox != mode || c.Approval != "never" || c.Updates || c.Analytics.Enabled ||
			m.URL != "http://127.0.0.1:4000/v1" || m.Key != codex.EnvKey || m.Wire != "responses" ||
			s.Command != "lazy-agent" || s.Args[2] != "/a \"b\"\n\\c" || !slices.Contains(s.Env, "LAZY_SOCKET") {
			t.Errorf("configuration %+v", c)
		}
		if !slices.Contains(p.Env, codex.EnvKey+"=placeholder") || !slices.Contains(p.Env, "CODEX_HOME=/own/codex") || strings.Contains(string(p.Files[0].Data), "placeholder") {
			t.Errorf("environment %v", p.Env)
		}
	}
}

func TestAConversationIsResumedByItsName(t *testing.T) {
	p := agenttest.Plan(t, codex.Driver{}, nil)
	if got := strings.Join(p.Argv, " "); got != "codex exec --json --skip-git-repo-check -" || p.Stdin != "do it" {
		t.Errorf("started as %q", got)
	}
	p = agenttest.Plan(t, codex.Driver{}, func(l *agent.Launch) { l.Session, l.Program = "th1", "/opt/codex" })
	if got := strings.Join(p.Argv, " "); got != "/opt/codex exec resume --json --skip-git-repo-check th1 -" {
		t.Errorf("resumed as %q", got)
	}
}
