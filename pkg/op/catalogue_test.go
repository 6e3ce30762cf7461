package op_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// properties walks every property of a schema, with its path.
func properties(path string, s *jsonschema.Schema, yield func(path string, p *jsonschema.Schema)) {
	for name, p := range s.Properties {
		yield(path+"."+name, p)
		properties(path+"."+name, p, yield)
	}
	if s.Items != nil {
		properties(path+"[]", s.Items, yield)
	}
}

func TestEveryOperationAndPropertyIsDescribed(t *testing.T) {
	for _, o := range op.Default().All() {
		name := o.Name + "/" + o.Tool
		if o.Doc == "" || !strings.HasSuffix(o.Doc, ".") {
			t.Errorf("%s has no doc in sentences: %q", name, o.Doc)
		}
		properties(name, o.In, func(path string, p *jsonschema.Schema) {
			if p.Description == "" {
				t.Errorf("%s is not described", path)
			}
		})
	}
}

func TestNoPropertyBypassesAConfirmation(t *testing.T) {
	req.Covers(t, "CF-009", "AA-013")
	for _, o := range op.Default().All() {
		if !o.Confirm {
			continue
		}
		for _, k := range []identity.Kind{identity.Builder, identity.Task} {
			s := o.Schema(k)
			if _, ok := s.Properties["confirmation_code"]; !ok {
				t.Errorf("%s offers a %s no code", o.Tool, k)
			}
			for name := range s.Properties {
				if slices.Contains([]string{"yes", "force", "confirm"}, name) || strings.HasPrefix(name, "skip") {
					t.Errorf("%s lets a %s past its confirmation with %s", o.Tool, k, name)
				}
			}
		}
	}
}

func TestNoOtherToolsAreConfirmed(t *testing.T) {
	var got []string
	for _, o := range op.Default().All() {
		if o.Confirm {
			got = append(got, o.Tool)
		}
	}
	slices.Sort(got)
	// Of the seven, submit and redo belong to operations this catalogue lacks.
	want := []string{"lazy_accept", "lazy_close", "lazy_create", "lazy_reject", "lazy_reopen"}
	if !slices.Equal(got, want) {
		t.Errorf("confirmed tools are %v, want %v", got, want)
	}
}

func TestToolsOfTheOwnTurnTakeNoTask(t *testing.T) {
	req.Covers(t, "CM-020", "FN-001")
	for _, name := range []string{"lazy_commit", "lazy_raise", "lazy_update_progress", "lazy_final", "lazy_report"} {
		o, ok := op.Default().Tool(name)
		if !ok {
			t.Fatalf("no tool %s", name)
		}
		for _, k := range []identity.Kind{identity.Builder, identity.Task} {
			if _, ok := o.Schema(k).Properties["task_id"]; ok {
				t.Errorf("%s takes a task", name)
			}
		}
		if o.Name != "" {
			t.Errorf("%s has the command %s", name, o.Name)
		}
	}
}

func TestOneToolReadsTheJournalAndNoneEditsANote(t *testing.T) {
	req.Covers(t, "JR-008", "AN-009", "RI-013", "FN-002")
	for _, o := range op.Default().All() {
		if o.Tool == "" {
			continue
		}
		if o.Effect == op.Read && strings.Contains(o.Tool, "journal") {
			t.Errorf("%s reads the journal beside lazy_show", o.Tool)
		}
		if strings.Contains(o.Tool, "comment") && o.Tool != "lazy_comment" {
			t.Errorf("%s is a second tool on comments", o.Tool)
		}
		if _, ok := o.In.Properties["since"]; ok {
			t.Errorf("%s takes since", o.Tool)
		}
	}
	show, _ := op.Default().Tool("lazy_show")
	if e := op.Prop(show.In, "sections").Items.Enum; !slices.Contains(e, any("journal")) {
		t.Errorf("lazy_show has no journal section: %v", e)
	}
	items, _ := op.Default().Tool("lazy_raised_items")
	if items.Effect != op.Read {
		t.Error("lazy_raised_items is not a read")
	}
	report, _ := op.Default().Tool("lazy_report")
	if _, ok := report.In.Properties["final"]; ok {
		t.Error("lazy_report declares too")
	}
}

func TestLevelsExistWhereAParentIsShown(t *testing.T) {
	req.Covers(t, "OT-011")
	for tool, want := range map[string]bool{"lazy_list": true, "lazy_active": true, "lazy_blocked": false} {
		o, _ := op.Default().Tool(tool)
		if _, got := o.In.Properties["levels"]; got != want {
			t.Errorf("%s has levels: %t, want %t", tool, got, want)
		}
	}
}
