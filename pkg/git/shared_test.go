package git

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestABrokerOpensTheSharedDirectoryWithoutDiscovering(t *testing.T) {
	r := newFixture(t).repo
	got, err := OpenShared(t.Context(), r.CommonDir)
	if err != nil {
		t.Fatal(err)
	}
	want, err := r.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if at, err := got.Resolve(t.Context(), "HEAD"); err != nil || at != want || got.Format != r.Format {
		t.Errorf("HEAD is %s in the shared directory (%v), want %s", at, err, want)
	}
	for _, dir := range []string{filepath.Dir(r.CommonDir), t.TempDir(), filepath.Join(r.CommonDir, "objects")} {
		if _, err := OpenShared(t.Context(), dir); !errors.Is(err, ErrNotRepository) {
			t.Errorf("%s was opened as a shared directory: %v", dir, err)
		}
	}
}
