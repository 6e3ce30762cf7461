package codex_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/agenttest"
	"github.com/lazyplane/lazyplane/pkg/agent/codex"
)

func TestALostConversationIsToldFromItsWords(t *testing.T) {
	agenttest.Lost(t, codex.Driver{}, "01a22e09-3537-7ca2-b76c-12898227d306", "ses_01abc", agent.End{
		Code: 1, Tail: "Error: thread/resume: thread/resume failed: no rollout found for thread id 01a22e09-3537-7ca2-b76c-12898227d306 (code -32600)\n\nStack backtrace:\n   0: <unknown>",
	})
}

// What it says of a conversation whose file is damaged, as it was seen.
func TestADamagedConversationIsToldFromItsWords(t *testing.T) {
	for _, tail := range []string{
		"Error: thread/resume: thread/resume failed: failed to read thread: thread-store internal error: failed to read session metadata /home/agent/agent/codex/sessions/2026/11/30/rollout-2026-11-30T23-38-43-01a22ed3-35a0-7bc1-b3f5-063f5e1a2932.jsonl: stream did not contain valid UTF-8 (code -32603)",
		"Error: thread/resume: thread/resume failed: failed to read thread: thread-store internal error: failed to read session metadata /home/agent/agent/codex/sessions/2026/11/30/rollout-2026-11-30T23-38-43-01a22ed3-35a0-7bc1-b3f5-063f5e1a2932.jsonl: rollout at /home/agent/agent/codex/sessions/2026/11/30/rollout-2026-11-30T23-38-43-01a22ed3-35a0-7bc1-b3f5-063f5e1a2932.jsonl is empty (code -32603)",
	} {
		if words := (codex.Driver{}).Lost(agent.End{Code: 1, Tail: tail}); words == "" || len(words) > 303 {
			t.Errorf("of %q it finds %q", tail, words)
		}
	}
}
