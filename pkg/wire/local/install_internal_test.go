package local

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestABuildIsKnownByItsBytesAndItsCopyIsNeverWrittenAgain(t *testing.T) {
	req.Covers(t, "AG-015")
	from, dir := filepath.Join(t.TempDir(), "lazy"), filepath.Join(t.TempDir(), "bin")
	put := func(text string) string {
		t.Helper()
		if err := os.WriteFile(from, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		at, err := install(from, dir)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	first := put("build one")
	other := put("build two") // of the same size
	if first == other {
		t.Fatalf("two builds share %s", first)
	}
	if err := os.WriteFile(first, []byte("a mark"), 0o755); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if at, err := install(from, dir); err != nil || at != other {
				t.Errorf("again: %s %v", at, err)
			}
		})
	}
	all.Wait()
	if again := put("build one"); again != first {
		t.Errorf("the first build is now %s", again)
	}
	if b, err := os.ReadFile(first); err != nil || !bytes.Equal(b, []byte("a mark")) {
		t.Errorf("the copy was written again: %q %v", b, err)
	}
	if rest, err := filepath.Glob(filepath.Join(dir, ".install-*")); err != nil || len(rest) > 0 {
		t.Errorf("left behind: %v %v", rest, err)
	}
}
