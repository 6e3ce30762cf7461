package builderapi_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/blob/file"
	"github.com/lazyplane/lazyplane/pkg/builderapi"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

// rig is the surface in front of a real store, with a clock of its own.
type rig struct {
	t     *testing.T
	app   *app.App
	ops   *op.Catalogue
	url   string
	store *counted

	mu  sync.Mutex
	now time.Time
}

// counted counts the calls that reach the store.
type counted struct {
	store.Store
	mu sync.Mutex
	n  int
}

func (c *counted) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *counted) Get(ctx context.Context, k store.Key) (store.Item, error) {
	c.count()
	return c.Store.Get(ctx, k)
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, ops: op.Default(), now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), r.clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	blobs, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r.store = &counted{Store: db}
	r.app = app.New(app.Deps{
		Store: r.store, Blob: blobs, Key: bytes.Repeat([]byte("k"), 32), Now: r.clock, IDs: id.Gen{Rand: rand.Reader},
		Log: slog.New(slog.DiscardHandler),
	})
	s := httptest.NewServer(builderapi.New(builderapi.Config{
		Base: edge.Base{Log: slog.New(slog.DiscardHandler), Now: time.Now, NewID: id.Gen{Rand: rand.Reader}.New}, Auth: r.app, App: r.app,
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

func person(email string) identity.Caller {
	return identity.Caller{Kind: identity.User, Tenant: "acme", Project: "web", Subject: email, Email: email, Name: "A Person"}
}

// session mints a token and returns a client under it.
func (r *rig) session(who identity.Caller, label string) *client.StorageClient {
	r.t.Helper()
	tok, err := r.app.MintBuilderToken(r.t.Context(), app.Call{Who: who}, label, 7)
	if err != nil {
		r.t.Fatal(err)
	}
	return &client.StorageClient{Base: r.url, Token: tok.Token, HTTP: http.DefaultClient}
}

func (r *rig) save(c *client.StorageClient, session string, offset int64, content string, replace bool) (app.SavedConversation, error) {
	r.t.Helper()
	var out app.SavedConversation
	sum := sha256.Sum256([]byte(content))
	err := c.Call(r.t.Context(), "saveConversation", app.SaveConversation{
		Session: session, Agent: "claude", Title: "hello", Offset: offset, Replace: replace, Content: []byte(content), Sum: hex.EncodeToString(sum[:]),
	}, &out)
	return out, err
}

func (r *rig) list(who identity.Caller) []app.ConversationShown {
	r.t.Helper()
	out, err := r.app.ListConversations(r.t.Context(), app.Call{Who: who})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Conversations
}

const (
	one = "builder-aaaaaaaa"
	two = "builder-bbbbbbbb"
	cv  = "3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10"
)

func TestOnlyBuildersCallAndOnlySixMethods(t *testing.T) {
	req.Covers(t, "CV-001", "CV-002", "CO-016", "CM-004")
	r := newRig(t)
	c := r.session(person("ada@example.com"), one)
	want := []string{"getStoragePath", "listBuilderResumeIntents", "listScratchFiles", "saveBuilderResumeIntent", "saveConversation", "saveScratchFile"}
	if got := slices.Sorted(slices.Values(builderapi.Methods())); !slices.Equal(got, want) {
		t.Fatalf("methods: %v", got)
	}
	if err := c.Call(t.Context(), "getStoragePath", struct{}{}, nil); err != nil {
		t.Fatal(err)
	}
	before := r.store.n
	for _, m := range []string{"", "getTask", "createTurn", "storage", "GETSTORAGEPATH", "saveConversation "} {
		if err := c.Call(t.Context(), m, struct{}{}, nil); fault.KindOf(err) != fault.Denied {
			t.Errorf("%q: %v", m, err)
		}
	}
	if r.store.n != before {
		t.Error("the store was asked about a method that is not served")
	}
	for _, k := range identity.Kinds() {
		if k == identity.Builder {
			continue
		}
		text := identity.Text(bytes.Repeat([]byte("k"), 32), identity.Token{Kind: k, Tenant: "acme", Project: "web", Subject: "x", Salt: "s"})
		for _, m := range builderapi.Methods() {
			err := (&client.StorageClient{Base: r.url, Token: text, HTTP: http.DefaultClient}).Call(t.Context(), m, struct{}{}, nil)
			if fault.KindOf(err) != fault.Unauthenticated {
				t.Errorf("%s calls %s: %v", k, m, err)
			}
		}
	}
	for _, params := range []any{map[string]any{"tenant": "other"}, []int{1}, "x"} {
		if err := c.Call(t.Context(), "saveConversation", params, nil); fault.KindOf(err) != fault.Invalid {
			t.Errorf("params %v: %v", params, err)
		}
	}
}

func TestATranscriptIsStoredOnceHoweverOftenItsPiecesCome(t *testing.T) {
	req.Covers(t, "CV-008")
	r := newRig(t)
	ada := person("ada@example.com")
	c := r.session(ada, one)
	big := strings.Repeat("x", 1<<20+10)
	for i, p := range []struct {
		offset  int64
		text    string
		replace bool
		size    int64
		added   bool
	}{
		{0, "one\n", false, 4, true},
		{0, "one\n", false, 4, false}, // its answer was lost
		{4, "two\n", false, 8, true},
		{0, "one\n", false, 8, false}, // late
		{8, big, false, 8 + int64(len(big)), true},
		{8 + int64(len(big)), "end\n", false, 12 + int64(len(big)), true},
		{0, "anew\n", true, 5, true},
		{0, "anew\n", true, 5, false},
	} {
		got, err := r.save(c, cv, p.offset, p.text, p.replace)
		if err != nil || got.Size != p.size || got.Added != p.added {
			t.Errorf("piece %d: %+v, %v", i, got, err)
		}
	}
	_, err := r.save(c, cv, 99, "far\n", false)
	if fault.KindOf(err) != fault.Invalid || fmt.Sprint(fault.Of(err).Details["size"]) != "5" {
		t.Errorf("a gap: %v %v", err, fault.Of(err).Details)
	}
	if _, err := r.save(c, cv, 0, "other\n", false); fault.KindOf(err) != fault.Invalid {
		t.Errorf("other words in the same place: %v", err)
	}
	if l := r.list(ada); len(l) != 1 || l[0].Size != 5 || !l[0].Live || l[0].Title != "hello" {
		t.Errorf("listed: %+v", l)
	}
	var wrong app.SaveConversation
	wrong.Session, wrong.Content, wrong.Sum = cv, []byte("x"), "00"
	if err := c.Call(t.Context(), "saveConversation", wrong, nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a wrong digest: %v", err)
	}
	var racing sync.WaitGroup
	for range 8 {
		racing.Go(func() {
			if _, err := r.save(c, cv, 5, "same\n", false); err != nil {
				t.Error(err)
			}
		})
	}
	racing.Wait()
	if l := r.list(ada); l[0].Size != 10 {
		t.Errorf("racing copies: %d bytes", l[0].Size)
	}
	big = strings.Repeat("y", int(names.BodyMax))
	if _, err := r.save(c, cv, 10, big, false); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("a body over the limit: %v", err)
	}
}

func TestWhatAPersonsBuildersStoreIsTheirs(t *testing.T) {
	r := newRig(t)
	ada, bob := person("ada@example.com"), person("bob@example.com")
	a, b := r.session(ada, one), r.session(bob, two)
	if _, err := r.save(a, cv, 0, "secret\n", false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.save(b, cv, 7, "more\n", false); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("another person's conversation: %v", err)
	}
	if l := r.list(bob); len(l) != 0 {
		t.Errorf("bob sees %+v", l)
	}
	for _, c := range []*client.StorageClient{a, b} {
		for method, params := range map[string]any{
			"saveScratchFile": map[string]any{"name": "notes.md", "content": []byte("n")}, "saveBuilderResumeIntent": map[string]string{"session_id": cv},
		} {
			if err := c.Call(t.Context(), method, params, nil); err != nil {
				t.Error(err)
			}
		}
		var files struct{ Files []app.ScratchFile }
		var intents struct{ Intents []app.ResumeIntent }
		if err := errors.Join(c.Call(t.Context(), "listScratchFiles", nil, &files), c.Call(t.Context(), "listBuilderResumeIntents", nil, &intents)); err != nil {
			t.Fatal(err)
		}
		if len(files.Files) != 1 || len(intents.Intents) != 1 || intents.Intents[0].Session != cv {
			t.Errorf("files %+v, intents %+v", files, intents)
		}
	}
	for _, name := range []string{"", "../x", "a/b", ".hidden", strings.Repeat("n", 101)} {
		if err := a.Call(t.Context(), "saveScratchFile", map[string]any{"name": name, "content": []byte("n")}, nil); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a file named %q: %v", name, err)
		}
	}
	if _, err := r.app.MintBuilderToken(t.Context(), app.Call{Who: bob}, one, 0); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("bob asks for ada's token: %v", err)
	}
	if out, err := r.app.RevokeBuilderToken(t.Context(), app.Call{Who: bob}, one); err != nil || out.Revoked {
		t.Errorf("bob withdraws ada's token: %+v %v", out, err)
	}
}

