package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/login"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// noKeys stands for a machine without a keychain.
type noKeys struct{}

var errNoKeys = errors.New("there is no keychain")

func (noKeys) Get(string, string) (string, error) { return "", errNoKeys }
func (noKeys) Set(string, string, string) error   { return errNoKeys }
func (noKeys) Delete(string, string) error        { return errNoKeys }

func (e *Env) transport() *http.Transport {
	if e.Transport != nil {
		return e.Transport
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment}
}

// loginWait bounds one request about a sign-in; none of them is held.
const loginWait = 30 * time.Second

func (e *Env) loginHTTP() *http.Client {
	return &http.Client{Transport: e.transport(), Timeout: loginWait}
}

// vault is where this machine's sign-ins are kept.
func (e *Env) vault() (login.Vault, error) {
	home, err := config.Home(e.Getenv)
	if err != nil {
		return login.Vault{}, err
	}
	v := login.Vault{Dir: filepath.Join(home, "logins"), Keys: e.Keys, Lock: e.Lock, HTTP: e.loginHTTP()}
	if v.Keys == nil {
		v.Keys = noKeys{}
	}
	return v, nil
}

// elsewhere is the address of the control plane in charge when it is not the
// project's own: LAZY_TARGET, or the one that this clone is bound to.
func (e *Env) elsewhere() string {
	if url := e.Getenv(names.EnvTarget); url != "" {
		return url
	}
	if l, ok, err := login.Bound(e.Dir); err == nil && ok {
		return l.Address
	}
	return ""
}

// signedIn returns a client that uses a sign-in and renews it.
func (e *Env) signedIn(l login.Login) (Client, error) {
	v, err := e.vault()
	if err != nil {
		return nil, err
	}
	p, ok, err := v.Load(l)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, login.SignInAgain(l.Address)
	}
	return &client.Client{
		Base: l.Address, Token: p.Access, HTTP: &http.Client{Transport: e.transport()}, Actor: e.Getenv(names.EnvActor), Project: l.Project,
		Renew: func(ctx context.Context, refused string) (string, error) { return v.Renew(ctx, l, refused) },
	}, nil
}

// loginAt uses the machine's sign-in at an address that was named: the clone's own
// where it has one there, else the only one.
func (e *Env) loginAt(address string) (Client, error) {
	if l, ok, err := login.Bound(e.Dir); err == nil && ok && l.Address == address {
		return e.signedIn(l)
	}
	v, err := e.vault()
	if err != nil {
		return nil, err
	}
	all, err := v.List(address)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, refusal.Of(refusal.Unauthenticated).
			WithNext(fmt.Sprintf("Set %s to a credential for %s.", names.EnvToken, address))
	case len(all) > 1:
		return nil, refusal.Of(refusal.ProjectRequired).WithNext("Work in a clone that is bound to one of your projects there: lazy project bind TEAM/PROJECT --host " + address)
	}
	return e.signedIn(all[0])
}

// inContainer refuses what only a person's own terminal does.
func (e *Env) inContainer(what string) error {
	if e.Getenv(names.EnvSocket) != "" || e.Getenv(names.EnvTask) != "" {
		return refusal.Of(refusal.InContainer, what)
	}
	return nil
}

func (e *Env) loginCommand() *cobra.Command {
	host, project, noBrowser := "", "", false
	c := &cobra.Command{
		Use:   "login [ADDRESS]",
		Short: "Sign this machine in to a control plane elsewhere",
		Long: "Sign this machine in to a control plane elsewhere, and have this clone work with a project there.\n" +
			"You approve in a browser, on any machine: the command prints an address and a code and waits.\n" +
			"The credential goes to the keychain, or to a file only you can read. It is one for this machine and all\n" +
			"projects of the team that you may enter: `lazy project bind` has another clone work with another one.",
		Example: "  lazy login https://lazy.example.com\n  lazy login lazy.example.com --project shop --no-browser",
		Args:    between(0, 1, "the address"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if err := e.inContainer("`lazy login`"); err != nil {
				return err
			}
			typed := host
			if len(words) == 1 {
				if host != "" {
					return usage(c, "name the address once")
				}
				typed = words[0]
			}
			if typed == "" {
				typed = e.elsewhere()
			}
			if typed == "" {
				return usage(c, "the address is missing")
			}
			if project == "" && !e.TTY(e.In) {
				return refusal.Of(refusal.ProjectRequired)
			}
			return e.login(c.Context(), typed, project, noBrowser)
		},
	}
	c.Flags().StringVar(&host, "host", "", "the address, in place of the argument")
	c.Flags().StringVar(&project, "project", "", "the project to ask for; without it you choose one in the browser")
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address")
	return c
}

