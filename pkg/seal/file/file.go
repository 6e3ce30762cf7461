// Package file keeps the keys of a laptop: one master key in a file that only its
// owner reads, and one wrapped data key per tenant beside it.
package file

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/seal"
)

// Names below the directory that is handed to New.
const (
	MasterFile = "seal.key" // 32 bytes, mode 0600
	KeysDir    = "seal"     // wrapped data keys, by digest of the tenant
)

const masterSize = 32

// New returns the sealer whose keys lie in dir, and makes the master key when
// there is none. A master key that others may read, or that is not one, is
// refused: it is never replaced, because what it sealed would be lost.
func New(dir string) (*seal.Envelope, error) {
	if err := os.MkdirAll(filepath.Join(dir, KeysDir), 0o700); err != nil {
		return nil, fmt.Errorf("make key folder: %w", err)
	}
	path := filepath.Join(dir, MasterFile)
	master, err := load(path)
	if errors.Is(err, fs.ErrNotExist) {
		fresh := make([]byte, masterSize)
		_, _ = rand.Read(fresh) // never fails: the runtime ends the program instead
		if err := create(path, fresh); err != nil {
			return nil, err
		}
		master, err = load(path) // another process may have been first
	}
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(master)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	return seal.NewEnvelope(keys{filepath.Join(dir, KeysDir)}, wrapper{gcm}), nil
}

func load(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the key %s cannot be read", path)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the key %s cannot be read", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Denied, "the key %s can be read by others (mode %04o)", path, info.Mode().Perm()).
			WithNext("Run `chmod 600 " + path + "`.")
	}
	b := make([]byte, masterSize+1)
	n, err := f.Read(b)
	if err != nil || n != masterSize {
		return nil, fault.New(fault.Unavailable, "%s is not a key of %d bytes", path, masterSize).
			WithNext("Restore it from a backup: without it, nothing that was sealed can be read.")
	}
	return b[:n], nil
}

// create writes a file that appears with all its bytes and replaces nothing; one
// that is there already is a success.
func create(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	defer os.Remove(f.Name())
	_, werr := f.Write(data)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write key: %w", err)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

type wrapper struct{ gcm cipher.AEAD }

func (w wrapper) Wrap(_ context.Context, tenant string, key []byte) ([]byte, error) {
	return w.gcm.Seal(nil, nil, key, []byte(tenant)), nil
}

func (w wrapper) Unwrap(_ context.Context, tenant string, wrapped []byte) ([]byte, error) {
	key, err := w.gcm.Open(nil, nil, wrapped, []byte(tenant))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the data key cannot be read with this machine's %s", MasterFile)
	}
	return key, nil
}

type keys struct{ dir string }

func (k keys) path(tenant string) string {
	sum := sha256.Sum256([]byte(tenant))
	return filepath.Join(k.dir, hex.EncodeToString(sum[:16]))
}

func (k keys) Load(_ context.Context, tenant string) ([]byte, error) {
	b, err := os.ReadFile(k.path(tenant))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, seal.ErrNoKey
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the data key cannot be read")
	}
	return b, nil
}

func (k keys) Create(ctx context.Context, tenant string, wrapped []byte) ([]byte, error) {
	if err := create(k.path(tenant), wrapped); err != nil {
		return nil, err
	}
	return k.Load(ctx, tenant)
}

func (k keys) Delete(_ context.Context, tenant string) error {
	if err := os.Remove(k.path(tenant)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete data key: %w", err)
	}
	return nil
}
