package op_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// Verbs that people have at a terminal and no tool may be.
func TestWhatAPersonDoesAtATerminalHasNoTool(t *testing.T) {
	req.Covers(t, "HO-024", "HO-026")
	c := op.Default()
	for verb := range strings.FieldsSeq(`builder pair chat shell revert browse
		init doctor upgrade plane daemon system config watch completion export-dockerfile logs demo version up`) {
		tool := "lazy_" + strings.ReplaceAll(verb, "-", "_")
		if o, ok := c.Tool(tool); ok {
			t.Errorf("%s is a tool: %s", tool, o.Doc)
		}
		if err := op.Reserved(tool); !refusal.Is(err, refusal.ReservedTool) {
			t.Errorf("%s is answered with %v", tool, err)
		}
		if !panics(func() { op.New(op.Op{Tool: tool, Builder: true}) }) {
			t.Errorf("a catalogue takes %s for a tool", tool)
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// What a turn's own agent says of its work no person can say for it.
func TestWhatAnAgentSaysOfItsTurnNoPersonWrites(t *testing.T) {
	req.Covers(t, "HO-028")
	c := op.Default()
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"commit", "raise", "final", "report", "justify_protected", "update_progress"} {
		o, ok := c.Tool("lazy_" + verb)
		if !ok {
			t.Errorf("there is no lazy_%s", verb)
			continue
		}
		if o.Name != "" || len(o.People) > 0 || o.Effect != op.Write {
			t.Errorf("people reach lazy_%s by %q: %v", verb, o.Name, o.People)
		}
		for _, k := range []identity.Kind{identity.Owner, identity.User, identity.Session, identity.Operator} {
			if _, err := o.Accept(app.Call{Who: identity.Caller{Kind: k, Tenant: "t", Project: "p"}}, nil); !refusal.Is(err, refusal.ControlOnly) && !refusal.Is(err, refusal.OperatorNotAPerson) {
				t.Errorf("lazy_%s asked by %s: %v", verb, k, err)
			}
		}
		for _, word := range []string{verb, strings.ReplaceAll(verb, "_", "-"), strings.TrimPrefix(verb, "update_"), strings.TrimSuffix(verb, "_protected")} {
			for line := range strings.Lines(string(page)) {
				if f := strings.Fields(strings.Trim(line, "#` \n")); strings.HasPrefix(line, "### `lazy ") && slices.Contains(f, word) {
					t.Errorf("a command of people is named %q: %s", word, line)
				}
			}
		}
	}
	if !strings.Contains(string(page), "### `lazy sync ") {
		t.Error("the commands are no longer listed as this test reads them")
	}
}
