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
