package claude_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/agenttest"
	"github.com/lazyplane/lazyplane/pkg/agent/claude"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

const session = "00000000-0000-4000-8000-000000000001"

func TestRecordedRunsOfTwoVersionsTellTheSame(t *testing.T) {
	req.Covers(t, "FC-001", "FC-002", "FC-020")
	classes := map[string]turn.Class{"401": turn.FatalAuth, "429": turn.Overload, "overload": turn.Overload}
	versions := agenttest.Recorded(t, func(t *testing.T, _, name string, output []byte) {
		told := agenttest.Read(claude.Driver{}, agent.Launch{}, output)
		if told.Session != session {
			t.Errorf("session %q", told.Session)
		}
		if name == "work" {
			if told.Text != "All done." || told.Steps < 4 || !slices.Equal(told.Tools, []string{"Bash"}) || told.Said != nil {
				t.Errorf("told %+v", told)
			}
			// An early version also asks a small model for a word.
			if u := told.Usage[len(told.Usage)-1]; u.Requests != 2 || u.Input != 600 || u.Output != 30 || u.CacheRead != 300 {
				t.Errorf("usage %+v", told.Usage)
			}
			return
		}
		f := claude.Driver{}.Classify(agent.End{Code: 1, Said: told.Said})
		if f == nil || f.Class != classes[name] || f.Reason == "" {
			t.Errorf("said %+v, classified %+v", told.Said, f)
		}
	})
	oldest, newest := claude.Driver{}.Versions()
	if len(versions) < 2 || !versions[oldest] || !versions[newest] {
		t.Errorf("recorded are %v", versions)
	}
}

func TestAnEventOfALaterVersionIsPassedOver(t *testing.T) {
	told := agenttest.Read(claude.Driver{}, agent.Launch{}, []byte(`{"type":"hologram","subtype":"shown","session_id":"s"}
{"type":"assistant","message":{"content":[{"type":"smell","of":"coffee"},{"type":"text","text":"Here."}],"model":"m","id":"1"},"session_id":"s"}
{"type":"assistant","message":"not an object"}
{"type":"assistant","message":{"content":[{"type":"text","text":"of a helper"}],"model":"m","id":"2"},"parent_tool_use_id":"toolu_1"}
plain words
{"type":"system","subtype":"thinking_tokens","estimated_tokens":7}
`))
	if told.Session != "s" || told.Text != "Here." || told.Said != nil || told.Steps != 2 {
		t.Errorf("told %+v", told)
	}
}

func TestASpentUsageWindowIsWaitedFor(t *testing.T) {
	req.Covers(t, "FC-009")
	told := agenttest.Read(claude.Driver{}, agent.Launch{}, []byte(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","rateLimitType":"five_hour","resetsAt":1796056653}}`))
	if told.Said == nil || told.Said.Class != turn.Overload {
		t.Errorf("told %+v", told.Said)
	}
}

func TestAPlanStartsAndResumesWithoutAskingAnybody(t *testing.T) {
	req.Covers(t, "CM-031")
	p := agenttest.Plan(t, claude.Driver{}, func(l *agent.Launch) { l.Model, l.Effort, l.Root = "opus", "high", true })
	all := agenttest.Whole(p)
	for _, want := range []string{
		"claude -p --output-format stream-json --verbose", "--mcp-config /home/agent/.claude.json --strict-mcp-config", "--dangerously-skip-permissions",
		"--model opus", "--effort high", "IS_SANDBOX=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "DISABLE_ERROR_REPORTING=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "ANTHROPIC_BASE_URL=http://127.0.0.1:4000", "ANTHROPIC_API_KEY=placeholder", "CLAUDE_CONFIG_DIR=/own/claude",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the plan lacks %q:\n%s", want, all)
		}
	}
	if p.Stdin != "do it" || strings.Contains(all, "--resume") || strings.Contains(all, "do it") {
		t.Errorf("the plan:\n%s", all)
	}
	again := agenttest.Plan(t, claude.Driver{}, func(l *agent.Launch) { l.Session, l.Program = "s1", "/opt/claude" })
	if !strings.HasPrefix(agenttest.Whole(again), "/opt/claude -p") || !strings.Contains(agenttest.Whole(again), "--resume s1") {
		t.Errorf("resumed:\n%s", agenttest.Whole(again))
	}
	if bare := agenttest.Plan(t, claude.Driver{}, func(l *agent.Launch) { l.Gateway, l.Key, l.Home = "", "", "" }); len(bare.Files) > 0 || strings.Contains(agenttest.Whole(bare), "ANTHROPIC") {
		t.Errorf("without a gateway:\n%s", agenttest.Whole(bare))
	}
}

func TestAReadOnlyTurnIsInPlanModeWithReadsApproved(t *testing.T) {
	req.Covers(t, "AG-010")
	all := agenttest.Whole(agenttest.Plan(t, claude.Driver{}, func(l *agent.Launch) { l.ReadOnly = true }))
	for _, want := range []string{"--permission-mode plan", "--disallowedTools Edit", "Write", `"allow":["mcp__lazy-agent__lazy_show"]`} {
		if !strings.Contains(all, want) {
			t.Errorf("the plan lacks %q:\n%s", want, all)
		}
	}
	if strings.Contains(all, "dangerously") {
		t.Error("permissions are skipped in a read-only turn")
	}
}
