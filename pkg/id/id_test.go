package id_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/id"
)

func TestTaskIDsBeginWithRandomCharactersAndParse(t *testing.T) {
	g := id.Gen{Rand: rand.Reader}
	shorts := map[string]bool{}
	for range 200 {
		tid := g.Task()
		if got, err := id.ParseTask(string(tid)); err != nil || got != tid {
			t.Fatalf("%s does not parse: %v", tid, err)
		}
		if !id.IsTask(string(tid)) || !id.IsShort(tid.Short()) || len(tid.Short()) != id.ShortLen || !strings.HasPrefix(string(tid), tid.Short()) {
			t.Fatalf("%s has the short id %q", tid, tid.Short())
		}
		shorts[tid.Short()] = true
	}
	if len(shorts) != 200 {
		t.Errorf("200 ids made in a moment share %d short ids", 200-len(shorts))
	}
	if a, b := g.New(), g.New(); a == b || id.IsTask(a) {
		t.Errorf("turn ids %s and %s", a, b)
	}
	if got := id.Task("abc").Short(); got != "abc" {
		t.Errorf("a cut id is shortened to %q", got)
	}
}

func TestWhatIsNoIDIsRefused(t *testing.T) {
	for _, s := range []string{"", "3f2a9c1e", "3F2A9C1E-5b7d-4c0e-9a1f-0d2c4b6e8f10", "3f2a9c1e-5b7d-1c0e-9a1f-0d2c4b6e8f10", "3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10 "} {
		if _, err := id.ParseTask(s); err == nil || id.IsTask(s) {
			t.Errorf("%q passes as a task id", s)
		}
	}
	for s, want := range map[string]bool{"3f2a9c1e": true, "3f2a9c1e-5b7d": true, "3f2a9c1": false, "zf2a9c1e": false, "": false, strings.Repeat("a", 37): false} {
		if id.IsShort(s) != want {
			t.Errorf("IsShort(%q) = %t", s, !want)
		}
	}
	for s, want := range map[string]bool{"fix-login": true, "a": true, "-a": false, "A": false, "a b": false, "": false, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false} {
		if id.IsCode(s) != want {
			t.Errorf("IsCode(%q) = %t", s, !want)
		}
	}
}

func TestASlugIsACodeOrNothing(t *testing.T) {
	for in, want := range map[string]string{"Fix the login!": "fix-the-login", "--x": "x", "😀": "", "a  b": "a-b", "": "", "Ünïcode 1": "n-code-1"} {
		if got := id.Slug(in); got != want {
			t.Errorf("Slug(%q) = %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		s := id.Slug(rapid.String().Draw(r, "goal"))
		if s != "" && !id.IsCode(s) || len(s) > 42 {
			r.Fatalf("%q is no code", s)
		}
	})
}
