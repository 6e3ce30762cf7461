package callers

import (
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/op"
)

// arguments are made from a schema: the least that it admits, with chosen values
// at chosen places. A place is a path such as "raised_resolutions[].raised_id".
type arguments struct {
	at    map[string]any
	words map[string]any // values by the name of a property, where any valid one will do
}

// of makes the arguments of an operation as a caller of that schema sends them.
func (a arguments) of(s *jsonschema.Schema) map[string]any {
	v, _ := a.value("", s).(map[string]any)
	return v
}

func (a arguments) value(path string, s *jsonschema.Schema) any {
	if v, ok := a.at[path]; ok {
		return v
	}
	name := strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]")
	if v, ok := a.words[name]; ok && a.fits(s, v) {
		return v
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch kindOf(s) {
	case "object":
		out := map[string]any{}
		for n, p := range s.Properties {
			below := strings.TrimPrefix(path+"."+n, ".")
			if slices.Contains(s.Required, n) || a.reaches(below) {
				out[n] = a.value(below, p)
			}
		}
		return out
	case "array":
		out := []any{}
		if s.MinItems != nil && *s.MinItems > 0 || a.reaches(path+"[]") {
			out = append(out, a.value(path+"[]", s.Items))
		}
		return out
	case "integer", "number":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	case "boolean":
		return false
	}
	return "text"
}

// fits reports whether a word of ours is one that the schema admits.
func (a arguments) fits(s *jsonschema.Schema, v any) bool {
	return len(s.Enum) == 0 || slices.Contains(s.Enum, v)
}

// reaches reports whether a chosen value lies at or below a path.
func (a arguments) reaches(path string) bool {
	for p := range a.at {
		if p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"[]") {
			return true
		}
	}
	return false
}

func kindOf(s *jsonschema.Schema) string {
	if s.Type != "" {
		return s.Type
	}
	for _, t := range s.Types {
		if t != "null" {
			return t
		}
	}
	return "object"
}

// slots lists the places of a schema that name something by an id.
func slots(s *jsonschema.Schema) []string {
	var out []string
	var walk func(path string, s *jsonschema.Schema)
	walk = func(path string, s *jsonschema.Schema) {
		for n, p := range s.Properties {
			at := strings.TrimPrefix(path+"."+n, ".")
			switch {
			case n == "parent" || strings.HasSuffix(n, "_id"):
				out = append(out, at)
			case strings.HasSuffix(n, "_ids"):
				out = append(out, at+"[]")
			}
			walk(at, p)
		}
		if s.Items != nil {
			walk(path+"[]", s.Items)
		}
	}
	walk("", s)
	slices.Sort(out)
	return out
}

// seen is the schema of an operation as a caller sees it.
func seen(o op.Op, c caller) *jsonschema.Schema { return o.Schema(c.who.Kind) }
