package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/text"
)

func (e *Env) authCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "auth",
		Short: "Keep the keys that agents' models are called with",
		Long: "auth stores keys and subscription tokens of model services, sealed, outside of every repository.\n" +
			"Agents never see one: each launch gets a placeholder that works for that turn only. A secret is read\n" +
			"from a masked prompt or from standard input, never from the command line. In a project they are those\n" +
			"that its agents spend; elsewhere they are this machine's, or say with --host which control plane's.",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var at keptAt
	for _, sub := range []*cobra.Command{e.authAdd(&at), e.authList(&at), e.authRotate(&at), e.authRemove(&at)} {
		sub.Flags().BoolVar(&at.here, "local", false, "those of this machine, wherever you are")
		sub.Flags().StringVar(&at.host, "host", "", "your own at the control plane of that address, wherever you are")
		// What was typed in a wrong place may be a secret, so it is not repeated.
		sub.SetFlagErrorFunc(func(c *cobra.Command, _ error) error {
			return usage(c, "there is no such flag; a secret is never given on the command line")
		})
		c.AddCommand(sub)
	}
	return c
}

// only accepts one argument and repeats none of what came besides.
func only(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error {
		switch {
		case len(words) == 0 || text.Blank(words[0]):
			return usage(c, "%s is missing", what)
		case len(words) > 1:
			return usage(c, "only %s is an argument; a secret is never given on the command line", what)
		}
		return nil
	}
}

type authAddFlags struct {
	name, url                 string
	subscription, found, sure bool
}

func (e *Env) authAdd(at *keptAt) *cobra.Command {
	var f authAddFlags
	var known []string
	for _, p := range model.Providers() {
		known = append(known, p.Name)
	}
	c := &cobra.Command{
		Use:   "add " + strings.Join(known, "|"),
		Short: "Store a key or subscription token of a model service",
		Long: "add reads the secret from a masked prompt, or from standard input when that is a pipe or a file. With\n" +
			"--import it takes the one this machine has already, from the service's environment variable or from\n" +
			"the login of its own program, after asking.",
		Args: only("the service"), ValidArgs: known,
		RunE: func(c *cobra.Command, words []string) error { return e.addCredential(c, words[0], f, *at) },
	}
	c.Flags().StringVar(&f.name, "name", "", "what to call it; the service's name by default")
	c.Flags().BoolVar(&f.subscription, "subscription", false, "it is a token of a subscription plan, not an API key")
	c.Flags().StringVar(&f.url, "base-url", "", "call the service at this address instead of its own")
	c.Flags().BoolVar(&f.found, "import", false, "take over the credential that this machine has already")
	c.Flags().BoolVar(&f.sure, "yes", false, "with --import: do not ask")
	e.jsonFlag(c)
	return c
}

func (e *Env) addCredential(c *cobra.Command, service string, f authAddFlags, at keptAt) error {
	p, ok := model.Find(service)
	if !ok {
		return usage(c, "there is no such model service; those known are listed by lazy auth add --help")
	}
	call, err := e.keeper(c, at) // before anybody types a secret
	if err != nil {
		return err
	}
	scheme := model.Scheme("")
	if f.subscription {
		scheme = model.Subscription
	}
	secret := ""
	if f.found {
		got, ferr := e.findCredential(p)
		if ferr != nil {
			return ferr
		}
		as := f.name
		if as == "" {
			as = p.Name
		}
		question := fmt.Sprintf("Store the %s found in %s as %s?", got.what, got.where, as)
		if err = e.confirm("lazy auth add --import", question, f.sure); err != nil {
			return err
		}
		if got.note != "" {
			e.note("%s", got.note)
		}
		secret = got.secret
		if scheme == "" {
			scheme = got.scheme
		}
	} else if secret, err = e.secret("Key or token of " + p.Title); err != nil {
		return err
	}
	raw, err := call("putModelCredential", args{"provider": p.Name, "secret": secret}.
		with("name", f.name).with("scheme", string(scheme)).with("base_url", f.url))
	if err != nil {
		return err
	}
	return show(e, raw, func(out op.CredentialShown) error {
		return e.printf("Stored %s, sealed: %s for %s at %s.\n", line(out.Name), schemeText(out.Scheme), line(out.Provider), line(out.Upstream))
	})
}

// secret reads a secret from a masked prompt, else from standard input (HO-022).
func (e *Env) secret(what string) (string, error) {
	var s string
	var err error
	switch {
	case e.TTY(e.In) && e.Masked != nil:
		s, err = e.Masked(what + " (not shown): ")
	default:
		s, err = e.stdin("secret")
	}
	if err != nil {
		return "", err
	}
	if text.Blank(s) {
		return "", fault.New(fault.Invalid, "no secret was given").
			WithNext("Type it at the prompt, or pipe it in; it is never an argument or a flag.")
	}
	return strings.TrimSpace(s), nil
}

func schemeText(s model.Scheme) string {
	if s == model.Subscription {
		return "subscription token"
	}
	return "API key"
}

func (e *Env) authList(at *keptAt) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the stored credentials, never their secrets", Args: only0(),
		RunE: func(c *cobra.Command, _ []string) error {
			call, err := e.keeper(c, *at)
			if err != nil {
				return err
			}
			raw, err := call("listModelCredentials", args{})
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Credentials) error {
				if len(out.Credentials) == 0 {
					return e.printf("No model credential is stored.\nStore one: lazy auth add claude\n")
				}
				rows := make([][]string, len(out.Credentials))
				for i, v := range out.Credentials {
					used, at := "", v.Added
					if v.Used {
						used = "yes"
					}
					if v.Rotated.After(at) {
						at = v.Rotated
					}
					rows[i] = []string{v.Name, v.Provider, schemeText(v.Scheme), used, e.ago(at), v.Upstream}
				}
				return e.printf("%s", e.table([]string{"NAME", "SERVICE", "KIND", "USED", "STORED", "ADDRESS"}, rows))
			})
		},
	}
	e.jsonFlag(c)
	return c
}

// only0 accepts no argument and repeats none.
func only0() cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error {
		if len(words) > 0 {
			return usage(c, "it takes no argument; a secret is never given on the command line")
		}
		return nil
	}
}

func (e *Env) authRotate(at *keptAt) *cobra.Command {
	c := &cobra.Command{
		Use: "rotate NAME", Short: "Replace the secret of a stored credential", Args: only("the name"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			call, err := e.keeper(c, *at)
			if err != nil {
				return err
			}
			secret, err := e.secret("The secret that replaces the one of " + line(words[0]))
			if err != nil {
				return err
			}
			raw, err := call("putModelCredential", args{"name": words[0], "secret": secret, "rotate": true})
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.CredentialShown) error {
				return e.printf("Replaced the secret of %s. Runs under way keep the old one until they end.\n", line(out.Name))
			})
		},
	}
	e.jsonFlag(c)
	return c
}

func (e *Env) authRemove(at *keptAt) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove"}, Short: "Forget a stored credential", Args: only("the name"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			call, err := e.keeper(c, *at)
			if err != nil {
				return err
			}
			if _, err := call("deleteModelCredential", args{"name": words[0]}); err != nil {
				return err
			}
			return e.printf("Forgot %s. Runs under way keep it until they end.\n", line(words[0]))
		},
	}
}

// warnUnconfigured says which agents cannot run for want of a credential (FC-012).
func (e *Env) warnUnconfigured(missing map[string]string) {
	for _, agent := range slices.Sorted(maps.Keys(missing)) {
		e.note("agent %s needs a credential that is not stored, so its turns are refused; others run. Store it: lazy auth add %s",
			line(agent), line(missing[agent]))
	}
}
