package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/seal"
	sealfile "github.com/lazyplane/lazyplane/pkg/seal/file"
	secretfile "github.com/lazyplane/lazyplane/pkg/secret/file"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

const canary = "sk-ant-oat01-canary-7f3a9b2c5d8e1f4a6b0c" // in the form of a plan's token

// paying gives a rig a sealer and an agent, "paid", that spends a credential.
func paying(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	env, err := sealfile.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r.Seal = env
	r.Provider = func(agent, _ string) string {
		if agent == "paid" {
			return "claude"
		}
		return ""
	}
	r.set.Agents["paid"] = app.Agent{ID: "paid", Argv: []string{"true"}}
	return r
}

// held fails when the canary is in any row, log line or given text.
func (r *rig) held(texts ...string) {
	r.t.Helper()
	for k, v := range r.snapshot() {
		if strings.Contains(v, canary) {
			r.t.Errorf("the secret lies in row %s", k)
		}
	}
	texts = append(texts, r.logged.String())
	for _, s := range texts {
		if strings.Contains(s, canary) {
			r.t.Errorf("the secret is in: %s", s)
		}
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	return fmt.Sprintf("%s %v %+v", b, err, v)
}

func TestACredentialIsSealedAndNeverShown(t *testing.T) {
	req.Covers(t, "HO-022")
	r := paying(t)
	put := do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"provider": "claude", "secret": canary + "\n"})
	if put.Name != "claude" || put.Scheme != model.Subscription || put.Upstream != "https://api.anthropic.com" || !put.Used {
		t.Errorf("stored: %+v", put)
	}
	list := do[app.Credentials](r, r.owner(), "listModelCredentials", args{})
	if len(list.Credentials) != 1 || list.Credentials[0] != put {
		t.Errorf("listed: %+v", list)
	}
	said := []string{text(put), text(list)}
	for _, bad := range []args{
		{"provider": "claude", "secret": canary + " x", "name": "other"},
		{"provider": "claude", "secret": strings.Repeat(canary, 300), "name": "other"},
		{"provider": "nobody", "secret": canary},
		{"provider": "claude", "secret": canary, "name": canary + canary},
		{"provider": "claude", "secret": canary, "scheme": "password"},
		{"provider": "claude", "secret": canary, "base_url": "http://example.com"},
		{"provider": "claude", "secret": canary, "extra": true},
		{"provider": "claude", "secret": []string{canary}},
		{"provider": "codex", "secret": canary, "scheme": "subscription"},
		{"provider": "claude", "secret": canary + "2"},
		{"name": "none", "secret": canary, "rotate": true},
	} {
		before := r.snapshot()
		out, err := r.try(r.call(r.owner()), "putModelCredential", bad)
		if err == nil {
			t.Errorf("%v was taken: %+v", bad, out)
			continue
		}
		f := fault.Of(err)
		said = append(said, err.Error(), f.Public, text(f.Next), text(f.Details))
		r.unchanged(before)
	}
	r.held(said...)
	if n := len(do[app.Credentials](r, r.owner(), "listModelCredentials", args{}).Credentials); n != 1 {
		t.Errorf("%d are stored after refusals", n)
	}
	// A repeated request, whose answer was lost, is the first one.
	again := do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"provider": "claude", "secret": canary})
	if again != put {
		t.Errorf("the repetition answered %+v, want %+v", again, put)
	}
}

