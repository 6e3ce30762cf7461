package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// The roles of a member.
const (
	RoleAdmin  = "admin"
	RoleMember = "member"
)

// Member is a person in a tenant: the one row that decides whether they may come
// in, and to which projects.
type Member struct {
	Email    string    `json:"email"`
	Name     string    `json:"name,omitempty"`
	Role     string    `json:"role"`
	Projects []string  `json:"projects"`
	Added    time.Time `json:"added"`
	Version  int64     `json:"version"`
	Removed  time.Time `json:"removed,omitzero"` // set while what they hold is withdrawn
}

// Entry is one project that a person may enter.
type Entry struct {
	Tenant  string `json:"tenant"`
	Project string `json:"project"`
	Role    string `json:"role"`
}

// mailbox is an address as people are known by: identity providers spell the same
// one in more than one way.
func mailbox(email string) (string, bool) {
	email = strings.ToLower(text.Line(email))
	at := strings.LastIndexByte(email, '@')
	return email, at > 0 && at < len(email)-1 && len(email) <= 254 && !strings.ContainsAny(email, " #\\")
}

func whoHash(email string) string {
	h := sha256.Sum256([]byte(email))
	return hex.EncodeToString(h[:])
}

// AddMember lets a person into a project. Being let in again changes nothing but
// a name that was given; a role is never lowered by it.
func (a *App) AddMember(ctx context.Context, tenant, project, email, name, role string) error {
	email, ok := mailbox(email)
	if !ok {
		return fault.New(fault.Invalid, "that is not the address of a person")
	}
	tn := store.For(tenant)
	for range tries {
		m, there, err := get[Member](ctx, a.Store, tn.Member(email))
		if err != nil {
			return err
		}
		cond := store.VersionIs(m.Version)
		if !there {
			cond = store.Absent()
		}
		if !there || !m.Removed.IsZero() {
			m = Member{Email: email, Role: role, Added: a.Now(), Version: m.Version}
		}
		if name != "" {
			m.Name = text.Line(name)
		}
		if role == RoleAdmin {
			m.Role = RoleAdmin
		}
		if !slices.Contains(m.Projects, project) {
			m.Projects = append(m.Projects, project)
		}
		m.Version++
		w := memberWrite(tenant, m, cond)
		pointer := put(store.For(names.TenantReserved).Person(whoHash(email)).Key(tenant), "where", Entry{Tenant: tenant})
		err = a.Store.Transact(ctx, w, pointer)
		if _, lost := errors.AsType[*store.ConflictError](err); !lost {
			return err
		}
	}
	return fault.New(fault.Unavailable, "others keep changing this member; nothing was written")
}

// Entries lists what a person may enter, by tenant and project. For somebody
// nobody knows it is empty, and so it is for somebody whose member rows are gone.
func (a *App) Entries(ctx context.Context, email string) ([]Entry, error) {
	email, ok := mailbox(email)
	if !ok {
		return nil, nil
	}
	where, err := allOf[Entry](ctx, a.Store, store.For(names.TenantReserved).Person(whoHash(email)), "")
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, w := range where {
		m, ok, err := get[Member](ctx, a.Store, store.For(w.Tenant).Member(email))
		if err != nil {
			return nil, err
		}
		if !ok || !m.Removed.IsZero() {
			continue
		}
		for _, p := range m.Projects {
			out = append(out, Entry{Tenant: w.Tenant, Project: p, Role: m.Role})
		}
	}
	return out, nil
}

// enters finds the member row that lets a person into a project, with one read.
func (a *App) enters(ctx context.Context, tenant, project, email string) (Member, bool, error) {
	m, ok, err := get[Member](ctx, a.Store, store.For(tenant).Member(email))
	return m, ok && m.Removed.IsZero() && slices.Contains(m.Projects, project), err
}

// Enter turns a caller to the project that their request names. A person's sign-in
// is one for all the projects of the team that they may enter (LG-009), so another
// one than its own takes one read more; every other credential is of one project.
func (a *App) Enter(ctx context.Context, who identity.Caller, project string) (identity.Caller, error) {
	if project == "" || project == who.Project {
		return who, nil
	}
	if who.Kind != identity.User || !projectName.MatchString(project) {
		return identity.Caller{}, noEntry()
	}
	_, ok, err := a.enters(ctx, who.Tenant, project, who.Email)
	if err != nil {
		return identity.Caller{}, err
	}
	if !ok {
		return identity.Caller{}, noEntry()
	}
	who.Project = project
	return who, nil
}

// Projects is the list of projects that a caller can work with.
type Projects struct {
	Projects []ProjectEntry `json:"projects" jsonschema:"by name"`
}

