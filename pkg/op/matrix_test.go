package op_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/op"
)

func TestTheCallerMatrixIsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "callers.md")
	want := op.Default().Matrix()
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/callers.md is stale; run: UPDATE=1 go test ./pkg/op")
	}
	if n := strings.Count(want, "\n| "); n != len(op.Default().All())+1 {
		t.Errorf("%d rows for %d operations", n, len(op.Default().All()))
	}
}
