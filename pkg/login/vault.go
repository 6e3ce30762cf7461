package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// Login names a project and the sign-in with which this machine works on it. It
// holds no secret. Kept beside the secret of a sign-in, the project is the one that
// was chosen with it.
type Login struct {
	Address string `json:"address"`
	Tenant  string `json:"tenant"`
	Project string `json:"project"`
	Email   string `json:"email,omitempty"`
}

// Same reports whether two are of one sign-in: of one person, at one address, in one
// team, whatever the project (LG-009).
func (l Login) Same(o Login) bool {
	l.Project, o.Project = "", ""
	return l == o
}

// name is what the sign-in is kept under.
func (l Login) name() string { return filed("machine", l.Address, l.Tenant, l.Email) }

// nameAlone is what a sign-in is kept under that is good for its project alone, as
// they were before one was for a machine.
func (l Login) nameAlone() string { return filed(l.Address, l.Tenant, l.Project) }

func filed(of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(of, "\n")))
	return hex.EncodeToString(sum[:16])
}

// Pair is what a sign-in holds.
type Pair struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh"`
}

// Keys is the keychain of a machine. Any error of it means that there is none.
type Keys interface {
	Get(service, name string) (string, error)
	Set(service, name, secret string) error
	Delete(service, name string) error
}

// System is the keychain of this machine. One that does not answer in time, because
// it waits for somebody to unlock it, counts as none.
type System struct{ Patience time.Duration }

// service is what the keychain's entries are filed under.
const service = "lazyplane"

var errSilent = errors.New("login: the keychain does not answer")

func (s System) in(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	t := time.NewTimer(s.Patience)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errSilent
	}
}

// Get reads an entry.
func (s System) Get(service, name string) (string, error) {
	found := make(chan string, 1)
	err := s.in(func() error {
		v, err := keyring.Get(service, name)
		found <- v
		return err
	})
	if err != nil {
		return "", err
	}
	return <-found, nil
}

// Set writes an entry.
func (s System) Set(service, name, secret string) error {
	return s.in(func() error { return keyring.Set(service, name, secret) })
}

// Delete removes an entry.
func (s System) Delete(service, name string) error {
	return s.in(func() error { return keyring.Delete(service, name) })
}

// Vault keeps the sign-ins of this machine: each in the keychain, or on any error
// there in a file that only its user can read (LG-009).
type Vault struct {
	Dir  string // outside every repository
	Keys Keys
	// Lock takes a lock that ends with the process; false when another has it.
	Lock func(path string) (unlock func(), ok bool, err error)
	HTTP *http.Client
}

// kept is the file of a sign-in. The pair is in it only where no keychain has it.
type kept struct {
	Login
	Pair *Pair `json:"pair,omitempty"`
}

func (v Vault) file(name string) string { return filepath.Join(v.Dir, name+".json") }

// find returns the sign-in that l is worked on with, and what it is kept under: the
// machine's own, else one that is good for the project alone.
func (v Vault) find(l Login) (name string, k kept, ok bool, err error) {
	for _, name := range []string{l.name(), l.nameAlone()} {
		k, ok, err := read(v.file(name))
		if err != nil || ok && k.Same(l) {
			return name, k, ok, err
		}
	}
	return l.name(), kept{}, false, nil
}

// Save keeps a new sign-in of this machine, in place of whatever its person had in
// that team, and reports whether the keychain took it.
func (v Vault) Save(ctx context.Context, l Login, p Pair) (inKeychain bool, err error) {
	if err := os.MkdirAll(v.Dir, 0o700); err != nil {
		return false, fault.Wrap(fault.Failed, err, "there is no place to keep a sign-in: %s", v.Dir)
	}
	// A home directory may be a repository: what lies here is none of its files.
	if err := config.WritePrivate(filepath.Join(v.Dir, ".gitignore"), []byte("*\n")); err != nil {
		return false, err
	}
	unlock, err := v.alone(ctx, l.name())
	if err != nil {
		return false, err
	}
	defer unlock()
	before, err := v.List(l.Address)
	if err != nil {
		return false, err
	}
	if inKeychain, err = v.write(l.name(), l, p); err != nil {
		return false, err
	}
	for _, old := range before {
		if !old.Same(l) {
			continue
		}
		if err := v.forget(old.nameAlone()); err != nil {
			return inKeychain, err
		}
	}
	return inKeychain, nil
}

