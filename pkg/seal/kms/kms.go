// Package kms keeps the keys of a hosted deployment: data keys are wrapped by one
// KMS key, which binds each to its tenant, and lie in the table.
package kms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/seal"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// New returns the sealer whose data keys lie in db, wrapped by the KMS key.
func New(api *kms.Client, key string, db store.Store) *seal.Envelope {
	return seal.NewEnvelope(keys{db}, wrapper{api, key})
}

type wrapper struct {
	api *kms.Client
	key string
}

// bound is authenticated by KMS and stands in its log of who used the key for whom.
func bound(tenant string) map[string]string { return map[string]string{names.KeyContext: tenant} }

func (w wrapper) Wrap(ctx context.Context, tenant string, key []byte) ([]byte, error) {
	out, err := w.api.Encrypt(ctx, &kms.EncryptInput{KeyId: &w.key, Plaintext: key, EncryptionContext: bound(tenant)})
	if err != nil {
		return nil, typed(ctx, err)
	}
	return out.CiphertextBlob, nil
}

func (w wrapper) Unwrap(ctx context.Context, tenant string, wrapped []byte) ([]byte, error) {
	out, err := w.api.Decrypt(ctx, &kms.DecryptInput{KeyId: &w.key, CiphertextBlob: wrapped, EncryptionContext: bound(tenant)})
	if err != nil {
		return nil, typed(ctx, err)
	}
	return out.Plaintext, nil
}

// typed says what a caller may do. A key that is disabled, deleted or not ours to
// use is for the operator to mend: the bytes it sealed are not lost by that, and can
// be read again afterwards.
func typed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code := ""
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		code = e.ErrorCode()
	}
	if _, ok := errors.AsType[*types.InvalidCiphertextException](err); ok {
		return fault.Wrap(fault.Internal, err, "the tenant's data key does not belong to this deployment's key")
	}
	if e := fault.Deployment(err, "the deployment's KMS key"); e != nil {
		return e
	}
	switch code {
	case "ThrottlingException", "LimitExceededException", "KMSInternalException", "DependencyTimeoutException", "KeyUnavailableException":
		return fault.Wrap(fault.Unavailable, err, "the key service does not answer")
	}
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && e.HTTPStatusCode() < http.StatusInternalServerError {
		return fault.Wrap(fault.Internal, err, "the key service refuses the control plane (%s)", code).
			WithNext("Check that the deployment's KMS key is enabled and that the control plane's role may use it.")
	}
	return fault.Wrap(fault.Unavailable, err, "the key service does not answer")
}

// keys are the rows T#t KEY.
type keys struct{ db store.Store }

type row struct {
	Wrapped []byte `json:"wrapped"`
}

func (k keys) Load(ctx context.Context, tenant string) ([]byte, error) {
	it, err := k.db.Get(ctx, store.For(tenant).DataKey())
	if errors.Is(err, store.ErrNotFound) {
		return nil, seal.ErrNoKey
	}
	if err != nil {
		return nil, fmt.Errorf("read data key: %w", err)
	}
	return decode(it)
}

func decode(it store.Item) ([]byte, error) {
	var r row
	if err := json.Unmarshal(it.Doc, &r); err != nil || len(r.Wrapped) == 0 {
		return nil, fmt.Errorf("read data key: the row is damaged (%w)", err)
	}
	return r.Wrapped, nil
}

func (k keys) Create(ctx context.Context, tenant string, wrapped []byte) ([]byte, error) {
	doc, err := json.Marshal(row{wrapped})
	if err != nil {
		return nil, fmt.Errorf("write data key: %w", err)
	}
	key := store.For(tenant).DataKey()
	err = k.db.Transact(ctx, store.Write{
		Act: store.Put, Item: store.Item{Key: key, Doc: doc, Attr: store.Attr{store.AttrType: "data-key"}}, If: []store.Cond{store.Absent()},
	})
	if lost, ok := errors.AsType[*store.ConflictError](err); ok && lost.Current.Attr != nil {
		return decode(lost.Current)
	}
	if err != nil {
		return nil, fmt.Errorf("write data key: %w", err)
	}
	return wrapped, nil
}

func (k keys) Delete(ctx context.Context, tenant string) error {
	err := k.db.Transact(ctx, store.Write{Act: store.Delete, Item: store.Item{Key: store.For(tenant).DataKey()}})
	if err != nil {
		return fmt.Errorf("delete data key: %w", err)
	}
	return nil
}
