// Package secret is the port to where model credentials are kept. A secret lies
// there sealed only; what a keeper lists besides is no secret (HO-034).
package secret

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/model"
)

// Credential is a stored model credential. Owner is the folded email of the
// person it belongs to; "" is the project's own, and on a laptop everything is.
type Credential struct {
	Owner    string       `json:"owner,omitempty"`
	Name     string       `json:"name"`
	Provider string       `json:"provider"`
	Scheme   model.Scheme `json:"scheme"`
	Upstream string       `json:"upstream"`
	Sealed   []byte       `json:"sealed"`
	Added    time.Time    `json:"added_at"`
	Rotated  time.Time    `json:"rotated_at,omitzero"`
}

// Purpose is what a credential's secret is sealed for: its very place, so that a
// sealed secret moved to another one does not open.
func (c Credential) Purpose() string { return "model-credential/" + c.Owner + "/" + c.Name }

// ErrExists means that another credential has that place.
var ErrExists = errors.New("secret: there is a credential of that name")

// ErrNone means that there is no such credential.
var ErrNone = errors.New("secret: there is no credential of that name")

// Keeper keeps the credentials of tenants. A write is durable when it returns.
type Keeper interface {
	// List returns the tenant's credentials of every owner, in the order of owners
	// and names.
	List(ctx context.Context, tenant string) ([]Credential, error)
	// Create stores one that must not be there: ErrExists.
	Create(ctx context.Context, tenant string, c Credential) error
	// Replace stores one that must be there: ErrNone.
	Replace(ctx context.Context, tenant string, c Credential) error
	// Delete removes one that must be there: ErrNone.
	Delete(ctx context.Context, tenant, owner, name string) error
}

// Fold is the one spelling of an email that credentials are kept under (HO-023).
func Fold(email string) string { return strings.ToLower(strings.TrimSpace(email)) }
