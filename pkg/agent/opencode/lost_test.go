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

// What it says of a conversation whose file is damaged, as it was seen.
func TestADamagedConversationIsToldFromItsWords(t *testing.T) {
	for _, tail := range []string{
		"Error: Unexpected error\n\nfile is not a database",
		"Error: Unexpected error\n\ndatabase disk image is malformed",
		"Error: Unexpected error\n\nunable to open database file",
		"Error: Unexpected error\n\ndisk I/O error",
	} {
		if words := (opencode.Driver{}).Lost(agent.End{Code: 1, Tail: tail}); words == "" || len(words) > 303 {
			t.Errorf("of %q it finds %q", tail, words)
		}
	}
}
