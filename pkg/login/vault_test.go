package login_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/login"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// chain is a keychain that can be taken away.
type chain struct {
	mu   sync.Mutex
	all  map[string]string // guarded by mu
	gone bool              // guarded by mu
}

var errGone = errors.New("no keychain")

func (c *chain) Get(service, name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.all[service+"/"+name]
	if c.gone || !ok {
		return "", errGone
	}
	return v, nil
}

func (c *chain) Set(service, name, secret string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errGone
	}
	c.all[service+"/"+name] = secret
	return nil
}

func (c *chain) Delete(service, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, service+"/"+name)
	return nil
}

func (c *chain) take(gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = gone
}

var shop = login.Login{Address: "https://lazy.example", Tenant: "acme", Project: "shop", Email: "ada@example.com"}

func newVault(t *testing.T, hc *http.Client) (login.Vault, *chain) {
	t.Helper()
	keys := &chain{all: map[string]string{}}
	return login.Vault{Dir: filepath.Join(t.TempDir(), "logins"), Keys: keys, Lock: cli.FileLock, HTTP: hc}, keys
}

// texts is everything in the vault's folder.
func texts(t *testing.T, v login.Vault) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(v.Dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", f, info.Mode().Perm())
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

func TestASignInIsKeptInTheKeychainOrInAFileOfOnesOwn(t *testing.T) {
	v, keys := newVault(t, nil)
	one, two := login.Pair{Access: "access-1", Refresh: "refresh-1"}, login.Pair{Access: "access-2", Refresh: "refresh-2"}
	if _, ok, err := v.Load(shop); ok || err != nil {
		t.Fatalf("there is one before the first: %v", err)
	}
	if in, err := v.Save(t.Context(), shop, one); !in || err != nil || strings.Contains(texts(t, v), "access-1") {
		t.Errorf("with a keychain it lies in a file: %v\n%s", err, texts(t, v))
	}
	if p, ok, err := v.Load(shop); p != one || !ok || err != nil {
		t.Errorf("from the keychain: %+v, %v", p, err)
	}
	// The keychain is gone when it is renewed, and comes back with the older one.
	keys.take(true)
	if in, err := v.Save(t.Context(), shop, two); in || err != nil || !strings.Contains(texts(t, v), "refresh-2") {
		t.Errorf("without a keychain: %v\n%s", err, texts(t, v))
	}
	keys.take(false)
	if p, ok, err := v.Load(shop); p != two || !ok || err != nil {
		t.Errorf("an older one comes back: %+v, %v", p, err)
	}
	if all, err := v.List("https://lazy.example"); err != nil || len(all) != 1 || all[0] != shop {
		t.Errorf("listed: %v, %v", all, err)
	}
	if all, err := v.List("https://other.example"); err != nil || len(all) != 0 {
		t.Errorf("elsewhere: %v, %v", all, err)
	}
	if err := v.Drop(shop); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := v.Load(shop); ok || err != nil || len(keys.all) != 0 || strings.Contains(texts(t, v), "refresh") {
		t.Errorf("dropped, it is still there: %v", err)
	}
	// What the keychain lost is no sign-in.
	if _, err := v.Save(t.Context(), shop, one); err != nil {
		t.Fatal(err)
	}
	keys.take(true)
	if _, ok, err := v.Load(shop); ok || err != nil {
		t.Errorf("without the keychain that has it: %v", err)
	}
}

// Many processes are refused at once: one renews, and a refresh token is never
// shown twice.
func TestOfManyProcessesOneRenews(t *testing.T) {
	var mu sync.Mutex
	renewals := 0
	shown := map[string]int{}
	hc := &http.Client{Transport: inside(func(r *http.Request) (int, any, error) {
		if r.Method == http.MethodGet {
			return 200, server, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if err := r.ParseForm(); err != nil {
			return 0, nil, err
		}
		shown[r.PostForm.Get("refresh_token")]++
		renewals++
		return 200, map[string]string{"access_token": fmt.Sprint("access-", renewals), "refresh_token": fmt.Sprint("refresh-", renewals)}, nil
	})}
	v, _ := newVault(t, hc)
	if _, err := v.Save(t.Context(), shop, login.Pair{Access: "access-0", Refresh: "refresh-0"}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	got := make([]string, 16)
	errs := make([]error, 16)
	for i := range got {
		all.Go(func() { got[i], errs[i] = v.Renew(t.Context(), shop, "access-0") })
	}
	all.Wait()
	for i := range got {
		if errs[i] != nil || got[i] != "access-1" {
			t.Errorf("one got %q, %v", got[i], errs[i])
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if renewals != 1 || shown["refresh-0"] != 1 {
		t.Errorf("renewed %d times, with %v", renewals, shown)
	}
}

func TestASignInThatHasEndedIsForgotten(t *testing.T) {
	hc := &http.Client{Transport: inside(func(r *http.Request) (int, any, error) {
		if r.Method == http.MethodGet {
			return 200, server, nil
		}
		return 400, word("invalid_grant"), nil
	})}
	v, _ := newVault(t, hc)
	if _, err := v.Save(t.Context(), shop, login.Pair{Access: "a", Refresh: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Renew(t.Context(), shop, "a"); fault.KindOf(err) != fault.Unauthenticated || fault.Exit(fault.Of(err)) != 4 {
		t.Errorf("renewed: %v", err)
	}
	if _, ok, err := v.Load(shop); ok || err != nil {
		t.Errorf("it is still there: %v", err)
	}
	// A server that is away ends nothing.
	v.HTTP = &http.Client{Transport: inside(func(*http.Request) (int, any, error) { return 0, nil, errors.New("no route") })}
	if _, err := v.Save(t.Context(), shop, login.Pair{Access: "a", Refresh: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Renew(t.Context(), shop, "a"); !isUnreachable(err) {
		t.Errorf("renewed without a server: %v", err)
	}
	if _, ok, err := v.Load(shop); !ok || err != nil {
		t.Errorf("a server that was away ended it: %v", err)
	}
}

func TestABindingLiesWhereNoPushFindsIt(t *testing.T) {
	req.Covers(t, "LG-008")
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	for _, dir := range []string{filepath.Join(root, ".git"), deep} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := login.Bound(deep); ok || err != nil {
		t.Errorf("bound before: %v", err)
	}
	if err := login.Bind(deep, shop); err != nil {
		t.Fatal(err)
	}
	if l, ok, err := login.Bound(root); l != shop || !ok || err != nil {
		t.Errorf("bound: %+v, %v", l, err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the git directory there is %v, %v", entries, err)
	}
	if err := errors.Join(login.Unbind(deep), login.Unbind(deep)); err != nil {
		t.Error(err)
	}
	if _, ok, err := login.Bound(root); ok || err != nil {
		t.Errorf("unbound: %v", err)
	}
	outside := t.TempDir()
	if err := login.Bind(outside, shop); err == nil {
		t.Error("a folder that is no clone was bound")
	}
}
