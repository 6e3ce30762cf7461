// Package file keeps model credentials as files of mode 0600 in one folder,
// outside of every repository and every mount, so that what a person stores once
// serves all projects of the machine (HO-021).
package file

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/secret"
)

// Keeper is the folder.
type Keeper struct{ dir string }

var _ secret.Keeper = (*Keeper)(nil)

// New returns the keeper over dir, which is made when the first credential is.
func New(dir string) *Keeper { return &Keeper{dir: dir} }

const suffix = ".json"

// folder keeps tenants apart. Neither names nor emails become paths.
func (k *Keeper) folder(tenant string) string { return filepath.Join(k.dir, digest(tenant)) }

func (k *Keeper) path(tenant, owner, name string) string {
	return filepath.Join(k.folder(tenant), digest(owner+"\x00"+name)+suffix)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// List reads every file of the tenant. One that cannot be read is an error: a
// credential that silently went missing would be taken for none.
func (k *Keeper) List(_ context.Context, tenant string) ([]secret.Credential, error) {
	all, err := os.ReadDir(k.folder(tenant))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the credentials in %s cannot be read", k.folder(tenant))
	}
	var out []secret.Credential
	for _, e := range all {
		if e.IsDir() || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		c, err := read(filepath.Join(k.folder(tenant), e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b secret.Credential) int {
		return cmp.Or(strings.Compare(a.Owner, b.Owner), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

func read(path string) (secret.Credential, error) {
	var c secret.Credential
	b, err := os.ReadFile(path)
	if err == nil {
		if json.Unmarshal(b, &c) == nil && c.Name != "" {
			return c, nil
		}
		err = errors.New("it is damaged")
	}
	return c, fault.Wrap(fault.Unavailable, err, "the credential in %s cannot be read", path).
		WithNext("Remove that file and store the credential again: lazy auth add.")
}

// Create stores a credential under a name that is free.
func (k *Keeper) Create(_ context.Context, tenant string, c secret.Credential) error {
	tmp, err := k.write(tenant, c)
	if err != nil {
		return err
	}
	// A link, unlike a rename, does not replace what is there.
	err = os.Link(tmp, k.path(tenant, c.Owner, c.Name))
	if rerr := os.Remove(tmp); err == nil {
		err = rerr
	}
	if errors.Is(err, fs.ErrExist) {
		return secret.ErrExists
	}
	if err != nil {
		return fmt.Errorf("store credential %s: %w", c.Name, err)
	}
	return nil
}

// Replace stores a credential in place of one of its name.
func (k *Keeper) Replace(_ context.Context, tenant string, c secret.Credential) error {
	path := k.path(tenant, c.Owner, c.Name)
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return secret.ErrNone
		}
		return fmt.Errorf("replace credential %s: %w", c.Name, err)
	}
	tmp, err := k.write(tenant, c)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(fmt.Errorf("replace credential %s: %w", c.Name, err), os.Remove(tmp))
	}
	return nil
}

// Delete removes a credential.
func (k *Keeper) Delete(_ context.Context, tenant, owner, name string) error {
	err := os.Remove(k.path(tenant, owner, name))
	if errors.Is(err, fs.ErrNotExist) {
		return secret.ErrNone
	}
	if err != nil {
		return fmt.Errorf("remove credential %s: %w", name, err)
	}
	return nil
}

// write makes a private file beside the others, on disk before it gets its name.
func (k *Keeper) write(tenant string, c secret.Credential) (string, error) {
	dir := k.folder(tenant)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make credential folder: %w", err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(c); err != nil {
		return "", fmt.Errorf("encode credential %s: %w", c.Name, err)
	}
	f, err := os.CreateTemp(dir, ".put-*") // created 0600
	if err != nil {
		return "", fmt.Errorf("write credential %s: %w", c.Name, err)
	}
	_, werr := f.Write(b.Bytes())
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("write credential %s: %w", c.Name, err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}
