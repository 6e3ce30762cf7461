package app

import (
	"context"
	"errors"

	"github.com/lazyplane/lazyplane/pkg/secret"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// table keeps credentials in the one table, where no other keeper was given.
type table struct{ s store.Store }

var _ secret.Keeper = table{}

func (v table) List(ctx context.Context, tenant string) ([]secret.Credential, error) {
	pk, prefix := store.For(tenant).Credentials()
	return allOf[secret.Credential](ctx, v.s, store.Partition{PK: pk}, prefix)
}

func (v table) Create(ctx context.Context, tenant string, c secret.Credential) error {
	return v.put(ctx, tenant, c, store.Absent(), secret.ErrExists)
}

func (v table) Replace(ctx context.Context, tenant string, c secret.Credential) error {
	return v.put(ctx, tenant, c, store.Present(), secret.ErrNone)
}

func (v table) put(ctx context.Context, tenant string, c secret.Credential, cond store.Cond, lost error) error {
	err := v.s.Transact(ctx, put(store.For(tenant).Credential(c.Owner, c.Name), "model-credential", c, cond))
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return lost
	}
	return err
}

func (v table) Delete(ctx context.Context, tenant, owner, name string) error {
	err := v.s.Transact(ctx, store.Write{
		Act: store.Delete, Item: store.Item{Key: store.For(tenant).Credential(owner, name)}, If: []store.Cond{store.Present()},
	})
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return secret.ErrNone
	}
	return err
}
