package op

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// walk visits every schema inside a schema, in its JSON form.
func walk(t *testing.T, path string, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		if v != false && v != true {
			t.Errorf("%s is not a schema: %v", path, v)
		}
		return
	}
	for key, sub := range m {
		if key == "not" && len(m) == 1 {
			continue // the schema nothing fits: "no further property"
		}
		if !slices.Contains(keywords(), key) {
			t.Errorf("%s uses %q, which the validator does not implement", path, key)
		}
		switch key {
		case "properties":
			for name, p := range sub.(map[string]any) {
				walk(t, path+"."+name, p)
			}
		case "items", "additionalProperties":
			walk(t, path+"/"+key, sub)
		}
	}
}

func TestEverySchemaUsesOnlyWhatTheValidatorImplements(t *testing.T) {
	req.Covers(t, "RP-015", "OT-021")
	for _, o := range Default().All() {
		for _, k := range identity.Kinds() {
			raw, err := json.Marshal(o.Schema(k))
			if err != nil {
				t.Fatal(err)
			}
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatal(err)
			}
			walk(t, o.Name+"/"+o.Tool, v)
		}
	}
	// The walk itself sees what it looks for.
	raw, _ := json.Marshal(&jsonschema.Schema{Type: "object", Pattern: "x"})
	if !strings.Contains(string(raw), `"pattern"`) || slices.Contains(keywords(), "pattern") {
		t.Errorf("an unknown keyword would pass: %s", raw)
	}
}

func TestEachProblemOfARequestIsListed(t *testing.T) {
	req.Covers(t, "RP-013", "RP-014")
	o, _ := Default().Command("createTask")
	for raw, want := range map[string][]string{
		`[]`:                      {"expected a JSON object, got an array"},
		`{`:                       {"text that is not JSON"},
		`null`:                    {"null"},
		`{}`:                      {"goal", "prompt"},
		`{"goal":3,"prompt":"p"}`: {"goal: expected string, got "},
		`{"goal":"g","prompt":"p","color":"red","size":1}`:                   {"color", "size"},
		`{"goal":" ","prompt":"p"}`:                                          {"goal"},
		`{"goal":"g","prompt":"p","tags":["a",7]}`:                           {"tags[1]: expected string, got "},
		`{"goal":"g","prompt":"p","code":"` + strings.Repeat("x", 65) + `"}`: {"code: expected at most 64 characters, got 65"},
	} {
		err := o.Validate(identity.Owner, json.RawMessage(raw))
		if !refusal.Is(err, refusal.InvalidArguments) {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(fault.Of(err).Public, w) {
				t.Errorf("%s: %q does not say %q", raw, fault.Of(err).Public, w)
			}
		}
	}
	if err := o.Validate(identity.Owner, json.RawMessage(`{"goal":"g","prompt":"p","parent":null,"tags":["a"]}`)); err != nil {
		t.Errorf("a good request: %v", err)
	}
}
