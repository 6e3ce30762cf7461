// Package seal is the port to encryption at rest: stored credentials, checkpoints
// and everything else that must not be readable in a table or a bucket (DESIGN 8).
// Bytes are sealed under a data key of their tenant, and that key is stored only
// wrapped by a master key, so deleting one small row makes all of a tenant's
// sealed bytes unreadable for ever.
package seal

import (
	"context"
	"errors"
)

// Sealer encrypts and decrypts. What was sealed for one tenant and purpose does
// not open for another: both are authenticated with the bytes. Purposes are
// constants of the caller, such as "credential" or "checkpoint".
type Sealer interface {
	Seal(ctx context.Context, tenant, purpose string, plain []byte) ([]byte, error)
	Open(ctx context.Context, tenant, purpose string, sealed []byte) ([]byte, error)
}

// Shredder is a Sealer that can make everything it sealed for a tenant
// unreadable. Shredding what was never sealed is a success.
type Shredder interface {
	Shred(ctx context.Context, tenant string) error
}

// ErrOpen means that the bytes are not what this tenant sealed for this purpose:
// changed, cut, another tenant's, or sealed for something else.
var ErrOpen = errors.New("seal: not sealed for this tenant and purpose")

// ErrShredded means that the key the bytes were sealed with is gone for good.
var ErrShredded = errors.New("seal: the key of these bytes has been deleted")

// ErrNoKey is what Keys answers for a tenant without a data key.
var ErrNoKey = errors.New("seal: the tenant has no data key")

// Wrapper encrypts data keys under a master key that never leaves its keeper.
// The tenant is authenticated, so a wrapped key moved to another tenant does not
// unwrap.
type Wrapper interface {
	Wrap(ctx context.Context, tenant string, key []byte) ([]byte, error)
	Unwrap(ctx context.Context, tenant string, wrapped []byte) ([]byte, error)
}

// Keys keeps one wrapped data key per tenant.
type Keys interface {
	// Load returns the tenant's wrapped key or ErrNoKey.
	Load(ctx context.Context, tenant string) ([]byte, error)
	// Create stores a wrapped key unless there is one, and returns the one that
	// is stored: of two first writers, both use the winner's.
	Create(ctx context.Context, tenant string, wrapped []byte) ([]byte, error)
	// Delete removes the tenant's key; an absent one is a success.
	Delete(ctx context.Context, tenant string) error
}
