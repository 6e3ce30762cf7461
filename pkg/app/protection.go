package app

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// What the rules of a project may be at most, so that they stay one small row.
const (
	RulesMost = 100
	ruleMost  = 200 // bytes
)

// ProtectionRule is a pattern of files whose change by an agent a person decides
// about, and who made it one.
type ProtectionRule struct {
	Path   string         `json:"path" jsonschema:"a file, a glob, or a folder with a trailing / or /**"`
	By     identity.Actor `json:"by" jsonschema:"who added it"`
	ByText string         `json:"by_text,omitempty" jsonschema:"the same as one label"`
	At     time.Time      `json:"at" jsonschema:"when"`
}

// protectionRow is the record of a project's rules. It and not the lazy.toml of any
// commit decides, since agents write that file (HO-017).
type protectionRow struct {
	Rules []ProtectionRule `json:"rules"`
}

// ProtectionRules answers showProtection and setProtection.
type ProtectionRules struct {
	Rules    []ProtectionRule `json:"rules" jsonschema:"the rules in force"`
	OnlyFile []string         `json:"only_in_file,omitempty" jsonschema:"paths of lazy.toml's [protection] that are not in force: that file is read once, when the project begins"`
}

func protectionKey(tenant, project string) store.Key {
	return store.For(tenant).Project(project).Key("PROTECTION")
}

// protection reads the patterns in force. A project whose record nobody has made
// yet has those of its lazy.toml.
func (a *App) protection(ctx context.Context, tenant, project string) ([]string, error) {
	row, there, err := get[protectionRow](ctx, a.Store, protectionKey(tenant, project))
	if err != nil {
		return nil, err
	}
	if there {
		return row.paths(), nil
	}
	set, err := a.Settings(ctx, tenant, project)
	return set.Protected, err
}

func (r protectionRow) paths() []string {
	var out []string
	for _, rule := range r.Rules {
		out = append(out, rule.Path)
	}
	return out
}

// seeded is the record that a lazy.toml's section makes.
func (a *App) seeded(paths []string) protectionRow {
	row := protectionRow{Rules: []ProtectionRule{}}
	for _, p := range paths {
		if !slices.Contains(row.paths(), p) {
			row.Rules = append(row.Rules, ProtectionRule{Path: p, By: identity.SystemActor(), At: a.Now()})
		}
	}
	return row
}

// SeedProtection makes a project's record from its lazy.toml, unless there is one:
// what that file says later changes nothing (HO-017). A file that is not valid, by
// which nothing can be started, is left for the next beginning.
func (a *App) SeedProtection(ctx context.Context, tenant, project string) error {
	k := protectionKey(tenant, project)
	if _, there, err := get[protectionRow](ctx, a.Store, k); err != nil || there {
		return err
	}
	set, err := a.Settings(ctx, tenant, project)
	if fault.KindOf(err) == fault.Invalid {
		return nil
	}
	if err != nil {
		return err
	}
	w := put(k, "protection", a.seeded(set.Protected), store.Absent())
	w.Item.Attr[store.AttrVersion] = int64(1)
	err = a.Store.Transact(ctx, w)
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return nil // somebody else's is there
	}
	return err
}

// ShowProtection lists the rules in force, and what only lazy.toml says.
func (a *App) ShowProtection(ctx context.Context, c Call) (ProtectionRules, error) {
	set, err := a.Settings(ctx, c.Who.Tenant, c.Who.Project)
	if err != nil {
		return ProtectionRules{}, err
	}
	row, there, err := get[protectionRow](ctx, a.Store, protectionKey(c.Who.Tenant, c.Who.Project))
	if err != nil {
		return ProtectionRules{}, err
	}
	if !there {
		row = a.seeded(set.Protected)
	}
	out := ProtectionRules{Rules: []ProtectionRule{}}
	for _, r := range row.Rules {
		r.ByText = r.By.String()
		out.Rules = append(out.Rules, r)
	}
	for _, p := range set.Protected {
		if !slices.Contains(row.paths(), p) {
			out.OnlyFile = append(out.OnlyFile, p)
		}
	}
	return out, nil
}