func (v Vault) write(name string, l Login, p Pair) (inKeychain bool, err error) {
	secret, err := json.Marshal(p)
	if err != nil {
		return false, err
	}
	k := kept{Login: l}
	if err := v.Keys.Set(service, name, string(secret)); err != nil {
		k.Pair = &p
	}
	b, err := json.Marshal(k)
	if err != nil {
		return false, err
	}
	return k.Pair == nil, config.WritePrivate(v.file(name), append(b, '\n'))
}

// Load reads the sign-in that l is worked on with; ok is false when this machine has
// none.
func (v Vault) Load(l Login) (p Pair, ok bool, err error) {
	name, k, ok, err := v.find(l)
	if err != nil || !ok {
		return p, false, err
	}
	if k.Pair != nil {
		return *k.Pair, true, nil
	}
	secret, err := v.Keys.Get(service, name)
	if err != nil || json.Unmarshal([]byte(secret), &p) != nil {
		return p, false, nil //nolint:nilerr // a keychain that has lost it is like none: sign in again
	}
	return p, true, nil
}

func read(path string) (k kept, ok bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil {
		return k, false, fault.Wrap(fault.Invalid, err, "the sign-in in %s cannot be read", path).WithNext("Remove the file and sign in again.")
	}
	return k, true, nil
}

// Drop forgets the sign-in that l is worked on with.
func (v Vault) Drop(l Login) error {
	name, _, _, err := v.find(l)
	return errors.Join(err, v.forget(name))
}

func (v Vault) forget(name string) error {
	_ = v.Keys.Delete(service, name) // it may never have been there
	err := os.Remove(v.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// List names the sign-ins at an address, all of them for "".
func (v Vault) List(address string) ([]Login, error) {
	files, err := filepath.Glob(filepath.Join(v.Dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []Login
	for _, f := range files {
		k, ok, err := read(f)
		if err != nil {
			return nil, err
		}
		if ok && (address == "" || k.Address == address) {
			out = append(out, k.Login)
		}
	}
	return out, nil
}

// patience is how long a process waits for another one that renews.
const patience = 30 * time.Second

// alone waits until no other process changes what is kept under a name.
func (v Vault) alone(ctx context.Context, name string) (unlock func(), err error) {
	for {
		unlock, mine, err := v.Lock(filepath.Join(v.Dir, name+".lock"))
		if err != nil {
			return nil, fmt.Errorf("lock the sign-in: %w", err)
		}
		if mine {
			return unlock, nil
		}
		if err := client.Rest(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// Renew replaces an access token that was refused. Of many processes that meet the
// refusal at once one renews and the others use what it got. One whose answer was lost
// is asked again by the next command that meets the refusal, with the same token.
func (v Vault) Renew(ctx context.Context, l Login, refused string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name, k, _, err := v.find(l)
	if err != nil {
		return "", err
	}
	unlock, err := v.alone(ctx, name)
	if err != nil {
		return "", err
	}
	defer unlock()
	p, ok, err := v.Load(l)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", SignInAgain(l.Address)
	}
	if p.Access != refused {
		return p.Access, nil // another one was quicker
	}
	s, err := Discover(ctx, v.HTTP, l.Address)
	if err != nil {
		return "", err
	}
	t, err := s.Renew(ctx, v.HTTP, p.Refresh)
	if errors.Is(err, ErrWithdrawn) {
		return "", errors.Join(SignInAgain(l.Address), v.Drop(l))
	}
	if err != nil {
		return "", err
	}
	_, err = v.write(name, k.Login, Pair{t.Access, t.Refresh})
	return t.Access, err
}

// SignInAgain is the refusal of a machine that is not signed in.
func SignInAgain(address string) error {
	e := refusal.Of(refusal.Unauthenticated)
	e.Next = []fault.Next{{For: "cli", Text: "Run `lazy login " + address + "`."}}
	return e
}
