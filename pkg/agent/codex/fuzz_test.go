package codex_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent/agenttest"
	"github.com/lazyplane/lazyplane/pkg/agent/codex"
)

func FuzzReader(f *testing.F) { agenttest.Fuzz(f, codex.Driver{}) }
