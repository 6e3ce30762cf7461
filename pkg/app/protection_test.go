package app_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func rulesOf(p app.ProtectionRules) string {
	var out []string
	for _, r := range p.Rules {
		out = append(out, r.Path)
	}
	return strings.Join(out, " ")
}

func TestTheFileSeedsTheRulesAndOnlyAnAdministratorOrOwnerChangesThem(t *testing.T) {
	req.Covers(t, "HO-017")
	r := newRig(t)
	r.set.Protected = []string{"infra/**"}
	if err := r.SeedProtection(t.Context(), tenant, project); err != nil {
		t.Fatal(err)
	}
	// A merge has changed lazy.toml: it takes away what is protected and names more.
	r.set.Protected = []string{"docs/**"}
	if err := r.SeedProtection(t.Context(), tenant, project); err != nil {
		t.Fatal(err)
	}
	tid := r.working("task", "")
	got := do[app.ProtectionRules](r, r.owner(), "showProtection", args{})
	if rulesOf(got) != "infra/**" || got.Rules[0].By.Role != identity.System || !slices.Equal(got.OnlyFile, []string{"docs/**"}) {
		t.Errorf("after a merge of another lazy.toml: %+v", got)
	}
	r.refused(r.agent(tid), refusal.InvalidArguments, "lazy_justify_protected", args{"file": "docs/a.md", "reason": "x"})
	do[app.Justified](r, r.agent(tid), "lazy_justify_protected", args{"file": "infra/a.tf", "reason": "x"})
	for _, who := range []identity.Caller{r.agent(tid), r.builder()} {
		shown := do[app.Shown](r, who, "lazy_show", args{"task_id": "task", "sections": []string{"protection"}})
		if p := shown.Protection; p == nil || !slices.Equal(p.Rules, []string{"infra/**"}) || p.Target != "main" || p.Pending != 1 {
			t.Errorf("%s is shown %+v", who.Kind, p)
		}
		r.refused(who, refusal.HumanOnly, "setProtection", args{"remove": []string{"infra/**"}})
		r.refused(who, refusal.HumanOnly, "showProtection", args{})
	}
	if op.Reserved("lazy_protect") == nil {
		t.Error("lazy_protect is no reserved name")
	}
	r.refused(r.operator(), refusal.OperatorNotAPerson, "setProtection", args{"remove": []string{"infra/**"}})

	bo := r.member()
	for _, m := range []struct{ email, role string }{{"cy@example.com", app.RoleAdmin}, {bo.Email, app.RoleMember}} {
		if err := r.AddMember(t.Context(), tenant, project, m.email, "", m.role); err != nil {
			t.Fatal(err)
		}
	}
	err := r.refused(bo, refusal.AdminOnly, "setProtection", args{"remove": []string{"infra/**"}})
	if n := fault.Of(err).Next; len(n) != 1 || !strings.Contains(n[0].Text, "cy@example.com") || strings.Contains(n[0].Text, bo.Email) {
		t.Errorf("a member is told %+v", n)
	}
	if err := r.AddMember(t.Context(), tenant, project, bo.Email, "", app.RoleAdmin); err != nil {
		t.Fatal(err)
	}
	got = do[app.ProtectionRules](r, bo, "setProtection", args{"add": []string{"go.mod", "infra/**"}})
	if rulesOf(got) != "infra/** go.mod" || got.Rules[1].By.Email != bo.Email {
		t.Errorf("an administrator added: %+v", got)
	}
	got = do[app.ProtectionRules](r, r.owner(), "setProtection", args{"remove": []string{"infra/**", "nothing"}})
	if rulesOf(got) != "go.mod" {
		t.Errorf("the owner removed: %+v", got)
	}
}

func TestARuleIsAPathInsideTheRepository(t *testing.T) {
	r := newRig(t)
	for _, bad := range []string{"", "  ", "/etc", "../up", "a/../b", "[", strings.Repeat("x", 201)} {
		r.refused(r.owner(), refusal.InvalidArguments, "setProtection", args{"add": []string{"fine", bad}})
	}
	many := make([]string, app.RulesMost)
	for i := range many {
		many[i] = strings.Repeat("a", i+1)
	}
	do[app.ProtectionRules](r, r.owner(), "setProtection", args{"add": many})
	r.refused(r.owner(), refusal.InvalidArguments, "setProtection", args{"add": []string{"one-more"}})
}

func TestRulesAddedAtOnceAreAllKept(t *testing.T) {
	r := newRig(t)
	r.set.Protected = []string{"infra/**"}
	r.log.before(app.ProtectionKey(tenant, project), func() {
		do[app.ProtectionRules](r, r.owner(), "setProtection", args{"add": []string{"other"}})
	})
	got := do[app.ProtectionRules](r, r.owner(), "setProtection", args{"add": []string{"mine"}})
	if rulesOf(got) != "infra/** other mine" {
		t.Errorf("kept %q", rulesOf(got))
	}
}

// A project begins although its lazy.toml is not valid, and has the rules of the
// first one that is.
func TestAFileThatIsNotValidSeedsNothing(t *testing.T) {
	r := newRig(t)
	r.set.Protected = []string{"infra/**"}
	valid := r.Settings
	r.Settings = func(context.Context, string, string) (app.Settings, error) {
		return app.Settings{}, fault.New(fault.Invalid, "lazy.toml is not valid")
	}
	if err := r.SeedProtection(t.Context(), tenant, project); err != nil {
		t.Fatal(err)
	}
	r.Settings = valid
	if err := r.SeedProtection(t.Context(), tenant, project); err != nil {
		t.Fatal(err)
	}
	r.set.Protected = nil
	if got := do[app.ProtectionRules](r, r.owner(), "showProtection", args{}); rulesOf(got) != "infra/**" {
		t.Errorf("the rules are %q", rulesOf(got))
	}
}