func TestOnlyPeopleTouchCredentials(t *testing.T) {
	req.Covers(t, "HO-022", "LG-012", "OP-003", "OP-004")
	r := paying(t)
	for _, name := range []string{"putModelCredential", "listModelCredentials", "deleteModelCredential", "pushPersonModelCredential"} {
		if o := r.op(name); o.Tool != "" || o.Builder || o.Agent {
			t.Errorf("%s is a tool", name)
		}
	}
	if !refusal.Is(op.Reserved("lazy_auth"), refusal.ReservedTool) {
		t.Error("lazy_auth is not reserved")
	}
	r.refused(r.operator(), refusal.OperatorNotAPerson, "putModelCredential", args{"provider": "claude", "secret": canary})
	r.refused(r.operator(), refusal.OperatorNotAPerson, "deleteModelCredential", args{"name": "claude"})
	if got := do[app.Credentials](r, r.operator(), "listModelCredentials", args{}); len(got.Credentials) != 0 {
		t.Errorf("listed: %+v", got)
	}
	r.refused(r.owner(), refusal.ControlOnly, "pushPersonModelCredential", args{"email": "bo@example.com", "provider": "claude", "secret": canary})
	r.refused(r.operator(), refusal.SingleOwner, "pushPersonModelCredential", args{"email": "bo@example.com", "provider": "claude", "secret": canary})
	r.Local = false
	push := do[app.CredentialShown](r, r.operator(), "pushPersonModelCredential", args{"email": " Bo@Example.com", "provider": "claude", "secret": canary})
	if push.Owner != "bo@example.com" {
		t.Errorf("pushed for %q", push.Owner)
	}
	if got := do[app.Credentials](r, r.member(), "listModelCredentials", args{}); len(got.Credentials) != 1 || !got.Credentials[0].Used {
		t.Errorf("the member sees %+v", got)
	}
	if got := do[app.Credentials](r, identity.Caller{Kind: identity.User, Tenant: tenant, Project: project, Email: "cy@example.com", Hash: "cy"}, "listModelCredentials", args{}); len(got.Credentials) != 0 {
		t.Errorf("another member sees %+v", got)
	}
	r.held()
}

func TestATurnWithoutItsCredentialIsRefusedBeforeAnything(t *testing.T) {
	req.Covers(t, "FC-012", "CM-033")
	r := paying(t)
	free := r.create("free", "").TaskID
	paid := do[app.Created](r, r.owner(), "createTask", args{"goal": "paid", "prompt": "p", "agent": "paid"}).TaskID
	for who, want := range map[string]identity.Caller{"person": r.owner(), "mcp": r.builder()} {
		err := r.refused(want, refusal.AgentUnconfigured, "startTask", args{"task_id": string(paid)})
		if word := map[string]string{"person": "lazy auth add claude", "mcp": "A person has to store it."}[who]; !says(err, who, word) {
			t.Errorf("the refusal of a %s says %v", who, fault.Of(err).Next)
		}
	}
	r.refused(r.owner(), refusal.AgentUnconfigured, "startTask", args{"task_id": string(free), "agent": "paid"})
	if n := r.runner.count(); n != 0 {
		t.Errorf("%d runs were launched", n)
	}
	do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(free)})
	do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"provider": "claude", "secret": canary})
	do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(paid)})
	r.held()
}

func TestTheCredentialReachesItsRunInTheAnswerToHelloAlone(t *testing.T) {
	req.Covers(t, "CM-031", "ID-026", "HO-023")
	r := paying(t)
	r.Secrets = secretfile.New(t.TempDir())
	do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"provider": "claude", "name": "old", "secret": canary + "-old"})
	r.clock.advance(time.Second)
	do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"provider": "claude", "secret": canary, "base_url": "http://127.0.0.1:9/v1/"})
	tid := do[app.Created](r, r.owner(), "createTask", args{"goal": "paid", "prompt": "p", "agent": "paid"}).TaskID
	begun := do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(tid)})
	welcome := r.welcome(begun)
	want := model.Access{
		Provider: "claude", Wire: model.Anthropic, Upstream: "http://127.0.0.1:9/v1", Scheme: model.Subscription, Credential: "claude", Secret: canary,
	}
	if welcome.Model == nil || *welcome.Model != want {
		t.Fatalf("the run was given %v", welcome.Model)
	}
	r.held(text(welcome.Command), fmt.Sprint(welcome.Model), fmt.Sprintf("%+v %#v", welcome.Model, *welcome.Model))
	free := r.create("free", "").TaskID
	if w := r.welcome(do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(free)})); w.Model != nil {
		t.Errorf("an agent that needs no model was given %v", w.Model)
	}
	// Removed in between: the run is refused, and says what to do.
	gone := do[app.Created](r, r.owner(), "createTask", args{"goal": "gone", "prompt": "p", "agent": "paid"}).TaskID
	begun = do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(gone)})
	for _, name := range []string{"old", "claude"} {
		do[app.Removed](r, r.owner(), "deleteModelCredential", args{"name": name})
	}
	if _, err := r.Hello(t.Context(), turn.Hello{Nonce: r.nonce(begun), Key: "k"}); !refusal.Is(err, refusal.AgentUnconfigured) {
		t.Errorf("hello without the credential: %v", err)
	}
}

