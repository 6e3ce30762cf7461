package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/login"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

func (e *Env) projectCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "project",
		Short: "Say which project this clone works with",
		Long: "project lists the projects that you may enter and has this clone work with one of them. One sign-in is\n" +
			"enough for all of them. Which one it is lies in the clone's git directory; its remote decides nothing.",
		Example: "  lazy project list\n  lazy project bind shop",
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.projectList(), e.projectShow(), e.projectBind(), e.projectUnbind())
	return c
}

func (e *Env) projectList() *cobra.Command {
	host := ""
	c := &cobra.Command{
		Use: "list", Short: "List the projects that you may enter", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			cl, err := e.projectClient(c.Context(), host)
			if err != nil {
				return err
			}
			raw, err := raw(c.Context(), cl, "listProjects", args{})
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Projects) error {
				rows := make([][]string, len(out.Projects))
				for i, p := range out.Projects {
					here := ""
					if p.Current {
						here = "yes"
					}
					rows[i] = []string{p.Project, p.Role, here}
				}
				return e.printf("%s", e.table([]string{"PROJECT", "ROLE", "USED"}, rows))
			})
		},
	}
	c.Flags().StringVar(&host, "host", "", "the address of the control plane, where this machine is signed in to several")
	e.jsonFlag(c)
	return c
}

// projectClient asks the control plane that was named, else the one in charge here,
// else the one that this machine is signed in to.
func (e *Env) projectClient(ctx context.Context, host string) (Client, error) {
	if host == "" {
		cl, err := e.client(ctx)
		if err == nil || !e.nowhere(err) {
			return cl, err
		}
	}
	l, err := e.signInAt(host, "")
	if err != nil {
		return nil, err
	}
	return e.signedIn(l)
}

// signInAt is the sign-in of this machine that was meant: at an address and in a team
// where they were named, else the clone's own, else the only one.
func (e *Env) signInAt(typed, tenant string) (login.Login, error) {
	address := ""
	if typed != "" {
		var err error
		if address, err = login.Address(typed); err != nil {
			return login.Login{}, err
		}
	}
	v, err := e.vault()
	if err != nil {
		return login.Login{}, err
	}
	all, err := v.List(address)
	if err != nil {
		return login.Login{}, err
	}
	bound, isBound, err := login.Bound(e.Dir)
	if err != nil {
		return login.Login{}, err
	}
	var fit []login.Login
	for _, l := range all {
		if tenant != "" && l.Tenant != tenant || slices.ContainsFunc(fit, l.Same) {
			continue
		}
		if isBound && l.Same(bound) {
			return bound, nil
		}
		fit = append(fit, l)
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		at := address
		if at == "" {
			at = "ADDRESS"
		}
		return login.Login{}, login.SignInAgain(at)
	}
	var where []string
	for _, l := range fit {
		where = append(where, l.Tenant+" at "+l.Address)
	}
	return login.Login{}, fault.New(fault.Invalid, "this machine has several sign-ins: %s", line(strings.Join(where, ", "))).
		WithNext("Name the address with --host, and the team as in: lazy project bind TEAM/PROJECT")
}

func (e *Env) projectShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show", Short: "Print the project that this clone is bound to", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			l, ok, err := login.Bound(e.Dir)
			if err != nil {
				return err
			}
			if !ok {
				return refusal.Of(refusal.NotBound)
			}
			return e.printf("%s of %s at %s, as %s\n", line(l.Project), line(l.Tenant), line(l.Address), line(l.Email))
		},
	}
	return c
}

func (e *Env) projectBind() *cobra.Command {
	host := ""
	c := &cobra.Command{
		Use: "bind [[TEAM/]PROJECT]", Short: "Have this clone work with a project",
		Long: "bind has this clone work with another project that you may enter, with the sign-in that this machine has.\n" +
			"Without a project it asks for one.",
		Args: optional(), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if err := e.inContainer("`lazy project bind`"); err != nil {
				return err
			}
			tenant, project := "", ""
			if len(words) > 0 {
				project = words[0]
				if team, name, ok := strings.Cut(project, "/"); ok {
					tenant, project = team, name
				}
			} else if !e.TTY(e.In) {
				return refusal.Of(refusal.ProjectRequired).WithNext("Name it: lazy project bind PROJECT")
			}
			l, err := e.signInAt(host, tenant)
			if err != nil {
				return err
			}
			return e.bind(c.Context(), l, project)
		},
	}
	c.Flags().StringVar(&host, "host", "", "the address of the control plane, where this machine is signed in to several")
	return c
}

// bind has this clone work with a project that the sign-in l may enter; "" asks which.
func (e *Env) bind(ctx context.Context, l login.Login, project string) error {
	v, err := e.vault()
	if err != nil {
		return err
	}
	all, err := v.List(l.Address)
	if err != nil {
		return err
	}
	for _, k := range all {
		if k.Same(l) {
			l = k // ask as the sign-in's own project: the clone's may be the one that is gone
			break
		}
	}
	cl, err := e.signedIn(l)
	if err != nil {
		return err
	}
	var out op.Projects
	if err := cl.Call(ctx, "listProjects", args{}, &out); err != nil {
		return err
	}
	mine := make([]string, len(out.Projects))
	for i, p := range out.Projects {
		mine[i] = p.Project
	}
	if project == "" {
		if project, err = e.ask("Project (" + line(strings.Join(mine, ", ")) + "): "); err != nil {
			return err
		}
	}
	if !slices.Contains(mine, project) {
		return fault.New(fault.NotFound, "there is no project %s of %s that you may enter; the clone is bound as before", line(project), line(l.Tenant)).
			WithNext("`lazy project list` shows those there are.")
	}
	l.Project = project
	if _, ok, err := v.Load(l); err != nil || !ok {
		if err == nil {
			err = login.SignInAgain(l.Address) // the sign-in is one of those that are good for one project
		}
		return err
	}
	if err := login.Bind(e.Dir, l); err != nil {
		return err
	}
	if url := e.Getenv(names.EnvTarget); url != "" {
		e.note("%s is set and wins over this clone's project", names.EnvTarget)
	}
	return e.printf("This clone works with %s of %s now.\n", line(project), line(l.Tenant))
}

func (e *Env) projectUnbind() *cobra.Command {
	return &cobra.Command{
		Use: "unbind", Short: "Have this clone work with no project elsewhere", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if err := e.inContainer("`lazy project unbind`"); err != nil {
				return err
			}
			l, ok, err := login.Bound(e.Dir)
			if err != nil {
				return err
			}
			if !ok {
				return refusal.Of(refusal.NotBound)
			}
			if err := login.Unbind(e.Dir); err != nil {
				return err
			}
			return e.printf("This clone works with %s no more. This machine stays signed in: lazy logout %s\n", line(l.Project), line(l.Address))
		},
	}
}
