package op

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/text"
)

type everyIn struct {
	S    string         `json:"s"`
	Opt  *string        `json:"opt,omitempty"`
	Enum string         `json:"enum,omitempty"`
	N    int            `json:"n,omitempty"`
	F    float64        `json:"f,omitempty"`
	B    bool           `json:"b,omitempty"`
	List []string       `json:"list,omitempty"`
	Objs []inner        `json:"objs,omitempty"`
	Map  map[string]int `json:"map,omitempty"`
	Any  any            `json:"any,omitempty"`
}

type inner struct {
	Path string `json:"path"`
	Keep bool   `json:"keep,omitempty"`
}

// every is an operation whose schema uses each keyword of the subset.
func every() Op {
	ptr := jsonschema.Ptr[float64]
	return Define(Op{Name: "every", People: []identity.Kind{identity.Owner}},
		func(context.Context, *app.App, app.Call, everyIn) (struct{}, error) { return struct{}{}, nil },
		func(s *jsonschema.Schema) {
			Prop(s, "s").MinLength, Prop(s, "s").MaxLength = new(2), new(5)
			Prop(s, "enum").Enum = []any{"a", "b"}
			Prop(s, "n").Minimum, Prop(s, "n").Maximum = ptr(-1), ptr(10)
			Prop(s, "f").Minimum = ptr(0.5)
			Prop(s, "list").MinItems, Prop(s, "list").MaxItems = new(1), new(3)
			Prop(s, "list").Items.MinLength = new(1)
		})
}

// blankBeside reports whether v holds a blank text in a place that wants a text
// of some length: the one thing the library admits and lazy does not (OT-006).
func blankBeside(v any) bool {
	m, _ := v.(map[string]any)
	if s, ok := m["s"].(string); ok && text.Blank(s) {
		return true
	}
	list, _ := m["list"].([]any)
	for _, e := range list {
		if s, ok := e.(string); ok && text.Blank(s) {
			return true
		}
	}
	return false
}

// fataler is what testing.T and rapid.T have in common here.
type fataler interface {
	Fatalf(format string, args ...any)
}

// agree compares the verdicts of the validator and of the library on one input.
func agree(t fataler, o Op, lib *jsonschema.Resolved, raw string) {
	err := o.Validate(identity.Owner, json.RawMessage(raw))
	if err != nil && !refusal.Is(err, refusal.InvalidArguments) {
		t.Fatalf("%q: %v", raw, err)
	}
	var v any
	if json.Unmarshal([]byte(raw), &v) != nil {
		if err == nil {
			t.Fatalf("%q is not JSON and was accepted", raw)
		}
		return
	}
	liberr := lib.Validate(v)
	if err == nil && liberr != nil {
		t.Fatalf("%q was accepted; the library says %v", raw, liberr)
	}
	if err != nil && liberr == nil && !blankBeside(v) {
		t.Fatalf("%q was refused: %v; the library accepts it", raw, err)
	}
}

