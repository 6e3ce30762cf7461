package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/seal"
	"github.com/lazyplane/lazyplane/pkg/seal/file"
	"github.com/lazyplane/lazyplane/pkg/seal/sealtest"
)

func open(t *testing.T, dir string) *seal.Envelope {
	t.Helper()
	s, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFilesKeepTheContract(t *testing.T) {
	sealtest.Run(t, func(t *testing.T) func() sealtest.Sealer {
		dir := t.TempDir()
		return func() sealtest.Sealer { return open(t, dir) }
	})
}

func TestKeysAreReadableByTheirOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	if _, err := s.Seal(t.Context(), "local", "credential", []byte("x")); err != nil {
		t.Fatal(err)
	}
	found := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if !d.IsDir() {
			found++
		}
		return err
	})
	if err != nil || found != 2 {
		t.Errorf("%d key files (%v), want the master key and one data key", found, err)
	}
}

func TestAKeyThatCannotBeUsedIsRefusedAndNeverReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		mode os.FileMode
		want fault.Kind
	}{
		"readable by others": {make([]byte, 32), 0o644, fault.Denied},
		"cut short":          {make([]byte, 31), 0o600, fault.Unavailable},
		"too long":           {make([]byte, 33), 0o600, fault.Unavailable},
		"empty":              {nil, 0o600, fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, file.MasterFile)
			if err := os.WriteFile(path, c.data, c.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := file.New(dir); fault.KindOf(err) != c.want {
				t.Errorf("got %v, want a fault of kind %s", err, c.want)
			}
			if b, err := os.ReadFile(path); err != nil || len(b) != len(c.data) {
				t.Errorf("the key was touched: %d bytes, %v", len(b), err)
			}
		})
	}
}

func TestAnotherMachinesKeyOpensNothing(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	sealed, err := open(t, here).Seal(t.Context(), "local", "credential", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	open(t, there)
	if err := os.CopyFS(filepath.Join(there, file.KeysDir), os.DirFS(filepath.Join(here, file.KeysDir))); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, there).Open(t.Context(), "local", "credential", sealed)
	if fault.KindOf(err) != fault.Unavailable || errors.Is(err, seal.ErrOpen) {
		t.Errorf("got %v, want that the data key cannot be read", err)
	}
}
