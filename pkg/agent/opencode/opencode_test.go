package opencode_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/agenttest"
	"github.com/lazyplane/lazyplane/pkg/agent/opencode"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestRecordedRunsOfTwoVersionsTellTheSame(t *testing.T) {
	req.Covers(t, "FC-001", "FC-020")
	versions := agenttest.Recorded(t, func(t *testing.T, _, name string, output []byte) {
		told := agenttest.Read(opencode.Driver{}, agent.Launch{Model: "chat/m1"}, output)
		if !strings.HasPrefix(told.Session, "ses_") {
			t.Errorf("session %q", told.Session)
		}
		if name == "work" {
			if told.Text != "All done." || told.Steps < 4 || !slices.Equal(told.Tools, []string{"bash"}) || told.Said != nil {
				t.Errorf("told %+v", told)
			}
			if len(told.Usage) != 2 || told.Usage[1].Model != "m1" || told.Usage[1].Input != 500 || told.Usage[1].Output != 20 || told.Usage[1].CacheRead != 300 {
				t.Errorf("usage %+v", told.Usage)
			}
			return
		}
		f := opencode.Driver{}.Classify(agent.End{Code: 1, Said: told.Said})
		if f == nil || f.Class != turn.FatalAuth || f.Reason == "" {
			t.Errorf("said %+v, classified %+v", told.Said, f)
		}
	})
	oldest, newest := opencode.Driver{}.Versions()
	if len(versions) < 2 || !versions[oldest] || !versions[newest] {
		t.Errorf("recorded are %v", versions)
	}
}

func TestErrorsAreSortedByStatusNameAndOnlyThenByWords(t *testing.T) {
	req.Covers(t, "FC-001")
	for event, want := range map[string]turn.Class{
		`{"name":"APIError","data":{"message":"slow down","statusCode":429}}`:                                                           turn.Overload,
		`{"name":"APIError","data":{"message":"no","statusCode":503}}`:                                                                  turn.Overload,
		`{"name":"APIError","data":{"message":"no","statusCode":404}}`:                                                                  turn.FatalConfig,
		`{"name":"APIError","data":{"message":"You exceeded your current quota","statusCode":429,"responseBody":"insufficient_quota"}}`: turn.FatalAuth,
		`{"name":"ProviderAuthError","data":{"message":"x"}}`:                                                                           turn.FatalAuth,
		`{"name":"ContentFilterError","data":{"message":"blocked"}}`:                                                                    turn.FatalConfig,
		`{"name":"UnknownError","data":{"message":"Unable to connect. ECONNREFUSED"}}`:                                                  turn.Unreachable,
		`{"name":"UnknownError","data":{"message":"something odd"}}`:                                                                    turn.Unknown,
		`{"name":"NewError"}`: turn.Unknown,
	} {
		told := agenttest.Read(opencode.Driver{}, agent.Launch{}, []byte(`{"type":"error","sessionID":"s","error":`+event+`}`))
		if told.Said == nil || told.Said.Class != want || told.Said.Reason == "" {
			t.Errorf("%s: %+v", event, told.Said)
		}
	}
	if f := (opencode.Driver{}).Classify(agent.End{Code: 0, Said: &turn.Failure{Class: turn.Overload, Reason: "x"}}); f == nil || f.Class != turn.Overload {
		t.Errorf("an error before an end with code 0: %+v", f)
	}
	if f := (opencode.Driver{}).Classify(agent.End{Code: 0}); f != nil {
		t.Errorf("a normal end: %+v", f)
	}
}

func config(t *testing.T, p agent.Plan) map[string]any {
	t.Helper()
	for _, kv := range p.Env {
		if v, ok := strings.CutPrefix(kv, "OPENCODE_CONFIG_CONTENT="); ok {
			var c map[string]any
			if err := json.Unmarshal([]byte(v), &c); err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	t.Fatal("no configuration")
	return nil
}

func TestTheModelsPrefixChoosesTheServiceAndItsFormat(t *testing.T) {
	for in, want := range map[string][3]string{ // as given to the CLI, provider of the credential, package
		"":                          {"anthropic/" + opencode.DefaultModel, "claude", ""},
		"claude-opus-5-5":           {"anthropic/claude-opus-5-5", "claude", ""},
		"anthropic/claude-opus-5-5": {"anthropic/claude-opus-5-5", "claude", ""},
		"gpt-5.2":                   {"openai/gpt-5.2", "codex", ""},
		"openai/gpt-5.2":            {"openai/gpt-5.2", "codex", ""},
		"chat/gpt-4.1":              {"chat/gpt-4.1", "codex", "@ai-sdk/openai-compatible"},
	} {
		p := agenttest.Plan(t, opencode.Driver{}, func(l *agent.Launch) { l.Model = in })
		c := config(t, p)
		name, _, _ := strings.Cut(want[0], "/")
		provider, _ := c["provider"].(map[string]any)[name].(map[string]any)
		options, _ := provider["options"].(map[string]any)
		npm, _ := provider["npm"].(string)
		if c["model"] != want[0] || (opencode.Driver{}).Provider(in) != want[1] || npm != want[2] ||
			options["baseURL"] != "http://127.0.0.1:4000/v1" || options["apiKey"] != "placeholder" || !strings.Contains(strings.Join(p.Argv, " "), "--model "+want[0]) {
			t.Errorf("%q: %v, %v", in, c, p.Argv)
		}
	}
}

func TestAReadOnlyTurnIsThePlanAgentWithoutTheToolsThatWrite(t *testing.T) {
	req.Covers(t, "AG-010")
	p := agenttest.Plan(t, opencode.Driver{}, func(l *agent.Launch) { l.ReadOnly, l.Session = true, "ses_1" })
	argv := strings.Join(p.Argv, " ")
	c := config(t, p)
	deny, _ := c["permission"].(map[string]any)
	if !strings.Contains(argv, "--agent plan") || strings.Contains(argv, "--auto") || !strings.Contains(argv, "--session ses_1") || deny["edit"] != "deny" || deny["bash"] != "deny" {
		t.Errorf("%s %v", argv, c)
	}
	p = agenttest.Plan(t, opencode.Driver{}, nil)
	if argv := strings.Join(p.Argv, " "); !strings.Contains(argv, "--auto") || strings.Contains(argv, "--agent") || config(t, p)["permission"] != nil {
		t.Errorf("a work turn: %s", argv)
	}
	if !slices.Contains(p.Env, "XDG_DATA_HOME=/own/opencode/data") || !slices.Contains(p.Env, "OPENCODE_DISABLE_AUTOUPDATE=1") {
		t.Errorf("environment %v", p.Env)
	}
}
