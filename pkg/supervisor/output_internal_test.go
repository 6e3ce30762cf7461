package supervisor

import (
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
)

// whole keeps the lines it is given, by their length when they are long.
type whole struct{ got []string }

func (w *whole) Line(b []byte) []agent.Event {
	w.got = append(w.got, string(b))
	return nil
}

func (w *whole) End() []agent.Event { return nil }

// A line that is too long is left out: with a hole in it, it could read as
// something that nobody said.
func TestALineIsReadWholeOrNotAtAll(t *testing.T) {
	var w whole
	l := &lines{to: &w, take: func([]agent.Event) {}}
	for _, piece := range []string{"a", "b\nc", "d\n", strings.Repeat("x", lineMost-1), "yy", "z", "\ne\n", strings.Repeat("x", lineMost), "\n", "last"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	l.end()
	if want := []string{"ab", "cd", "e", strings.Repeat("x", lineMost), "last"}; !slices.Equal(w.got, want) {
		for _, g := range w.got {
			t.Errorf("a line of %d bytes", len(g))
		}
	}
}
