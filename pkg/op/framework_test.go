package op

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

type toyIn struct {
	Task   string   `json:"task_id" jsonschema:"the task"`
	Reason string   `json:"reason" jsonschema:"why"`
	Tags   []string `json:"tags,omitempty" jsonschema:"labels"`
	Past   bool     `json:"past_usage_pause,omitempty" jsonschema:"a builder's"`
	N      int      `json:"n,omitempty" jsonschema:"a number"`
}

type toyOut struct {
	Got  toyIn
	Code string
}

func toy(o Op) Op {
	return Define(o, func(_ context.Context, _ *app.App, c app.Call, in toyIn) (toyOut, error) {
		return toyOut{in, c.Code}, nil
	}, func(s *jsonschema.Schema) { Prop(s, "reason").MinLength = new(1) })
}

func panics(f func()) (said string) {
	defer func() { said = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestCatalogueRefusesNamesItCannotTellApart(t *testing.T) {
	for name, f := range map[string]func(){
		"two commands": func() { New(toy(Op{Name: "a", Tool: "lazy_x"}), toy(Op{Name: "a", Tool: "lazy_y"})) },
		"two tools":    func() { New(toy(Op{Name: "a", Tool: "lazy_x"}), toy(Op{Name: "b", Tool: "lazy_x"})) },
		"reserved":     func() { New(toy(Op{Tool: "lazy_propose"})) },
	} {
		if said := panics(f); !strings.HasPrefix(said, "op: ") {
			t.Errorf("%s: %q", name, said)
		}
	}
	c := New(toy(Op{Name: "a"}), toy(Op{Tool: "lazy_x", Builder: true}), toy(Op{Name: "lazy_x"}))
	if _, ok := c.Command("a"); !ok {
		t.Error("command a is lost")
	}
	if o, ok := c.Tool("lazy_x"); !ok || o.Name != "" {
		t.Error("a command of the same text hides the tool")
	}
	if _, ok := c.Tool(""); ok {
		t.Error("the empty name is a tool")
	}
	if said := panics(func() { Prop(toy(Op{Name: "a"}).In, "gone") }); said == "" {
		t.Error("a property that was renamed is not noticed")
	}
}

func TestZeroEffectIsAWrite(t *testing.T) {
	req.Covers(t, "MC-006", "OT-016")
	if (Op{}).Effect != Write || Effect(0).String() != "write" {
		t.Error("an operation nobody classified is no write")
	}
}

// used lists the JSON Schema keywords of a schema as a client sees them.
func used(t *testing.T, s *jsonschema.Schema) []string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return // false, the schema of a closed object's other properties
		}
		for k, x := range m {
			got[k] = true
			switch k {
			case "properties":
				for _, p := range x.(map[string]any) {
					walk(p)
				}
			case "items", "additionalProperties", "not":
				walk(x)
			}
		}
	}
	walk(v)
	return slices.Sorted(maps.Keys(got))
}

func TestWorkThatOutlastsARequestNamesItsFlow(t *testing.T) {
	req.Covers(t, "RP-026")
	flows := []string{names.MachineTurn, names.MachineRecovery, names.MachineAccept, app.FlowTransfer}
	for _, o := range Default().All() {
		if o.Effect != Write {
			continue
		}
		if (o.Long || o.Narrated) && !slices.Contains(flows, o.Flow) {
			t.Errorf("%s%s can outlast a request and names %q", o.Name, o.Tool, o.Flow)
		}
	}
}

func TestEveryOperationSaysWhoMayAndHowTheOthersAreRefused(t *testing.T) {
	req.Covers(t, "CM-026")
	for _, o := range Default().All() {
		name := o.Name + "/" + o.Tool
		if (o.Name == "") != (len(o.People) == 0) {
			t.Errorf("%s: a command and its people belong together", name)
		}
		if (o.Tool == "") == (o.Builder || o.Agent) {
			t.Errorf("%s: a tool and its populations belong together", name)
		}
		if o.Tool != "" && o.Builder != o.Agent && o.Refuse == "" {
			t.Errorf("%s names no refusal for the other population", name)
		}
		for _, k := range []identity.Kind{identity.Builder, identity.Task} {
			if o.Tool == "" || k == identity.Builder && o.Builder || k == identity.Task && o.Agent {
				continue
			}
			if _, err := o.Accept(app.Call{Who: identity.Caller{Kind: k}}, nil); !refusal.Is(err, o.Refuse) {
				t.Errorf("%s refuses a %s with %v", name, k, err)
			}
		}
		for property, code := range o.Instead {
			if _, ok := refusal.Kind(code); !ok || refusal.Slots(code) > 1 {
				t.Errorf("%s: %s cannot be refused with %s", name, property, code)
			}
		}
		for property, code := range o.Missing {
			if _, ok := refusal.Kind(code); !ok || refusal.Slots(code) > 1 || o.In.Properties[property] == nil {
				t.Errorf("%s: the lack of %s cannot be refused with %s", name, property, code)
			}
		}
		for k, drop := range o.Omit {
			for _, property := range drop {
				if o.In.Properties[property] == nil {
					t.Errorf("%s leaves out %s for %s, which it does not have", name, property, k)
				}
			}
		}
	}
}

