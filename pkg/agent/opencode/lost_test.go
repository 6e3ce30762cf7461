package opencode_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/agenttest"
	"github.com/lazyplane/lazyplane/pkg/agent/opencode"
)

func TestALostConversationIsToldFromItsWords(t *testing.T) {
	agenttest.Lost(t, opencode.Driver{}, "ses_01abc", "01a22e09-3537-7ca2-b76c-12898227d306", agent.End{
		Code: 1, Tail: "Error: Session not found",
	})
}
