package wording_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/wording"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestWhatCLIsSaySortsTheirFailures(t *testing.T) {
	req.Covers(t, "FC-001", "FC-002", "FC-008", "FC-009", "FC-010")
	for words, want := range map[string]turn.Class{
		"Invalid API key · Please run /login":    turn.FatalAuth,
		"Invalid API key · Fix external API key": turn.FatalAuth,
		"not logged in": turn.FatalAuth,
		"Error: Not logged in. Run cursor-agent login":                                turn.FatalAuth,
		"OAuth token has expired":                                                     turn.FatalAuth,
		"Credit balance is too low":                                                   turn.FatalAuth,
		"unexpected status 401 Unauthorized: Incorrect API key provided.":             turn.FatalAuth,
		"You've hit your plan limit. Your usage resets on Jan 14":                     turn.FatalAuth,
		"Plan quota reached":                                                          turn.FatalAuth,
		"Monthly spend limit exceeded":                                                turn.FatalAuth,
		"You exceeded your current quota, please check your plan and billing details": turn.FatalAuth,
		"You've hit your usage limit, resets in 20 minutes":                           turn.Overload,
		"Plan quota exceeded (rate limit), try again in 40s":                          turn.Overload,
		"Claude AI usage limit reached|1796056653":                                    turn.Overload,
		"5-hour limit reached ∙ resets 3pm":                                           turn.Overload,
		"API Error: 529 Overloaded. This is a server-side issue":                      turn.Overload,
		"Selected model is at capacity. Please try a different model.":                turn.Overload,
		"exceeded retry limit, last status: 429 Too Many Requests":                    turn.Overload,
		"API Error: Server error mid-response. The response above may be incomplete.": turn.Overload,
		"stream disconnected before completion: Transport error":                      turn.Network,
		"API Error: Connection dropped (ECONNRESET)":                                  turn.Network,
		"getaddrinfo ENOTFOUND api.example.com":                                       turn.Network,
		"connect ECONNREFUSED 127.0.0.1:4000":                                         turn.Unreachable,
		"There's an issue with the selected model (x). It may not exist":              turn.FatalConfig,
		"The model `x` does not exist or you do not have access to it.":               turn.FatalConfig,
		"panicked at 'index out of bounds'":                                           turn.Unknown,
		"":                                                                            turn.Unknown,
	} {
		if got := wording.Class(words); got != want {
			t.Errorf("%q is %s, want %s", words, got, want)
		}
	}
}

func TestAStatusOutweighsWordsExceptForASpentQuota(t *testing.T) {
	req.Covers(t, "FC-001")
	for _, c := range []struct {
		status int
		words  string
		want   turn.Class
	}{
		{401, "overloaded", turn.FatalAuth},
		{403, "", turn.FatalAuth},
		{402, "", turn.FatalAuth},
		{429, "slow down", turn.Overload},
		{429, "insufficient_quota: you exceeded your current quota", turn.FatalAuth},
		{400, "the request is not valid", turn.FatalConfig},
		{400, "Your credit balance is too low", turn.FatalAuth},
		{404, "", turn.FatalConfig},
		{408, "", turn.Network},
		{500, "", turn.Overload},
		{529, "", turn.Overload},
		{0, "nothing known", turn.Unknown},
	} {
		if got := wording.OfStatus(c.status, c.words); got != c.want {
			t.Errorf("%d %q is %s, want %s", c.status, c.words, got, c.want)
		}
	}
}

// What the gateway saw comes first, then what the CLI named, then its last words;
// a killed process and a normal end have nothing to do with a model.
func TestTypedEvidenceOutweighsWords(t *testing.T) {
	req.Covers(t, "FC-001", "CR-002")
	seen := &turn.Failure{Class: turn.Overload, Reason: "the model answered 529"}
	said := &turn.Failure{Class: turn.FatalConfig, Reason: "said"}
	for what, c := range map[string]struct {
		end  agent.End
		want turn.Class
	}{
		"a normal end":         {agent.End{Code: 0, Model: seen, Tail: "Invalid API key"}, ""},
		"seen and said":        {agent.End{Code: 1, Model: seen, Said: said, Tail: "Invalid API key"}, turn.Overload},
		"said":                 {agent.End{Code: 1, Said: said, Tail: "Invalid API key"}, turn.FatalConfig},
		"said without a class": {agent.End{Code: 1, Said: &turn.Failure{Class: turn.Unknown, Reason: "odd"}, Tail: "Invalid API key"}, turn.Unknown},
		"last words":           {agent.End{Code: 1, Tail: "{\"type\":\"x\"}\nInvalid API key · Please run /login\n{\"type\":\"y\"}\n"}, turn.FatalAuth},
		"killed":               {agent.End{Code: 137, Tail: "Invalid API key"}, turn.Unknown},
		"gone":                 {agent.End{Code: -1, Tail: "Invalid API key"}, turn.Unknown},
	} {
		f := wording.Classify(c.end)
		if f == nil && c.want != "" || f != nil && f.Class != c.want {
			t.Errorf("%s: %+v, want %q", what, f, c.want)
		}
		if f == seen {
			t.Errorf("%s: the evidence itself is handed out, and would be changed", what)
		}
	}
}
