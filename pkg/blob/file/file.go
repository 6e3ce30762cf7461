// Package file keeps blobs as files under one folder, written once and never
// changed.
package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/blob"
)

// Store is a blob store on disk.
type Store struct {
	dir   string
	crash func(point string)
}

// Option adjusts a store.
type Option func(*Store)

// WithCrashPoint has hook called around the moment a blob appears under its name.
func WithCrashPoint(hook func(point string)) Option { return func(s *Store) { s.crash = hook } }

var (
	_ blob.Store  = (*Store)(nil)
	_ blob.Purger = (*Store)(nil)
)

// New returns the store under dir, which is made private when missing.
func New(dir string, opts ...Option) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make blob folder: %w", err)
	}
	s := &Store{dir: dir, crash: func(string) {}}
	for _, o := range opts {
		o(s)
	}
	return s, nil
}

func (s *Store) path(key string) (string, error) {
	if err := blob.CheckKey(key); err != nil {
		return "", err
	}
	return filepath.Join(s.dir, filepath.FromSlash(key)), nil
}

// Put stores data under key, durably. The same bytes again are a success.
func (s *Store) Put(ctx context.Context, key string, data []byte) (err error) {
	p, err := s.path(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if done, err := holds(p, key, data); done || err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return fmt.Errorf("make folder of blob %s: %w", key, err)
	}
	f, err := os.CreateTemp(filepath.Dir(p), ".put-*")
	if err != nil {
		return fmt.Errorf("write blob %s: %w", key, err)
	}
	defer os.Remove(f.Name())
	_, werr := f.Write(data)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write blob %s: %w", key, err)
	}
	// The name appears only with all its bytes on disk, and replaces nothing.
	s.crash("blob.put.before")
	err = os.Link(f.Name(), p)
	if errors.Is(err, fs.ErrExist) {
		_, err = holds(p, key, data)
		return err
	}
	if err != nil {
		return fmt.Errorf("write blob %s: %w", key, err)
	}
	s.crash("blob.put.after")
	return nil
}

// holds reports whether a key is taken by data; by other bytes is an error.
func holds(p, key string, data []byte) (bool, error) {
	have, err := os.ReadFile(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look at blob %s: %w", key, err)
	case !bytes.Equal(have, data):
		return false, fmt.Errorf("%w: %s", blob.ErrExists, key)
	}
	return true, nil
}

// Get reads what was put under key.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	p, err := s.path(key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blob.ErrNotFound
	}
	return b, err
}

// Delete removes a blob; an absent one is a success.
func (s *Store) Delete(_ context.Context, key string) error {
	p, err := s.path(key)
	if err != nil {
		return err
	}
	if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete blob %s: %w", key, err)
	}
	return nil
}

// Purge removes every blob below prefix.
func (s *Store) Purge(_ context.Context, prefix string) error {
	p, err := s.path(prefix)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(p); err != nil {
		return fmt.Errorf("purge blobs of %s: %w", prefix, err)
	}
	return nil
}