// SetProtection adds rules and takes some away: the owner's, or an administrator's
// of the team, and nobody else's (HO-017). Adding one that is there and removing
// one that is not change nothing. It counts from the next look at each task on: at
// its next rest, and at its accept.
func (a *App) SetProtection(ctx context.Context, c Call, add, remove []string) (ProtectionRules, error) {
	if err := a.administers(ctx, c, "Changing what is protected"); err != nil {
		return ProtectionRules{}, err
	}
	clean, err := patterns(add)
	if err != nil {
		return ProtectionRules{}, err
	}
	k := protectionKey(c.Who.Tenant, c.Who.Project)
	for n := 0; ; n++ {
		it, err := a.Store.Get(ctx, k)
		cond, version := store.Absent(), int64(0)
		var row protectionRow
		switch {
		case err == nil:
			version = it.Int(store.AttrVersion)
			cond = store.VersionIs(version)
			row, err = decode[protectionRow](it)
		case errors.Is(err, store.ErrNotFound):
			var set Settings
			set, err = a.Settings(ctx, c.Who.Tenant, c.Who.Project)
			row = a.seeded(set.Protected)
		}
		if err != nil {
			return ProtectionRules{}, err
		}
		next := slices.DeleteFunc(slices.Clone(row.Rules), func(r ProtectionRule) bool { return slices.Contains(remove, r.Path) })
		for _, p := range clean {
			if !slices.ContainsFunc(next, func(r ProtectionRule) bool { return r.Path == p }) {
				next = append(next, ProtectionRule{Path: p, By: c.Actor(), At: a.Now()})
			}
		}
		if len(next) > RulesMost {
			return ProtectionRules{}, refusal.Of(refusal.InvalidArguments, "add", fmt.Sprintf("at most %d rules in one project", RulesMost), len(next))
		}
		if slices.Equal(next, row.Rules) {
			return a.ShowProtection(ctx, c)
		}
		w := put(k, "protection", protectionRow{Rules: next}, cond)
		w.Item.Attr[store.AttrVersion] = version + 1
		err = a.Store.Transact(ctx, w)
		if _, lost := errors.AsType[*store.ConflictError](err); lost && n < tries {
			continue
		}
		if err != nil {
			return ProtectionRules{}, err
		}
		a.Log.InfoContext(ctx, "protection was changed", "project", c.Who.Project, "by", c.Actor().String(), "rules", len(next))
		return a.ShowProtection(ctx, c)
	}
}

// patterns checks rules before any of them is stored.
func patterns(in []string) ([]string, error) {
	var out []string
	for _, p := range in {
		v := text.Field(strings.TrimSpace(p))
		_, err := path.Match(v, "")
		if v == "" || len(v) > ruleMost || err != nil || strings.HasPrefix(v, "/") || slices.Contains(strings.Split(v, "/"), "..") {
			return nil, refusal.Of(refusal.InvalidArguments, "add", fmt.Sprintf("paths inside the repository of at most %d bytes, such as go.mod, *.tf or infra/**", ruleMost), fmt.Sprintf("%q", cut(p, 60)))
		}
		out = append(out, v)
	}
	return out, nil
}

// administers refuses an act that is the owner's on a laptop and an
// administrator's in a team. The role is read from the member's own row at each
// call, so one that was taken away counts at once.
func (a *App) administers(ctx context.Context, c Call, action string) error {
	if c.Who.Kind == identity.Owner {
		return nil
	}
	m, ok, err := a.enters(ctx, c.Who.Tenant, c.Who.Project, c.Who.Email)
	if err != nil || ok && m.Role == RoleAdmin {
		return err
	}
	pk, prefix := store.For(c.Who.Tenant).Members()
	all, err := allOf[Member](ctx, a.Store, store.Partition{PK: pk}, prefix)
	if err != nil {
		return err
	}
	e := refusal.Of(refusal.AdminOnly, action)
	var who []string
	for _, m := range all {
		if m.Role == RoleAdmin && m.Removed.IsZero() && slices.Contains(m.Projects, c.Who.Project) {
			who = append(who, m.Email)
		}
	}
	if e.Next = nil; len(who) > 0 {
		e.Next = []fault.Next{{Text: "Ask one of: " + joined(who) + "."}}
	}
	return e
}
