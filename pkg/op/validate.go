package op

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Problem is one thing wrong with one field of a request.
type Problem struct {
	Path    string `json:"path"`
	Problem string `json:"problem"`
}

// maxProblems bounds how many problems one refusal lists.
const maxProblems = 20

// Validate checks raw against the schema a caller of kind k sees, before any
// handler runs (RP-013, OT-021). A property that exists elsewhere gets the
// refusal that explains it, and so does the lack of one that a more telling
// refusal is about; everything else is listed field by field.
func (o Op) Validate(k identity.Kind, raw json.RawMessage) error {
	v, err := decode(raw)
	if err != nil {
		return Invalid("arguments", "a JSON object", "text that is not JSON")
	}
	m, ok := v.(map[string]any)
	if !ok {
		return Invalid("arguments", "a JSON object", kindOf(v))
	}
	s := o.Schema(k)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if _, known := s.Properties[name]; known {
			continue
		}
		if code, ok := o.Instead[name]; ok {
			return instead(code, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Missing)) {
		if _, known := s.Properties[name]; !known {
			continue
		}
		if v, ok := m[name]; !ok || v == nil || isBlank(v) {
			return instead(o.Missing[name], name)
		}
	}
	var probs []Problem
	check("", s, v, &probs)
	return invalid(probs)
}

// decode reads exactly one JSON value. Numbers keep their digits.
func decode(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("op: more than one value")
	}
	return v, nil
}

func isBlank(v any) bool {
	s, ok := v.(string)
	return ok && text.Blank(s)
}

// Invalid is the refusal of a request whose field at path is not what is wanted.
func Invalid(path, want, got string) error {
	return invalid([]Problem{{Path: path, Problem: "expected " + want + ", got " + got}})
}

// invalid is the refusal that lists problems, nil for none.
func invalid(probs []Problem) error {
	if len(probs) == 0 {
		return nil
	}
	more := len(probs) - maxProblems
	if more > 0 {
		probs = probs[:maxProblems]
	}
	lines := make([]string, len(probs))
	for i, p := range probs {
		lines[i] = p.Path + ": " + p.Problem
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	want, got, _ := strings.Cut(probs[0].Problem, ", got ")
	e := refusal.Of(refusal.InvalidArguments, probs[0].Path, want, got)
	e.Public = strings.Join(lines, "\n")
	return e.WithDetail("fields", probs)
}

// instead builds a refusal whose one slot, if it has any, is the property.
func instead(code refusal.Code, name string) error {
	if refusal.Slots(code) == 0 {
		return refusal.Of(code)
	}
	return refusal.Of(code, name)
}

// keywords is the closed subset of JSON Schema that check implements; a test
// walks every schema of the catalogue and fails on any other (RP-015).
func keywords() []string {
	return []string{
		"type", "properties", "required", "additionalProperties", "items", "enum", "description",
		"minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum",
	}
}

func check(path string, s *jsonschema.Schema, v any, out *[]Problem) {
	at := path
	if at == "" {
		at = "arguments"
	}
	add := func(format string, args ...any) {
		*out = append(*out, Problem{Path: at, Problem: fmt.Sprintf(format, args...)})
	}
	if never(s) {
		add("expected no such property, got one")
		return
	}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return isType(t, v) }) {
		add("expected %s, got %s", strings.Join(types, " or "), kindOf(v))
		return
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e any) bool { return equal(e, v) }) {
		add("expected one of %s, got %s", shown(s.Enum...), shown(v))
	}
	switch x := v.(type) {
	case string:
		n := utf8.RuneCountInString(x)
		if s.MinLength != nil && (n < *s.MinLength || *s.MinLength > 0 && text.Blank(x)) {
			add("expected at least %d characters that are not blank, got %d", *s.MinLength, n)
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			add("expected at most %d characters, got %d", *s.MaxLength, n)
		}
	case json.Number:
		if s.Minimum != nil && compare(x, *s.Minimum) < 0 {
			add("expected at least %v, got %s", *s.Minimum, shown(x))
		}
		if s.Maximum != nil && compare(x, *s.Maximum) > 0 {
			add("expected at most %v, got %s", *s.Maximum, shown(x))
		}
	case []any:
		if s.MinItems != nil && len(x) < *s.MinItems {
			add("expected at least %d items, got %d", *s.MinItems, len(x))
		}
		if s.MaxItems != nil && len(x) > *s.MaxItems {
			add("expected at most %d items, got %d", *s.MaxItems, len(x))
		}
		if s.Items != nil {
			for i, e := range x {
				check(fmt.Sprintf("%s[%d]", path, i), s.Items, e, out)
			}
		}
	case map[string]any:
		object(path, s, x, out)
	}
}

func object(path string, s *jsonschema.Schema, x map[string]any, out *[]Problem) {
	for _, name := range s.Required {
		if _, ok := x[name]; !ok {
			*out = append(*out, Problem{Path: join(path, name), Problem: "expected a value, got nothing"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x)) {
		switch p, ok := s.Properties[name]; {
		case ok:
			check(join(path, name), p, x[name], out)
		case s.AdditionalProperties != nil:
			check(join(path, name), s.AdditionalProperties, x[name], out)
		}
	}
}

// never reports whether s is the schema false, which jsonschema writes as the
// negation of the schema that everything satisfies.
func never(s *jsonschema.Schema) bool { return s.Not != nil }

// join names a property of the object at path. A name the caller made up is cut
// and cleaned before it is repeated.
func join(path, name string) string {
	name, cut := text.Cut(text.Line(name), 64)
	if cut {
		name += "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// shown prints values for a message, each cut to a readable length.
func shown(vs ...any) string {
	ss := make([]string, len(vs))
	for i, v := range vs {
		s, isText := v.(string)
		if !isText {
			s = fmt.Sprint(v)
		}
		s, cut := text.Cut(text.Line(s), 64)
		if cut {
			s += "…"
		}
		if isText {
			s = `"` + s + `"`
		}
		ss[i] = s
	}
	return strings.Join(ss, ", ")
}

// equal compares a value of a schema with one of a request.
func equal(want, v any) bool {
	switch x := v.(type) {
	case json.Number:
		switch w := want.(type) {
		case float64:
			return compare(x, w) == 0
		case int:
			return compare(x, float64(w)) == 0
		}
		return false
	case string, bool, nil:
		return want == v
	}
	return false
}

// compare orders a number that passed isType and f.
func compare(n json.Number, f float64) int {
	g, _ := n.Float64()
	return cmp.Compare(g, f)
}

func isType(t string, v any) bool {
	switch x := v.(type) {
	case string:
		return t == "string"
	case bool:
		return t == "boolean"
	case nil:
		return t == "null"
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	case json.Number:
		f, err := x.Float64()
		if err != nil {
			return false
		}
		return t == "number" || t == "integer" && f == math.Trunc(f)
	}
	return false
}

func kindOf(v any) string {
	switch x := v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case nil:
		return "null"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	case json.Number:
		return "the number " + shown(x)
	}
	return "something else"
}
