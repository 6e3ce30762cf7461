package login_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/login"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func pairOf(word string) login.Pair {
	return login.Pair{Access: "access-" + word, Refresh: "refresh-" + word}
}

func with(change func(*login.Login)) login.Login {
	l := shop
	change(&l)
	return l
}

// The real keychain's calls, over a provider of its own library's that keeps what
// it is given, and over one that fails whatever it is asked.
func TestOneSignInIsKeptForAPersonAndAMachine(t *testing.T) {
	req.Covers(t, "LG-009")
	bakery := with(func(l *login.Login) { l.Project = "bakery" })
	bob := with(func(l *login.Login) { l.Email = "bob@example.com" })
	for _, c := range []struct {
		name    string
		broken  bool
		inChain bool
	}{{"a keychain", false, true}, {"a keychain that fails", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			keyring.MockInit()
			if c.broken {
				keyring.MockInitWithError(errors.New("the keychain is locked"))
			}
			v := login.Vault{Dir: filepath.Join(t.TempDir(), "logins"), Keys: login.System{Patience: time.Hour}, Lock: cli.FileLock}
			for _, one := range []struct {
				l login.Login
				p login.Pair
			}{{shop, pairOf("1")}, {bob, pairOf("bob")}, {bakery, pairOf("2")}} {
				in, err := v.Save(t.Context(), one.l, one.p)
				if err != nil || in != c.inChain {
					t.Fatalf("saved in the keychain: %t, %v", in, err)
				}
			}
			// Another project is another clone's business: the sign-in is the same, and
			// the second has taken the place of the first.
			for _, l := range []login.Login{shop, bakery} {
				if p, ok, err := v.Load(l); p != pairOf("2") || !ok || err != nil {
					t.Errorf("%s is worked on with %+v, %v", l.Project, p, err)
				}
			}
			if p, ok, err := v.Load(bob); p != pairOf("bob") || !ok || err != nil {
				t.Errorf("somebody else's is %+v, %v", p, err)
			}
			if all, err := v.List(""); err != nil || len(all) != 2 {
				t.Errorf("two people are kept as %v, %v", all, err)
			}
			if out := unignored(t, v); out != "" {
				t.Errorf("a home that is a repository would take up\n%s", out)
			}
			all := texts(t, v) // which also looks at the modes
			if strings.Contains(all, "refresh-1") || strings.Contains(all, "refresh-2") == c.inChain {
				t.Errorf("the files hold\n%s", all)
			}
			if err := v.Drop(shop); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := v.Load(bakery); ok || err != nil {
				t.Errorf("signed out in one project, the other goes on: %v", err)
			}
			if _, ok, err := v.Load(bob); !ok || err != nil {
				t.Errorf("somebody else was signed out too: %v", err)
			}
		})
	}
}

// unignored makes the folder above the vault's a repository and lists what git sees.
func unignored(t *testing.T, v login.Vault) string {
	t.Helper()
	out := ""
	for _, args := range [][]string{{"init", "-q"}, {"status", "--porcelain", "-uall"}} {
		b, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", filepath.Dir(v.Dir)}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, b)
		}
		out = string(b)
	}
	return out
}

// keepAlone writes a sign-in as they were kept while each was for one project.
func keepAlone(t *testing.T, v login.Vault, l login.Login, name string, p login.Pair) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"address": l.Address, "tenant": l.Tenant, "project": l.Project, "email": l.Email, "pair": p})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(v.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(v.Dir, name+".json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The names under which two sign-ins of one project each were kept.
const (
	aloneShop   = "d45490f8bc71cc45a711b831fda113be"
	aloneBakery = "5e195c0dc556ff582d5f951364a049a4"
)

func TestASignInKeptForOneProjectGoesOnUntilTheNextOne(t *testing.T) {
	bakery := with(func(l *login.Login) { l.Project = "bakery" })
	hc := &http.Client{Transport: inside(func(r *http.Request) (int, any, error) {
		if r.Method == http.MethodGet {
			return 200, server, nil
		}
		return 200, map[string]string{"access_token": "access-new", "refresh_token": "refresh-new"}, nil
	})}
	v, _ := newVault(t, hc)
	path := keepAlone(t, v, shop, aloneShop, pairOf("shop"))
	other := keepAlone(t, v, bakery, aloneBakery, pairOf("bakery"))
	if p, ok, err := v.Load(shop); p != pairOf("shop") || !ok || err != nil {
		t.Fatalf("an earlier sign-in is %+v, %v", p, err)
	}
	if got, err := v.Renew(t.Context(), shop, "access-shop"); got != "access-new" || err != nil {
		t.Fatalf("it renews to %q, %v", got, err)
	}
	for _, one := range []struct {
		l    login.Login
		want login.Pair
	}{{shop, pairOf("new")}, {bakery, pairOf("bakery")}} {
		if p, ok, err := v.Load(one.l); p != one.want || !ok || err != nil {
			t.Errorf("renewed, %s is worked on with %+v, %v", one.l.Project, p, err)
		}
	}
	if _, ok, err := v.Load(with(func(l *login.Login) { l.Project = "third" })); ok || err != nil {
		t.Errorf("it is taken for a project that it is not for: %v", err)
	}
	if _, err := v.Save(t.Context(), bakery, pairOf("machine")); err != nil {
		t.Fatal(err)
	}
	for _, l := range []login.Login{shop, bakery} {
		if p, ok, err := v.Load(l); p != pairOf("machine") || !ok || err != nil {
			t.Errorf("signed in again, %s is worked on with %+v, %v", l.Project, p, err)
		}
	}
	for _, gone := range []string{path, other} {
		if _, err := os.Stat(gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
}

// A command that meets the refusal of its token while its person signs in anew must
// not throw the new sign-in away.
func TestASignInMadeWhileAnOlderOneRenewsIsKept(t *testing.T) {
	renewing, saved := make(chan struct{}), make(chan struct{})
	hc := &http.Client{Transport: inside(func(r *http.Request) (int, any, error) {
		if r.Method == http.MethodGet {
			return 200, server, nil
		}
		close(renewing)
		return 400, word("invalid_grant"), nil
	})}
	v, _ := newVault(t, hc)
	if _, err := v.Save(t.Context(), shop, pairOf("1")); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(saved)
		<-renewing
		if _, err := v.Save(t.Context(), shop, pairOf("2")); err != nil {
			t.Error(err)
		}
	}()
	if _, err := v.Renew(t.Context(), shop, "access-1"); err == nil {
		t.Error("a sign-in that was replaced renews")
	}
	<-saved
	if p, ok, err := v.Load(shop); p != pairOf("2") || !ok || err != nil {
		t.Errorf("the new sign-in is %+v, %v", p, err)
	}
}
