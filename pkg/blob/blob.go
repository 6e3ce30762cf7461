// Package blob is the port to the store of large immutable bytes: texts over
// 16 KB, conversations, checkpoints.
package blob

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// ErrNotFound is returned for a key never put.
var ErrNotFound = errors.New("blob: no such object")

// ErrExists is returned for a key that holds other bytes than those to be put.
var ErrExists = errors.New("blob: the key holds other bytes")

// Store keeps immutable objects. Putting a key again with the same bytes is a
// success; with others it is ErrExists, also for two that put at the same time.
// Keys are slash-separated and begin with the tenant.
type Store interface {
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) error
}

// Purger is a Store that can remove everything below a prefix of whole segments.
type Purger interface {
	Purge(ctx context.Context, prefix string) error
}

// Link lets whoever holds it do one thing with one object for a short time.
type Link struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Header map[string]string `json:"header,omitempty"` // to be sent as they are
	Until  time.Time         `json:"until"`
}

// Signer is a Store that gives others links, so that bytes need not pass through
// the control plane.
type Signer interface {
	// Upload lets exactly the bytes of this length and SHA-256 be put under a key
	// that holds nothing yet.
	Upload(ctx context.Context, key string, size int64, sha256 [32]byte) (Link, error)
	Download(ctx context.Context, key string) (Link, error)
}

// CheckKey refuses what is no key: stores differ in what they make of such names.
func CheckKey(key string) error {
	if key == "" || len(key) > 900 || path.Clean("/"+key) != "/"+key || strings.ContainsAny(key, "\\\x00") {
		return fmt.Errorf("blob: %.200q is not a key", key)
	}
	return nil
}