// ProjectEntry is one of them.
type ProjectEntry struct {
	Project string `json:"project" jsonschema:"its name"`
	Role    string `json:"role,omitempty" jsonschema:"what the person is there: admin or member"`
	Current bool   `json:"current" jsonschema:"whether it is the one this request is about"`
}

// ListProjects lists what the caller's credential reaches: of a person everything
// they may enter in the team, of any other the one it is for.
func (a *App) ListProjects(ctx context.Context, c Call) (Projects, error) {
	out := Projects{Projects: []ProjectEntry{{Project: c.Who.Project, Current: true}}}
	if a.Local || c.Who.Kind != identity.User {
		return out, nil
	}
	m, ok, err := get[Member](ctx, a.Store, store.For(c.Who.Tenant).Member(c.Who.Email))
	if err != nil {
		return out, err
	}
	out.Projects = []ProjectEntry{}
	if !ok || !m.Removed.IsZero() {
		return out, nil
	}
	for _, p := range slices.Sorted(slices.Values(m.Projects)) {
		out.Projects = append(out.Projects, ProjectEntry{Project: p, Role: m.Role, Current: p == c.Who.Project})
	}
	return out, nil
}

// noEntry is the refusal of a project that a person may not enter, whether it is
// there or not.
func noEntry() error {
	return fault.New(fault.NotFound, "There is no such project that you may enter.")
}

func memberWrite(tenant string, m Member, cond ...store.Cond) store.Write {
	w := put(store.For(tenant).Member(m.Email), "member", m, cond...)
	w.Item.Attr[store.AttrVersion] = m.Version
	return w
}

// RemoveMember puts a person out of the tenant: their sign-ins, tokens and builder
// sessions end with it, their records stay (OP-012). The row says so first, so
// that nothing new begins while the rest is withdrawn; doing it again finishes it.
func (a *App) RemoveMember(ctx context.Context, tenant, email string) error {
	email, ok := mailbox(email)
	if !ok || !tenantName.MatchString(tenant) {
		return fault.New(fault.Invalid, "that is not the address of a person in a tenant")
	}
	tn := store.For(tenant)
	m, there, err := get[Member](ctx, a.Store, tn.Member(email))
	if err != nil {
		return err
	}
	if !there {
		return nil
	}
	was := m.Version
	m.Removed, m.Version = a.Now(), m.Version+1
	if err := a.Store.Transact(ctx, memberWrite(tenant, m, store.VersionIs(was))); err != nil {
		return err
	}
	families, err := a.familiesOf(ctx, tenant, email)
	if err != nil {
		return err
	}
	for _, f := range families {
		if err := a.endFamily(ctx, tenant, f, "the person was removed"); err != nil {
			return err
		}
	}
	for _, p := range m.Projects {
		if err := a.endPerson(ctx, tenant, p, email); err != nil {
			return err
		}
	}
	gone := func(k store.Key) store.Write { return store.Write{Act: store.Delete, Item: store.Item{Key: k}} }
	row := gone(tn.Member(email))
	row.If = []store.Cond{store.VersionIs(m.Version)}
	return a.Store.Transact(ctx, row, gone(store.For(names.TenantReserved).Person(whoHash(email)).Key(tenant)))
}

// endPerson withdraws what a person holds in a project beside their sign-ins.
func (a *App) endPerson(ctx context.Context, tenant, project, email string) error {
	if err := a.endToken(ctx, tenant, string(identity.User), project, email, "the person was removed"); err != nil {
		return err
	}
	who := identity.Caller{Tenant: tenant, Project: project}
	sessions, err := a.builders(ctx, who)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		if mine, _ := mailbox(s.Email); mine != email {
			continue
		}
		if err := a.endBuilder(ctx, who, s.Label, "the person was removed"); err != nil {
			return err
		}
	}
	return nil
}

// endToken withdraws the token of an identity for good: asked for again, it has
// another secret.
func (a *App) endToken(ctx context.Context, tenant, kind, project, subject, why string) error {
	tn := store.For(tenant)
	of := tn.TokenOf(kind, project, subject)
	have, ok, err := get[identity.Token](ctx, a.Store, of)
	if err != nil || !ok {
		return err
	}
	have.Revoked, have.Why = a.Now(), ""
	a.Log.InfoContext(ctx, "a token is withdrawn", "kind", kind, "tenant", tenant, "project", project, "why", why)
	return a.Store.Transact(ctx, store.Write{Act: store.Delete, Item: store.Item{Key: of}}, put(tn.Token(have.Hash), "token", have))
}
