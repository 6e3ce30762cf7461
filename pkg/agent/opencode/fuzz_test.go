package opencode_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent/agenttest"
	"github.com/lazyplane/lazyplane/pkg/agent/opencode"
)

func FuzzReader(f *testing.F) { agenttest.Fuzz(f, opencode.Driver{}) }
