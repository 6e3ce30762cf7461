package op_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// advertised is a tool as a population is shown it.
type advertised struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	ReadOnly    bool               `json:"readOnly"`
	InputSchema *jsonschema.Schema `json:"inputSchema"`
}

// golden compares every tool of a catalogue, per population, with the files of a
// folder; UPDATE=1 rewrites them.
func golden(t *testing.T, c *op.Catalogue, dir string) {
	t.Helper()
	want := map[string][]byte{}
	for _, k := range []identity.Kind{identity.Builder, identity.Task} {
		for _, o := range c.Tools(k) {
			b, err := json.MarshalIndent(advertised{o.Tool, o.Doc, o.Effect == op.Read, o.Schema(k)}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			want[o.Tool+"."+string(k)+".json"] = append(b, '\n')
		}
	}
	have, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	update := os.Getenv("UPDATE") == "1"
	for _, path := range have {
		if _, ok := want[filepath.Base(path)]; ok {
			continue
		}
		if !update {
			t.Errorf("%s is of a tool that is gone; run: UPDATE=1 go test ./pkg/op", path)
		} else if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range want {
		path := filepath.Join(dir, name)
		if update {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s is stale (%v); look at the difference, then run: UPDATE=1 go test ./pkg/op", path, err)
		}
	}
}

func TestAdvertisedToolsAreWhatReviewersSaw(t *testing.T) {
	req.Covers(t, "CM-027", "CM-029")
	golden(t, op.Default(), filepath.Join("testdata", "tools"))
}
