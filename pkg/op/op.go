// Package op is the catalogue of operations: every verb once, with its typed
// input and output, who may call it and on which tasks, whether it needs a
// confirmation code, and which flow does it if it can take long. RPC routes, MCP
// tools and their per-role schemas, CLI help, documentation and the caller matrix
// are derived from it; a deliberate difference between surfaces is a field of
// the operation, never a branch in a surface (OT-043).
package op

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// Effect is what an operation does to the store or to agents. The zero value is
// a write, so an operation nobody classified is refused on a read-only turn
// (MC-006, OT-016).
type Effect int

// The effects.
const (
	Write Effect = iota
	Read
)

func (e Effect) String() string {
	if e == Read {
		return "read"
	}
	return "write"
}

// WaitTool is the tool by which a caller on /mcp comes back to an operation.
const WaitTool = "lazy_wait"

// Op is one operation.
type Op struct {
	Name   string // RPC command, for example "startTask"; "" when it has no RPC form
	Tool   string // MCP tool, for example "lazy_start"; "" when it has none
	Doc    string // what it does, for people and agents alike; first sentence is the summary
	Effect Effect

	// People lists the credential kinds accepted on /rpc.
	People []identity.Kind
	// Builder and Agent say which of the two populations of /mcp may call the
	// tool at all; Refuse names the refusal of the other one, Why its reason.
	Builder bool
	Agent   bool
	Refuse  refusal.Code
	Why     string
	// Rule is the relation a task agent must have to the task it addresses.
	Rule app.Rule

	// Confirm makes the tool two calls with a code (CF-001). It never applies to
	// people, who are prompted by the CLI.
	Confirm bool
	// Flow names the flow or outbox job that does the work when it can take more
	// than 20 s; Long marks an operation that may be held to the hop's end, which
	// then needs one (RP-026). A wait is long and needs none: it does nothing.
	Flow string
	Long bool
	// Narrated marks the verbs of OB-001.
	Narrated bool

	// Omit lists properties that a role's tool schema leaves out; Instead names
	// the refusal given when a property is sent where it does not exist (CM-029).
	Omit    map[identity.Kind][]string
	Instead map[string]refusal.Code
	// Missing names the refusal given when a required property is absent or blank
	// and a more telling code than invalid_arguments exists for that.
	Missing map[string]refusal.Code
	// Refuses lists the refusals beyond the common ones.
	Refuses []refusal.Code

	In  *jsonschema.Schema
	Out *jsonschema.Schema

	call    func(context.Context, *app.App, app.Call, json.RawMessage) (any, error)
	schemas map[identity.Kind]*jsonschema.Schema
}

// Define completes an operation with its handler. The schemas come from In and
// Out: a property without omitempty is required, and nothing unlisted passes.
// tune, when given, narrows the input schema (lengths, ranges, enums).
func Define[In, Out any](o Op, handle func(context.Context, *app.App, app.Call, In) (Out, error), tune ...func(*jsonschema.Schema)) Op {
	in, err := jsonschema.For[In](nil)
	if err != nil {
		panic(fmt.Sprintf("op %s%s: input schema: %v", o.Name, o.Tool, err))
	}
	out, err := jsonschema.For[Out](nil)
	if err != nil {
		panic(fmt.Sprintf("op %s%s: output schema: %v", o.Name, o.Tool, err))
	}
	for _, f := range tune {
		f(in)
	}
	o.In, o.Out = in, out
	o.schemas = map[identity.Kind]*jsonschema.Schema{}
	for _, k := range identity.Kinds() {
		o.schemas[k] = o.schema(k)
	}
	o.call = func(ctx context.Context, a *app.App, c app.Call, raw json.RawMessage) (any, error) {
		var v In
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, misfit(err)
		}
		return handle(ctx, a, c, v)
	}
	return o
}

// misfit refuses what the schema admits and Go's type does not, such as a whole
// number that no machine integer holds.
func misfit(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return Invalid(e.Field, "a value that fits", e.Value)
	}
	return Invalid("arguments", "values of the described types", "something else")
}

// Prop returns a property of a schema to tune; a missing one panics, so that a
// renamed field is noticed by the first test.
func Prop(s *jsonschema.Schema, name string) *jsonschema.Schema {
	p, ok := s.Properties[name]
	if !ok {
		panic("op: no property " + name)
	}
	return p
}

// Catalogue is the set of operations, by command and by tool.
type Catalogue struct {
	ops   []Op
	byRPC map[string]int
	byMCP map[string]int
}

// New builds a catalogue. A duplicate name panics, and so does a tool whose name
// is reserved for never being one.
func New(ops ...Op) *Catalogue {
	c := &Catalogue{ops: slices.Clone(ops), byRPC: map[string]int{}, byMCP: map[string]int{}}
	for i, o := range ops {
		if Reserved(o.Tool) != nil {
			panic("op: " + o.Tool + " must never be a tool")
		}
		enter(c.byRPC, o.Name, i)
		enter(c.byMCP, o.Tool, i)
	}
	return c
}

func enter(names map[string]int, name string, i int) {
	if name == "" {
		return
	}
	if _, dup := names[name]; dup {
		panic("op: two operations are named " + name)
	}
	names[name] = i
}

// All lists the operations in the order of declaration.
func (c *Catalogue) All() []Op { return slices.Clone(c.ops) }

// Command finds an operation by its RPC command.
func (c *Catalogue) Command(name string) (Op, bool) {
	i, ok := c.byRPC[name]
	if !ok {
		return Op{}, false
	}
	return c.ops[i], true
}

// Tool finds an operation by its MCP tool name.
func (c *Catalogue) Tool(name string) (Op, bool) {
	i, ok := c.byMCP[name]
	if !ok {
		return Op{}, false
	}
	return c.ops[i], true
}

// Tools lists the operations whose tool a population of /mcp is shown.
func (c *Catalogue) Tools(k identity.Kind) []Op {
	return slices.DeleteFunc(c.All(), func(o Op) bool {
		return o.Tool == "" || k == identity.Builder && !o.Builder || k == identity.Task && !o.Agent
	})
}
