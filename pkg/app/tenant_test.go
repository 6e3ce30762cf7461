package app_test

import (
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
)

func TestATenantIsMadeOnceAndItsPeopleKeepTheirToken(t *testing.T) {
	r := newRig(t)
	in := app.Bootstrap{Tenant: "acme", Project: "shop", Config: "one", Email: "ada@example.com", Name: "Ada"}
	first, err := r.Bootstrap(t.Context(), in)
	if err != nil || first.Kind != identity.User {
		t.Fatalf("%+v, %v", first, err)
	}
	in.Config = "two"
	again, err := r.Bootstrap(t.Context(), in)
	if err != nil || again != first {
		t.Errorf("made again it is %+v, %v", again, err)
	}
	if p, err := r.ProjectOf(t.Context(), "acme", "shop"); err != nil || p.Config != "two" {
		t.Errorf("the project is %+v, %v", p, err)
	}
	who, err := r.Authenticate(t.Context(), first.Token, "rpc")
	if err != nil || who.Tenant != "acme" || who.Project != "shop" || who.Email != in.Email || !who.Person() {
		t.Errorf("the token is %+v, %v", who, err)
	}
	in.Email = ""
	op, err := r.Bootstrap(t.Context(), in)
	if err != nil || op.Kind != identity.Operator || op.Token == first.Token {
		t.Errorf("an operator's is %+v, %v", op, err)
	}
	if _, err := r.ProjectOf(t.Context(), "other", "shop"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant's project: %v", err)
	}
}

func TestATenantsNameIsFitForAKey(t *testing.T) {
	r := newRig(t)
	for _, in := range []app.Bootstrap{
		{Tenant: "", Project: "p"},
		{Tenant: "a#b", Project: "p"},
		{Tenant: "a_b", Project: "p"},
		{Tenant: "lazyplane", Project: "p"},
		{Tenant: strings.Repeat("a", 65), Project: "p"},
		{Tenant: "a", Project: ""},
		{Tenant: "a", Project: "p#PAST"},
		{Tenant: "a", Project: ".p"},
	} {
		if _, err := r.Bootstrap(t.Context(), in); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v gives %v", in, err)
		}
	}
}

func TestTheEndOfAFlowOfNobodyIsNoFault(t *testing.T) {
	r := newRig(t)
	if err := r.FlowEnded(t.Context(), "acme", "01890a5d-ac96-774b-bcce-b302099a8057"); err != nil {
		t.Error(err)
	}
}
