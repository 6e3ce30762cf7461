package aws

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/seal"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// keyring keeps the key that token texts are derived with. It lies in the table,
// sealed for a tenant that nobody can have, so that whoever reads the table or a
// function's environment has nothing.
type keyring struct {
	db   store.Store
	seal seal.Sealer
}

// purpose is what the key is sealed for.
const purpose = "token-key"

// load returns the key, and makes it where there is none yet. Of two that make
// one, both use the first.
func (k keyring) load(ctx context.Context) ([]byte, error) {
	row := store.For(names.TenantReserved).TokenKey()
	it, err := k.db.Get(ctx, row)
	if err == nil {
		return k.seal.Open(ctx, names.TenantReserved, purpose, it.Doc)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	made := make([]byte, 32)
	_, _ = rand.Read(made) // never fails: it ends the process instead
	sealed, err := k.seal.Seal(ctx, names.TenantReserved, purpose, made)
	if err != nil {
		return nil, fmt.Errorf("seal the token key: %w", err)
	}
	err = k.db.Transact(ctx, store.Write{
		Act: store.Put, If: []store.Cond{store.Absent()},
		Item: store.Item{Key: row, Doc: sealed, Attr: store.Attr{store.AttrType: "key", "schema": int64(1)}},
	})
	if lost, ok := errors.AsType[*store.ConflictError](err); ok {
		return k.seal.Open(ctx, names.TenantReserved, purpose, lost.Current.Doc)
	}
	return made, err
}
