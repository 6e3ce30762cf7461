package op

import (
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// read is an operation open to everyone in the project, on any of its tasks: that
// agents learn from earlier work depends on it (CM-021).
func read(name, tool, doc string) Op {
	return Op{
		Name: name, Tool: tool, Doc: doc, Effect: Read, People: readers(),
		Builder: true, Agent: true, Rule: app.Rule{Agent: app.Any},
	}
}

// lengths narrows string properties to min to most characters; 0 leaves the upper
// end open.
func lengths(least, most int, names ...string) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		for _, n := range names {
			p := Prop(s, n)
			if least > 0 {
				p.MinLength = &least
			}
			if most > 0 {
				p.MaxLength = &most
			}
		}
	}
}

// between narrows an integer property.
func between(name string, least, most float64) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		p := Prop(s, name)
		p.Minimum, p.Maximum = &least, &most
	}
}

// items bounds an array property.
func items(name string, least, most int) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		p := Prop(s, name)
		p.MinItems, p.MaxItems = &least, &most
		if least > 0 {
			p.Type, p.Types = "array", nil
		}
	}
}

// oneOf narrows a property, or the items of an array property, to words.
func oneOf(name string, words ...string) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		p := Prop(s, name)
		if p.Items != nil {
			p = p.Items
		}
		for _, w := range words {
			p.Enum = append(p.Enum, w)
		}
	}
}

// within applies narrowings to the items of an array property.
func within(name string, tune ...func(*jsonschema.Schema)) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		for _, f := range tune {
			f(Prop(s, name).Items)
		}
	}
}

// agentOnly makes an operation one of the running agent about its own task; why
// is what a builder is told beside the refusal.
func agentOnly(o Op, why string) Op {
	o.Agent, o.Refuse, o.Why = true, refusal.AgentOnly, why
	o.Rule = app.Rule{Agent: app.Self}
	return o
}

func strs[T ~string](in []T) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, string(s))
	}
	return slices.Clip(out)
}
