package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/secret"
	"github.com/lazyplane/lazyplane/pkg/secret/file"
)

func one(owner, name string) secret.Credential {
	return secret.Credential{Owner: owner, Name: name, Provider: "claude", Sealed: []byte("sealed " + name)}
}

func TestAKeeperKeepsTenantsAndOwnersApart(t *testing.T) {
	ctx, k := t.Context(), file.New(filepath.Join(t.TempDir(), "credentials"))
	if got, err := k.List(ctx, "a"); err != nil || len(got) != 0 {
		t.Fatalf("a keeper without a folder lists %v, %v", got, err)
	}
	for _, c := range []secret.Credential{one("", "z"), one("", "b"), one("ada@example.com", "b"), one("", "../up")} {
		if err := k.Create(ctx, "a", c); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Create(ctx, "a", one("", "b")); !errors.Is(err, secret.ErrExists) {
		t.Errorf("a second of one name: %v", err)
	}
	got, err := k.List(ctx, "a")
	want := []secret.Credential{one("", "../up"), one("", "b"), one("", "z"), one("ada@example.com", "b")}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("list: %v\n%s", err, d)
	}
	if got, err := k.List(ctx, "b"); err != nil || len(got) != 0 {
		t.Errorf("another tenant lists %v, %v", got, err)
	}
	if err := k.Delete(ctx, "b", "", "b"); !errors.Is(err, secret.ErrNone) {
		t.Errorf("delete in another tenant: %v", err)
	}
	if err := k.Replace(ctx, "a", one("", "none")); !errors.Is(err, secret.ErrNone) {
		t.Errorf("replace of nothing: %v", err)
	}
	next := one("", "b")
	next.Sealed = []byte("other")
	if err := errors.Join(k.Replace(ctx, "a", next), k.Delete(ctx, "a", "", "z"), k.Delete(ctx, "a", "", "../up")); err != nil {
		t.Fatal(err)
	}
	got, err = k.List(ctx, "a")
	if d := cmp.Diff([]secret.Credential{next, one("ada@example.com", "b")}, got); err != nil || d != "" {
		t.Errorf("list after changes: %v\n%s", err, d)
	}
}

func TestCredentialFilesAreReadableByTheirOwnerOnly(t *testing.T) {
	req.Covers(t, "HO-021")
	dir := filepath.Join(t.TempDir(), "credentials")
	k := file.New(dir)
	if err := errors.Join(k.Create(t.Context(), "a", one("", "b")), k.Replace(t.Context(), "a", one("", "b"))); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !d.IsDir() {
			files++
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files != 1 {
		t.Errorf("%d files: %v", files, err)
	}
}

func TestADamagedCredentialIsNamedAndNotTakenForNone(t *testing.T) {
	dir := t.TempDir()
	k := file.New(dir)
	if err := k.Create(t.Context(), "a", one("", "b")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = k.List(t.Context(), "a")
	if f := fault.Of(err); f == nil || f.Kind != fault.Unavailable || !strings.Contains(f.Public, files[0]) {
		t.Errorf("list: %v", err)
	}
}

func TestOneOfManyCreatorsWins(t *testing.T) {
	k := file.New(t.TempDir())
	var won atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			switch err := k.Create(t.Context(), "a", one("", "b")); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, secret.ErrExists):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d creators won", won.Load())
	}
}