func TestPropertyOfAnotherRoleIsAbsentAndRefusedForItself(t *testing.T) {
	req.Covers(t, "CM-029")
	o := toy(Op{
		Tool: "lazy_x", Builder: true, Agent: true, Confirm: true,
		Omit:    map[identity.Kind][]string{identity.Task: {"past_usage_pause", "task_id"}},
		Instead: map[string]refusal.Code{"past_usage_pause": refusal.UsagePassDenied, "goal": refusal.CreationOnStart},
	})
	agent, builder, person := o.Schema(identity.Task), o.Schema(identity.Builder), o.Schema(identity.Owner)
	if agent.Properties["past_usage_pause"] != nil || builder.Properties["past_usage_pause"] == nil {
		t.Error("the builder's property is shown to the wrong role")
	}
	if slices.Contains(agent.Required, "task_id") || !slices.Contains(builder.Required, "task_id") {
		t.Errorf("an agent must give what it cannot: %v", agent.Required)
	}
	if agent.Properties[codeProperty] == nil || builder.Properties[codeProperty] == nil || person.Properties[codeProperty] != nil {
		t.Error("the code of a confirmed tool is for tools alone")
	}
	for _, c := range []struct {
		kind identity.Kind
		in   string
		code refusal.Code
	}{
		{identity.Task, `{"reason":"r","past_usage_pause":true}`, refusal.UsagePassDenied},
		{identity.Builder, `{"task_id":"t","reason":"r","past_usage_pause":true}`, ""},
		{identity.Builder, `{"task_id":"t","reason":"r","goal":"g"}`, refusal.CreationOnStart},
		{identity.Builder, `{"task_id":"t","reason":"r","other":1}`, refusal.InvalidArguments},
	} {
		err := o.Validate(c.kind, json.RawMessage(c.in))
		if c.code == "" && err != nil || c.code != "" && !refusal.Is(err, c.code) {
			t.Errorf("%s %s: got %v, want %s", c.kind, c.in, err, c.code)
		}
	}
}

func TestLackThatHasARefusalOfItsOwnGetsIt(t *testing.T) {
	o := toy(Op{Tool: "lazy_x", Builder: true, Missing: map[string]refusal.Code{"reason": refusal.FeedbackRequired}})
	for in, code := range map[string]refusal.Code{
		`{"task_id":"t"}`:                    refusal.FeedbackRequired,
		`{"task_id":"t","reason":""}`:        refusal.FeedbackRequired,
		`{"task_id":"t","reason":" \n "}`:    refusal.FeedbackRequired,
		`{"task_id":"t","reason":null}`:      refusal.FeedbackRequired,
		`{"task_id":"t","reason":1}`:         refusal.InvalidArguments,
		`{"reason":"r"}`:                     refusal.InvalidArguments,
		`{"task_id":"t","reason":"r","x":1}`: refusal.InvalidArguments,
	} {
		if err := o.Validate(identity.Builder, json.RawMessage(in)); !refusal.Is(err, code) {
			t.Errorf("%s: got %v, want %s", in, err, code)
		}
	}
}

