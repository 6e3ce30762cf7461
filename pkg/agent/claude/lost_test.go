package claude_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/agenttest"
	"github.com/lazyplane/lazyplane/pkg/agent/claude"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestALostConversationIsToldFromItsWords(t *testing.T) {
	told := agenttest.Read(claude.Driver{}, agent.Launch{}, []byte(`{"type":"result","subtype":"error_during_execution","is_error":true,`+
		`"session_id":"`+session+`","errors":["No conversation found with session ID: `+session+`"]}`))
	agenttest.Lost(t, claude.Driver{}, session, "ses_01abc", agent.End{Code: 1, Said: told.Said})
}

// The event that closes a run repeats the words of what the model declined, and
// not that it did.
func TestARefusalOfTheModelIsNotTriedAgain(t *testing.T) {
	const words = "API Error: the model's safeguards flagged this message. Try rephrasing the request in a new session."
	told := agenttest.Read(claude.Driver{}, agent.Launch{}, []byte(`{"type":"assistant","message":{"model":"<synthetic>","id":"1","content":[{"type":"text","text":"`+words+`"}]},"error":"invalid_request"}
{"type":"result","subtype":"success","is_error":true,"result":"`+words+`"}`))
	f := claude.Driver{}.Classify(agent.End{Code: 1, Said: told.Said})
	if f == nil || f.Class != turn.FatalConfig {
		t.Errorf("classified %+v", f)
	}
}

// What it says of a conversation whose file is damaged, as it was seen.
func TestADamagedConversationIsToldFromItsWords(t *testing.T) {
	for _, tail := range []string{
		"Failed to resume session: EISDIR: illegal operation on a directory, read",
		"No conversation found with session ID: 00000000-0000-4000-8000-000000000001",
	} {
		if words := (claude.Driver{}).Lost(agent.End{Code: 1, Tail: tail}); words == "" || len(words) > 303 {
			t.Errorf("of %q it finds %q", tail, words)
		}
	}
}