func library(t testing.TB, o Op) *jsonschema.Resolved {
	t.Helper()
	lib, err := o.Schema(identity.Owner).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

func inputs() []string {
	return []string{
		`{"s":"abc"}`, `{"s":"a"}`, `{"s":"abcdef"}`, `{"s":"  "}`, `{"s":"äöü€𝄞"}`, `{"s":null}`, `{}`, `[]`, `null`, `1`, `"x"`, ``, `{`, `{"s":"abc"}]`, `{"s":"abc"} {}`,
		`{"s":"abc","opt":null}`, `{"s":"abc","opt":"x"}`, `{"s":"abc","opt":1}`,
		`{"s":"abc","enum":"a"}`, `{"s":"abc","enum":"c"}`, `{"s":"abc","enum":["a"]}`,
		`{"s":"abc","n":1.0}`, `{"s":"abc","n":1.5}`, `{"s":"abc","n":-1}`, `{"s":"abc","n":-2}`, `{"s":"abc","n":1e1}`, `{"s":"abc","n":11}`, `{"s":"abc","n":1e400}`,
		`{"s":"abc","f":0.5}`, `{"s":"abc","f":0.49}`, `{"s":"abc","f":1e308}`, `{"s":"abc","f":"1"}`,
		`{"s":"abc","b":true}`, `{"s":"abc","b":0}`,
		`{"s":"abc","list":null}`, `{"s":"abc","list":[]}`, `{"s":"abc","list":["x"]}`, `{"s":"abc","list":["x","x","x","x"]}`, `{"s":"abc","list":[""]}`, `{"s":"abc","list":[" "]}`, `{"s":"abc","list":[1]}`,
		`{"s":"abc","objs":[{"path":"p","keep":true}]}`, `{"s":"abc","objs":[{"keep":true}]}`, `{"s":"abc","objs":[{"path":"p","x":1}]}`, `{"s":"abc","objs":[null]}`,
		`{"s":"abc","map":{"a":1}}`, `{"s":"abc","map":{"a":"1"}}`, `{"s":"abc","map":{}}`, `{"s":"abc","map":null}`,
		`{"s":"abc","any":{"deep":[1,{"x":null}]}}`, `{"s":"abc","any":null}`,
		`{"s":"abc","S":"abc"}`, `{"s":"abc","s":1}`, `{"s":"abc","other":1}`,
	}
}

func TestValidatorAgreesWithTheLibrary(t *testing.T) {
	req.Covers(t, "RP-013", "RP-015")
	o := every()
	if missing := unused(t, o); len(missing) > 0 {
		t.Fatalf("the schema under test uses no %s", strings.Join(missing, ", "))
	}
	lib := library(t, o)
	for _, in := range inputs() {
		agree(t, o, lib, in)
	}
}

// unused lists keywords of the subset that o's schema does not use.
func unused(t *testing.T, o Op) []string {
	t.Helper()
	got := used(t, o.In)
	var missing []string
	for _, k := range keywords() {
		found := k == "description"
		for _, g := range got {
			found = found || g == k
		}
		if !found {
			missing = append(missing, k)
		}
	}
	return missing
}

func FuzzValidator(f *testing.F) {
	o := every()
	lib := library(f, o)
	for _, in := range inputs() {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, raw string) { agree(t, o, lib, raw) })
}

// near generates a value that is often right for the schema of every, and wrong
// in one of the ways a request can be wrong otherwise.
func near(t *rapid.T) map[string]any {
	str := rapid.SampledFrom([]string{"", " ", "a", "b", "ab", "abc", "abcde", "abcdef", "\u00a0", "äöü"})
	scalar := rapid.OneOf(str.AsAny(), rapid.IntRange(-3, 12).AsAny(), rapid.Float64Range(-1, 12).AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil))
	list := rapid.SliceOfN(scalar, 0, 4)
	object := rapid.MapOfN(rapid.SampledFrom([]string{"path", "keep", "a"}), scalar, 0, 3)
	value := rapid.OneOf(scalar, rapid.Map(list, func(v []any) any { return v }), rapid.Map(object, func(m map[string]any) any { return m }))
	v := map[string]any{"s": str.Draw(t, "s")}
	for _, name := range []string{"opt", "enum", "n", "f", "b", "list", "objs", "map", "any", "s", "other"} {
		if rapid.IntRange(0, 3).Draw(t, name+"?") == 0 {
			v[name] = value.Draw(t, name)
		}
	}
	if rapid.Bool().Draw(t, "objects") {
		v["objs"] = rapid.SliceOfN(object, 0, 3).Draw(t, "objs")
	}
	return v
}

func TestValidatorAgreesWithTheLibraryOnGeneratedValues(t *testing.T) {
	req.Covers(t, "RP-013")
	o := every()
	lib := library(t, o)
	rapid.Check(t, func(rt *rapid.T) {
		b, err := json.Marshal(near(rt))
		if err != nil {
			rt.Fatal(err)
		}
		agree(rt, o, lib, string(b))
	})
}