// nonce brings a begun turn up to its launch and returns the start nonce.
func (r *rig) nonce(b app.Begun) string {
	r.t.Helper()
	t := r.load(b.Task)
	base := r.repo.branchFrom("lazy/"+t.Name(), "main")
	if err := r.SetHead(r.t.Context(), tenant, b.Task, base, base); err != nil {
		r.t.Fatal(err)
	}
	p := app.Payload{Tenant: tenant, Turn: b.Turn, N: 1, Token: "token-" + b.Turn}
	for _, step := range []string{"prepare.v1", "launch.v1"} {
		if _, err := r.Steps()[step](r.t.Context(), p); err != nil {
			r.t.Fatalf("%s: %v", step, err)
		}
	}
	r.runner.mu.Lock()
	defer r.runner.mu.Unlock()
	return r.runner.launched[fmt.Sprintf("run-%s-%d", b.Task.Short(), t.Epoch)].Nonce
}

func (r *rig) welcome(b app.Begun) turn.Welcome {
	r.t.Helper()
	w, err := r.Hello(r.t.Context(), turn.Hello{Nonce: r.nonce(b), Key: "k-" + b.Turn})
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

func TestAMovedOrShreddedSecretDoesNotOpen(t *testing.T) {
	req.Covers(t, "HO-034", "ID-031")
	r := paying(t)
	do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"provider": "claude", "name": "a", "secret": canary})
	it, err := r.lag.Get(t.Context(), store.For(tenant).Credential("", "a"))
	if err != nil {
		t.Fatal(err)
	}
	it.Key = store.For(tenant).Credential("", "b")
	it.Doc = []byte(strings.Replace(string(it.Doc), `"name":"a"`, `"name":"b"`, 1))
	if err := r.lag.Transact(t.Context(), store.Write{Act: store.Put, Item: it}); err != nil {
		t.Fatal(err)
	}
	do[app.Removed](r, r.owner(), "deleteModelCredential", args{"name": "a"})
	tid := do[app.Created](r, r.owner(), "createTask", args{"goal": "paid", "prompt": "p", "agent": "paid"}).TaskID
	b := do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(tid)})
	_, err = r.Hello(t.Context(), turn.Hello{Nonce: r.nonce(b), Key: "k"})
	if f := fault.Of(err); f == nil || f.Kind != fault.Unavailable || !strings.Contains(text(f.Next), "lazy auth rotate b") {
		t.Errorf("hello with a moved secret: %v", err)
	}
	r.held(fmt.Sprint(err))
	do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"name": "b", "secret": canary, "rotate": true})
	tid = do[app.Created](r, r.owner(), "createTask", args{"goal": "shredded", "prompt": "p", "agent": "paid"}).TaskID
	b = do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(tid)})
	nonce := r.nonce(b)
	if err := r.Seal.(seal.Shredder).Shred(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	if w, err := r.Hello(t.Context(), turn.Hello{Nonce: nonce, Key: "k"}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("hello after shredding: %v, %v", w, err)
	}
}