func TestEveryFaultOfARequestIsListed(t *testing.T) {
	req.Covers(t, "RP-014")
	o := toy(Op{Name: "x", People: []identity.Kind{identity.Owner}})
	err := o.Validate(identity.Owner, json.RawMessage(`{"tags":["a",1],"n":"1","zz":true}`))
	f := fault.Of(err)
	fields, ok := f.Details["fields"].([]Problem)
	if !ok {
		t.Fatalf("got %+v", f)
	}
	var paths []string
	for _, p := range fields {
		paths = append(paths, p.Path)
	}
	if want := []string{"task_id", "reason", "n", "tags[1]", "zz"}; !slices.Equal(paths, want) {
		t.Errorf("listed %v, want %v", paths, want)
	}
	if n := strings.Count(f.Public, "\n"); n != 4 {
		t.Errorf("the text lists %d: %s", n+1, f.Public)
	}
	long := map[string]int{}
	for i := range 100 {
		long[fmt.Sprintf("%03d%s", i, strings.Repeat("x", 500))] = 1
	}
	b, _ := json.Marshal(long)
	if f := fault.Of(o.Validate(identity.Owner, b)); len(f.Public) > 4000 || !strings.Contains(f.Public, "and 82 more") {
		t.Errorf("a hundred faults make %d bytes: %.300s", len(f.Public), f.Public)
	}
}

func TestNumberThatNoIntegerHoldsIsInvalidNotAFault(t *testing.T) {
	req.Covers(t, "RP-017")
	o := toy(Op{Name: "x", Effect: Read, People: []identity.Kind{identity.Owner}})
	who := app.Call{Who: identity.Caller{Kind: identity.Owner}}
	for _, n := range []string{"1.5", "1e40", "1e400", "99999999999999999999", `"1"`, "true"} {
		_, err := o.Call(t.Context(), nil, who, json.RawMessage(`{"task_id":"t","reason":"r","n":`+n+`}`))
		if !refusal.Is(err, refusal.InvalidArguments) || !strings.HasPrefix(fault.Of(err).Public, "n: ") {
			t.Errorf("%s: %v", n, err)
		}
	}
	out, err := o.Call(t.Context(), nil, who, json.RawMessage(`{"task_id":"t","reason":"r","n":9007199254740993}`))
	if err != nil || out.(toyOut).Got.N != 9007199254740993 {
		t.Errorf("a large number lost digits: %+v, %v", out, err)
	}
}

func TestCodeIsNoPartOfTheRequestItConfirms(t *testing.T) {
	o := toy(Op{Tool: "lazy_x", Builder: true, Agent: true, Confirm: true})
	who := app.Call{Who: identity.Caller{Kind: identity.Builder}}
	plain, err := o.Accept(who, json.RawMessage(`{"task_id":"t","reason":"r"}`))
	if err != nil {
		t.Fatal(err)
	}
	coded, err := o.Accept(who, json.RawMessage(`{"confirmation_code":"c","reason":"r", "task_id":"t"}`))
	if err != nil {
		t.Fatal(err)
	}
	if digest(o, plain.raw) != digest(o, coded.raw) || plain.call.Code != "" || coded.call.Code != "c" {
		t.Errorf("plain %s %q, coded %s %q", plain.raw, plain.call.Code, coded.raw, coded.call.Code)
	}
	other, _ := o.Accept(who, json.RawMessage(`{"task_id":"t","reason":"other"}`))
	if digest(o, other.raw) == digest(o, plain.raw) {
		t.Error("another request has the same digest")
	}
	p := toy(Op{Name: "x", Confirm: true, People: []identity.Kind{identity.Owner}})
	if _, err := p.Accept(app.Call{Who: identity.Caller{Kind: identity.Owner}}, json.RawMessage(`{"task_id":"t","reason":"r","confirmation_code":"c"}`)); !refusal.Is(err, refusal.InvalidArguments) {
		t.Errorf("a person sends a code: %v", err)
	}
}

// command finds a command line of lazy's in a text.
var command = regexp.MustCompile("(`|[Rr]un )lazy [a-z]")

func TestNoTextOfAToolIsACommandToRun(t *testing.T) {
	req.Covers(t, "OT-030", "OT-031")
	look := func(where, text string) {
		if command.MatchString(text) || strings.Contains(text, "/rpc") {
			t.Errorf("%s tells an agent of another surface: %q", where, text)
		}
	}
	for _, k := range []identity.Kind{identity.Builder, identity.Task} {
		for _, o := range Default().Tools(k) {
			look(o.Tool, o.Doc)
			look(o.Tool, o.Why)
			for name, p := range o.Schema(k).Properties {
				look(o.Tool+"."+name, p.Description)
			}
		}
	}
	for _, name := range ReservedNames() {
		if line := fault.Of(Reserved(name)).Public; !strings.Contains(line, "people remove it with") {
			look(name, line)
		}
	}
	if !command.MatchString("First run lazy sync.") || !command.MatchString("`lazy sync`") || command.MatchString("use lazy_sync") {
		t.Error("the lint is blind")
	}
}
