package seal

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Sealed bytes are: format, id of the data key, salt, ciphertext with its tag.
const (
	format    = 1
	idSize    = 8
	saltSize  = 32
	keySize   = 32
	nonceSize = 12
	// Overhead is what sealing adds to the length of the bytes.
	Overhead = 1 + idSize + saltSize + 16
)

// kept bounds the unwrapped data keys that are held in memory.
const kept = 256

// Envelope is the Sealer over a place for wrapped keys and something that wraps
// them. The tenant's row is read at every use, so a shredded key stops working at
// once everywhere, whatever is held in memory.
type Envelope struct {
	keys Keys
	wrap Wrapper

	mu    sync.Mutex
	plain map[[sha256.Size]byte][]byte // guarded by mu; by digest of tenant and wrapped key
}

var (
	_ Sealer   = (*Envelope)(nil)
	_ Shredder = (*Envelope)(nil)
)

// NewEnvelope returns the sealer.
func NewEnvelope(keys Keys, wrap Wrapper) *Envelope {
	return &Envelope{keys: keys, wrap: wrap, plain: map[[sha256.Size]byte][]byte{}}
}

// Seal encrypts plain for one tenant and purpose. The tenant's data key is made
// at the first use.
func (e *Envelope) Seal(ctx context.Context, tenant, purpose string, plain []byte) ([]byte, error) {
	if tenant == "" || purpose == "" {
		return nil, fault.New(fault.Internal, "sealing needs a tenant and a purpose")
	}
	wrapped, err := e.keys.Load(ctx, tenant)
	if errors.Is(err, ErrNoKey) {
		wrapped, err = e.create(ctx, tenant)
	}
	if err != nil {
		return nil, err
	}
	key, err := e.unwrap(ctx, tenant, wrapped)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(plain)+Overhead)
	out = append(out, format)
	out = append(out, keyID(wrapped)...)
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails: the runtime ends the program instead
	out = append(out, salt...)
	gcm, nonce, err := derive(key, salt, tenant, purpose)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(out, nonce, plain, out[:1+idSize]), nil
}

// Open decrypts what Seal made for the same tenant and purpose.
func (e *Envelope) Open(ctx context.Context, tenant, purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < Overhead || sealed[0] != format {
		return nil, ErrOpen
	}
	wrapped, err := e.keys.Load(ctx, tenant)
	if errors.Is(err, ErrNoKey) {
		return nil, ErrShredded
	}
	if err != nil {
		return nil, err
	}
	head, salt, body := sealed[:1+idSize], sealed[1+idSize:1+idSize+saltSize], sealed[1+idSize+saltSize:]
	if !bytes.Equal(head[1:], keyID(wrapped)) {
		return nil, ErrShredded
	}
	key, err := e.unwrap(ctx, tenant, wrapped)
	if err != nil {
		return nil, err
	}
	gcm, nonce, err := derive(key, salt, tenant, purpose)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, nonce, body, head)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}

// Shred deletes the tenant's data key.
func (e *Envelope) Shred(ctx context.Context, tenant string) error {
	return e.keys.Delete(ctx, tenant)
}

func (e *Envelope) create(ctx context.Context, tenant string) ([]byte, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails: the runtime ends the program instead
	wrapped, err := e.wrap.Wrap(ctx, tenant, key)
	if err != nil {
		return nil, err
	}
	return e.keys.Create(ctx, tenant, wrapped)
}

// unwrap asks the wrapper once per wrapped key.
func (e *Envelope) unwrap(ctx context.Context, tenant string, wrapped []byte) ([]byte, error) {
	at := sha256.Sum256(append(framed(tenant), wrapped...))
	e.mu.Lock()
	key := e.plain[at]
	e.mu.Unlock()
	if key != nil {
		return key, nil
	}
	key, err := e.wrap.Unwrap(ctx, tenant, wrapped)
	if err != nil {
		return nil, err
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("unwrap data key of %s: it has %d bytes", tenant, len(key))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.plain) >= kept {
		clear(e.plain)
	}
	e.plain[at] = key
	return key, nil
}

// derive gives every sealing a key and nonce of its own, so that no number of
// them under one data key can repeat a nonce.
func derive(key, salt []byte, tenant, purpose string) (cipher.AEAD, []byte, error) {
	info := "lazyplane seal 1" + string(framed(tenant)) + string(framed(purpose))
	b, err := hkdf.Key(sha256.New, key, salt, info, keySize+nonceSize)
	if err != nil {
		return nil, nil, fmt.Errorf("derive sealing key: %w", err)
	}
	block, err := aes.NewCipher(b[:keySize])
	if err != nil {
		return nil, nil, fmt.Errorf("make cipher: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, fmt.Errorf("make cipher: %w", err)
	}
	return gcm, b[keySize:], nil
}

// framed is a text with its length, so that no two pairs of texts run together
// into the same bytes.
func framed(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

func keyID(wrapped []byte) []byte {
	sum := sha256.Sum256(wrapped)
	return sum[:idSize]
}
