package pattern_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/pattern"
)

func TestAPatternMatchesAsItsExpression(t *testing.T) {
	p := pattern.New(`<(\w+)>`)
	if !p.MatchString("a <b> c") || p.MatchString("a b c") {
		t.Error("it matches something else")
	}
	if m := p.FindStringSubmatch("a <b> <c>"); !slices.Equal(m, []string{"<b>", "b"}) {
		t.Errorf("first %q", m)
	}
	if m := p.FindAllString("<b> <c> <d>", 2); !slices.Equal(m, []string{"<b>", "<c>"}) {
		t.Errorf("two are %q", m)
	}
	if s := p.ReplaceAllStringFunc("<b>-<c>", strings.ToUpper); s != "<B>-<C>" {
		t.Errorf("replaced: %q", s)
	}
}

func TestAPatternThatDoesNotCompilePanicsWhereItIsUsed(t *testing.T) {
	p := pattern.New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("it was used")
		}
	}()
	p.MatchString("(")
}