func (e *Env) login(ctx context.Context, typed, project string, noBrowser bool) error {
	address, err := login.Address(typed)
	if err != nil {
		return err
	}
	v, err := e.vault()
	if err != nil {
		return err
	}
	server, err := login.Discover(ctx, v.HTTP, address)
	if away, ok := errors.AsType[*client.UnreachableError](err); ok {
		return fault.New(fault.Unavailable, "%s", away.Error()).WithNext("Check the address, then type it again: lazy login ADDRESS")
	}
	if err != nil {
		return err
	}
	m, err := e.machine(v.Dir)
	if err != nil {
		return err
	}
	m.Project = project
	codes, err := server.Begin(ctx, v.HTTP, m)
	if err != nil {
		return err
	}
	if err := e.printf("To sign in, open\n\n  %s\n\nand enter the code\n\n  %s\n\nIt is valid for %s. Waiting for you to approve there.\n",
		line(codes.At), line(codes.User), span(time.Duration(codes.Expires)*time.Second)); err != nil {
		return err
	}
	if !noBrowser && e.TTY(e.Out) {
		e.browse(ctx, codes.At)
	}
	t, err := server.Wait(ctx, v.HTTP, e.Now, codes)
	if err != nil {
		return err
	}
	l := login.Login{Address: address, Tenant: t.Tenant, Project: t.Project, Email: t.Email}
	if project != "" && t.Project != project {
		err := server.End(ctx, v.HTTP, t.Refresh)
		return errors.Join(fault.New(fault.Denied, "you asked for the project %s and approved %s; nothing was kept", project, line(t.Project)), err)
	}
	inKeychain, err := v.Save(ctx, l, login.Pair{Access: t.Access, Refresh: t.Refresh})
	if err != nil {
		return err
	}
	where := "in a file that only you can read, since there is no keychain: " + clean(v.Dir)
	if inKeychain {
		where = "in the keychain"
	}
	bound := "This clone works with the project " + line(t.Project) + " now."
	if err := login.Bind(e.Dir, l); err != nil {
		bound = "Here is no clone to bind to a project; set " + names.EnvTarget + "=" + address + " to use it."
	}
	return e.printf("Signed in as %s, to %s at %s.\nThe credential is %s.\n%s\n",
		line(t.Email), line(t.Tenant), address, where, bound)
}

// browse opens an address in the person's browser, if there is a way to. The page
// asks for the code: whoever has only the address cannot approve by accident.
func (e *Env) browse(ctx context.Context, at string) {
	for _, opener := range [][]string{{"xdg-open", at}, {"open", at}, {"rundll32", "url.dll,FileProtocolHandler", at}} {
		if _, err := e.LookPath(opener[0]); err == nil {
			if _, err := e.Output(ctx, e.Dir, opener...); err == nil {
				return
			}
		}
	}
}

// machine is what the control plane is told of this one. Its id is drawn once, so
// that signing in again here replaces what the machine had.
func (e *Env) machine(dir string) (login.Machine, error) {
	path := filepath.Join(dir, "machine")
	b, err := os.ReadFile(path)
	if err != nil {
		b = []byte(id.Gen{Rand: rand.Reader}.New())
		if err := config.WritePrivate(path, b); err != nil {
			return login.Machine{}, err
		}
	}
	name, err := os.Hostname()
	if err != nil {
		name = "unnamed"
	}
	return login.Machine{Name: name, ID: strings.TrimSpace(string(b))}, nil
}

func (e *Env) logoutCommand() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use:   "logout [ADDRESS]",
		Short: "Withdraw this machine's sign-in and unbind this clone",
		Long: "Withdraw the sign-in that this clone uses, or those at an address, and forget it here.\n" +
			"The control plane is told first; when it cannot be reached the sign-in is forgotten here all the same.",
		Args: between(0, 1, "the address"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if err := e.inContainer("`lazy logout`"); err != nil {
				return err
			}
			if all && len(words) > 0 {
				return usage(c, "--all takes no address")
			}
			out, err := e.logins(words, all)
			if err != nil {
				return err
			}
			return e.logout(c.Context(), out)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every sign-in of this machine")
	return c
}

// logins are the sign-ins that a logout is about.
func (e *Env) logins(words []string, all bool) ([]login.Login, error) {
	v, err := e.vault()
	if err != nil {
		return nil, err
	}
	if all {
		return v.List("")
	}
	if len(words) == 1 {
		address, err := login.Address(words[0])
		if err != nil {
			return nil, err
		}
		return v.List(address)
	}
	l, ok, err := login.Bound(e.Dir)
	if err != nil {
		return nil, err
	}
	if ok {
		return []login.Login{l}, nil
	}
	return nil, refusal.Of(refusal.NotBound).WithNext("Name the address, or everything: lazy logout --all")
}

func (e *Env) logout(ctx context.Context, out []login.Login) error {
	v, err := e.vault()
	if err != nil {
		return err
	}
	bound, isBound, err := login.Bound(e.Dir)
	if err != nil {
		return err
	}
	if len(out) == 0 {
		return e.printf("This machine is not signed in there.\n")
	}
	for _, l := range out {
		told := e.withdraw(ctx, v, l)
		if err := v.Drop(l); err != nil {
			return fault.Wrap(fault.Failed, err, "the sign-in at %s cannot be removed from this machine", l.Address)
		}
		if isBound && bound.Same(l) {
			if _, left, err := v.Load(bound); err != nil || !left {
				if err := errors.Join(err, login.Unbind(e.Dir)); err != nil {
					return err
				}
			}
		}
		if told != nil {
			e.note("%s could not be told (%s): the sign-in is forgotten here, and ends there by itself", l.Address, line(told.Error()))
			continue
		}
		if err := e.printf("Signed out of %s at %s.\n", line(l.Tenant), l.Address); err != nil {
			return err
		}
	}
	return nil
}

// withdraw tells the control plane that a sign-in is over.
func (e *Env) withdraw(ctx context.Context, v login.Vault, l login.Login) error {
	p, ok, err := v.Load(l)
	if err != nil || !ok {
		return err
	}
	s, err := login.Discover(ctx, v.HTTP, l.Address)
	if err != nil {
		return err
	}
	return s.End(ctx, v.HTTP, p.Refresh)
}