func TestASessionsTokenIsOneAndItsWithdrawalIsFinal(t *testing.T) {
	req.Covers(t, "ID-010", "BL-002", "ID-008", "MC-021")
	r := newRig(t)
	ada := person("ada@example.com")
	first, again := r.session(ada, one), r.session(ada, one)
	if first.Token != again.Token {
		t.Error("minting again gave another token")
	}
	for range 2 {
		if _, err := r.app.RevokeBuilderToken(t.Context(), app.Call{Who: ada}, one); err != nil {
			t.Fatal(err)
		}
		if err := first.Call(t.Context(), "getStoragePath", nil, nil); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("after the withdrawal: %v", err)
		}
	}
	if next := r.session(ada, one); next.Token == first.Token {
		t.Error("the withdrawn token came back")
	} else if err := next.Call(t.Context(), "getStoragePath", nil, nil); err != nil {
		t.Error(err)
	}
	if err := first.Call(t.Context(), "getStoragePath", nil, nil); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("the old one lives again: %v", err)
	}
	for _, label := range []string{"", "builder-", "builder-ABCDEFGH", "owner", "builder-aaaaaaaa#x"} {
		if _, err := r.app.MintBuilderToken(t.Context(), app.Call{Who: ada}, label, 0); fault.KindOf(err) != fault.Invalid {
			t.Errorf("label %q: %v", label, err)
		}
	}
}

func TestAProjectHasFiftyTokensAndTheSilentOnesGoFirst(t *testing.T) {
	req.Covers(t, "ID-011", "ID-012")
	r := newRig(t)
	ada := person("ada@example.com")
	label := func(i int) string { return fmt.Sprintf("builder-%08d", i) }
	var cs []*client.StorageClient
	for i := range names.BuilderTokens {
		cs = append(cs, r.session(ada, label(i)))
		r.pass(time.Second)
	}
	r.pass(names.BuilderResidue)
	for i, c := range cs {
		if i != 3 { // all but one show life
			if err := c.Call(t.Context(), "getStoragePath", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	alive := func(c *client.StorageClient) bool { return c.Call(t.Context(), "getStoragePath", nil, nil) == nil }
	r.session(ada, label(100))
	if alive(cs[3]) || !alive(cs[0]) {
		t.Error("not the silent one went")
	}
	r.session(ada, label(101))
	if alive(cs[0]) || !alive(cs[1]) {
		t.Error("with all alive, not the oldest went")
	}
}
