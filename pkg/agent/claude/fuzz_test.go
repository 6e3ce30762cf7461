package claude_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent/agenttest"
	"github.com/lazyplane/lazyplane/pkg/agent/claude"
)

func FuzzReader(f *testing.F) { agenttest.Fuzz(f, claude.Driver{}) }
