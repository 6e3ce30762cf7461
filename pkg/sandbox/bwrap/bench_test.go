package bwrap_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

// BenchmarkSpawn measures a process in a whole workspace plan, from nothing to
// its end.
func BenchmarkSpawn(b *testing.B) {
	x := newBox(b)
	x.plan.Argv = []string{"true"}
	for b.Loop() {
		c, err := x.r.Command(b.Context(), x.plan)
		must(b, err)
		must(b, sandbox.Start(c))
		must(b, c.Wait())
	}
}
