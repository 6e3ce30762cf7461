package app

import (
	"context"
	"errors"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Project is a hosted project's own row. On a laptop the repository says all of
// this itself.
type Project struct {
	Name    string    `json:"name"`
	Config  string    `json:"config"` // its lazy.toml
	Created time.Time `json:"created"`
}

// Bootstrap asks for a tenant, a project in it and a person's credential. It is
// for whoever runs the control plane: no request from outside reaches it.
type Bootstrap struct {
	Tenant  string `json:"tenant"`
	Project string `json:"project"`
	Config  string `json:"config"` // the project's lazy.toml
	Email   string `json:"email"`  // of the person; "" mints an operator's credential, which names nobody
	Name    string `json:"name,omitempty"`
	Role    string `json:"role,omitempty"` // of the person: admin or member; "" is admin for the tenant's first and member for the others
}

// Bootstrapped is the answer. The token is shown here and is not stored.
type Bootstrapped struct {
	Tenant  string        `json:"tenant"`
	Project string        `json:"project"`
	Kind    identity.Kind `json:"kind"`
	Token   string        `json:"token"`
}

var (
	tenantName  = pattern.New(`^[A-Za-z0-9-]{1,64}$`)
	projectName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// Bootstrap makes what is missing and returns the credential. Doing it again
// replaces the project's configuration and gives the same credential.
func (a *App) Bootstrap(ctx context.Context, in Bootstrap) (Bootstrapped, error) {
	in.Email, in.Name = text.Line(in.Email), text.Line(in.Name)
	switch {
	case !tenantName.MatchString(in.Tenant), in.Tenant == names.TenantReserved:
		return Bootstrapped{}, fault.New(fault.Invalid, "%q cannot be the name of a tenant; expected 1 to 64 letters, digits and -, and not %s", in.Tenant, names.TenantReserved)
	case !projectName.MatchString(in.Project):
		return Bootstrapped{}, fault.New(fault.Invalid, "%q cannot be the name of a project; expected 1 to 64 letters, digits and . _ -", in.Project)
	}
	if in.Email != "" {
		email, ok := mailbox(in.Email)
		if !ok {
			return Bootstrapped{}, fault.New(fault.Invalid, "%q is not the address of a person", in.Email)
		}
		in.Email = email
	}
	if in.Role != "" && in.Role != RoleAdmin && in.Role != RoleMember {
		return Bootstrapped{}, fault.New(fault.Invalid, "%q is no role of a person; expected %s or %s", in.Role, RoleAdmin, RoleMember)
	}
	tn := store.For(in.Tenant)
	now := a.Now()
	err := a.Store.Transact(ctx, put(tn.Meta(), "tenant", struct {
		Created time.Time `json:"created"`
	}{now}, store.Absent()))
	if _, there := errors.AsType[*store.ConflictError](err); err != nil && !there {
		return Bootstrapped{}, err
	}
	k := tn.Project(in.Project).Meta()
	have, ok, err := get[Project](ctx, a.Store, k)
	if err != nil {
		return Bootstrapped{}, err
	}
	if !ok {
		have = Project{Name: in.Project, Created: now}
	}
	have.Config = in.Config
	if err := a.Store.Transact(ctx, put(k, "project", have)); err != nil {
		return Bootstrapped{}, err
	}
	if err := a.SeedProtection(ctx, in.Tenant, in.Project); err != nil {
		return Bootstrapped{}, err
	}
	want := identity.Token{Kind: identity.User, Tenant: in.Tenant, Project: in.Project, Subject: in.Email, Email: in.Email, Name: in.Name}
	if in.Email != "" {
		if in.Role == "" {
			pk, prefix := tn.Members()
			have, err := a.Store.Query(ctx, store.Query{PK: pk, Prefix: prefix, Limit: 1})
			if err != nil {
				return Bootstrapped{}, err
			}
			in.Role = RoleMember
			if len(have.Items) == 0 {
				in.Role = RoleAdmin // whoever is there first
			}
		}
		if err := a.AddMember(ctx, in.Tenant, in.Project, in.Email, in.Name, in.Role); err != nil {
			return Bootstrapped{}, err
		}
	}
	if in.Email == "" {
		want.Kind, want.Subject, want.Name = identity.Operator, "operator", ""
	}
	token, err := a.mintNow(ctx, want)
	return Bootstrapped{Tenant: in.Tenant, Project: in.Project, Kind: want.Kind, Token: token}, err
}

// ProjectOf reads a hosted project's row.
func (a *App) ProjectOf(ctx context.Context, tenant, project string) (Project, error) {
	p, ok, err := get[Project](ctx, a.Store, store.For(tenant).Project(project).Meta())
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "there is no project %s", project)
	}
	return p, err
}
