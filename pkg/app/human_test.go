package app_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// A terminal is no proof: what is a person's is refused to every other credential,
// whatever the request says of who sends it.
func TestAnActOfPeopleNeedsTheirCredential(t *testing.T) {
	req.Covers(t, "HO-029")
	r := newRig(t)
	tid := r.working("task", "")
	acts := 0
	for _, o := range r.ops.All() {
		if o.Name == "" || o.Builder || o.Agent {
			continue
		}
		acts++
		for _, who := range []identity.Caller{r.builder(), r.agent(tid), r.operator()} {
			if slices.Contains(o.People, who.Kind) {
				continue
			}
			c := r.call(who)
			c.As = identity.Human
			before := r.snapshot()
			_, err := o.Call(t.Context(), r.App, c, nil)
			if fault.KindOf(err) != fault.Denied {
				t.Errorf("%s by %s: %v", o.Name, who.Kind, err)
			}
			r.unchanged(before)
		}
		for _, k := range o.People {
			if k != identity.Owner && k != identity.User && k != identity.Session && k != identity.Operator {
				t.Errorf("%s is for %s", o.Name, k)
			}
		}
	}
	if acts < 20 {
		t.Errorf("only %d acts of people were tried", acts)
	}
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), "An agent that has a shell of your own account runs `lazy` as you") {
		t.Error("docs/security.md does not say what a shell on a person's machine can do")
	}
}
