package identity_test

import (
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestATokensTextIsDerivedSoMintingAgainGivesTheSame(t *testing.T) {
	req.Covers(t, "ID-006", "WF-22", "CM-008")
	key := []byte("k")
	base := identity.Token{Kind: identity.Task, Tenant: "local", Project: "p", Subject: "s", Salt: "x"}
	text := identity.Text(key, base)
	if text != identity.Text(key, base) {
		t.Error("minting twice differs")
	}
	seen := map[string]bool{text: true}
	for name, change := range map[string]func(*identity.Token){
		"salt": func(k *identity.Token) { k.Salt = "y" }, "subject": func(k *identity.Token) { k.Subject = "z" },
		"project": func(k *identity.Token) { k.Project = "q" }, "turn": func(k *identity.Token) { k.Turn = "t" },
		"epoch": func(k *identity.Token) { k.Epoch = 1 }, "kind": func(k *identity.Token) { k.Kind = identity.Runner },
	} {
		k := base
		change(&k)
		if got := identity.Text(key, k); seen[got] {
			t.Errorf("another %s gives the same token", name)
		}
	}
	if identity.Text([]byte("other"), base) == text {
		t.Error("another key gives the same token")
	}
	kind, tenant, err := identity.Parse(text)
	if err != nil || kind != identity.Task || tenant != "local" {
		t.Errorf("parsed as %s %s, %v", kind, tenant, err)
	}
	if !strings.HasPrefix(text, "lzy_task_local_") || !identity.LooksSecret(text) {
		t.Errorf("the text is %q", text)
	}
	if identity.Hash(text) == identity.Hash(text+"x") || len(identity.Hash(text)) != 64 {
		t.Error("the hash is no hash")
	}
}

func TestWhatIsNoTokenIsRefusedBeforeAnyRead(t *testing.T) {
	req.Covers(t, "ID-006")
	good := identity.Text([]byte("k"), identity.Token{Kind: identity.Owner, Tenant: "local"})
	last := good[len(good)-1]
	flip := byte('0')
	if last == '0' {
		flip = '1'
	}
	for _, bad := range []string{
		"", "lzy", good[:len(good)-1] + string(flip), good + "_x", strings.Replace(good, "lzy_", "lzx_", 1),
		strings.Replace(good, "_owner_", "_king_", 1), strings.Repeat("_", 4), "lzy_owner_local_abc_0",
	} {
		if _, _, err := identity.Parse(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
	if identity.LooksSecret("fix-login") {
		t.Error("a code looks secret")
	}
}

func TestTheActorIsTheChannel(t *testing.T) {
	req.Covers(t, "AC-002", "AC-004", "AC-009", "CM-043", "ID-013")
	for _, c := range []struct {
		kind   identity.Kind
		role   identity.Role
		person bool
		task   id.Task
	}{
		{identity.Owner, identity.Human, true, ""},
		{identity.User, identity.Human, true, ""},
		{identity.Session, identity.Human, true, ""},
		{identity.Operator, identity.Human, false, ""},
		{identity.Builder, identity.BuilderRole, false, ""},
		{identity.Task, identity.Agent, false, "s"},
		{identity.Runner, identity.Supervisor, false, "s"},
		{"", identity.System, false, ""},
	} {
		who := identity.Caller{Kind: c.kind, Subject: "s", Email: "a@x", Name: "A"}
		a := who.Actor()
		if a.Role != c.role || who.Person() != c.person || who.Task() != c.task {
			t.Errorf("%s acts as %s, person %t, task %q", c.kind, a.Role, who.Person(), who.Task())
		}
		if named := a.Email != ""; named != (c.role == identity.Human) {
			t.Errorf("%s records the person: %t", c.kind, named)
		}
	}
	if len(identity.Kinds()) != 7 || len(identity.Roles()) != 5 {
		t.Error("there are seven kinds and five roles")
	}
	for want, a := range map[string]identity.Actor{
		"A <a@x>": {Role: identity.Human, Email: "a@x", Name: "A"}, "a@x": {Role: identity.Human, Email: "a@x"},
		"system": identity.SystemActor(), "human": {}, "builder": {Role: identity.BuilderRole, Name: "N"},
	} {
		if got := a.String(); got != want {
			t.Errorf("%+v reads %q, want %q", a, got, want)
		}
	}
}
