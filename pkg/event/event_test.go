package event_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/events"
	"github.com/lazyplane/lazyplane/pkg/bus/bustest"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func TestEveryShapeHasASchemaAndASampleAndNothingElseIsThere(t *testing.T) {
	var want []string
	for _, n := range events.Names() {
		want = append(want, n+".sample.json", n+".schema.json")
	}
	slices.Sort(want)
	got, err := filepath.Glob(filepath.Join("..", "..", "events", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i] = filepath.Base(got[i])
	}
	if !slices.Equal(got, want) {
		t.Errorf("events/ holds %q, want %q", got, want)
	}
}

// The sample is read into the type and written again without a loss, so that
// neither has a field that the other lacks.
func TestTheSampleTheSchemaAndTheTypeSayTheSame(t *testing.T) {
	sample, err := events.Sample("task_moved.v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := bustest.Shape(t)(event.TypeTaskMoved, sample); err != nil {
		t.Error(err)
	}
	var m event.TaskMoved
	d := json.NewDecoder(bytes.NewReader(sample))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	var was, is map[string]any
	if err := json.Unmarshal(sample, &was); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m.Event().Detail, &is); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(was, is) {
		t.Errorf("written again it is %v, want %v", is, was)
	}
	raw, err := events.Schema("task_moved.v1")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct{ Properties map[string]any }
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[event.TaskMoved]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if schema.Properties[name] == nil || was[name] == nil {
			t.Errorf("%s is in the type, and not in the schema or its sample", name)
		}
	}
	if n := reflect.TypeFor[event.TaskMoved]().NumField(); n != len(schema.Properties) {
		t.Errorf("%d fields and %d in the schema", n, len(schema.Properties))
	}
}

// The schema knows each status, trigger and role that a row may have.
func TestEveryMoveOfTheTableHasTheShape(t *testing.T) {
	valid := bustest.Shape(t)
	for _, e := range task.Edges() {
		for _, on := range e.On {
			for _, by := range e.By {
				m := event.Moved("acme", "shop", "c0ffee00-ac96-774b-bcce-b302099a8057", 0, task.History{
					ID: "01890a5d-ac96-774b-bcce-b302099a8057", From: e.From, To: e.To, Trigger: on, Version: 3, At: time.Unix(0, 0),
					Actor: identity.Actor{Role: by, Email: "ada@example.com", Name: "Ada"}, Reason: "words of a person",
				}).Event()
				if err := valid(m.Type, m.Detail); err != nil {
					t.Errorf("%s, %s by %s: %v", e.ID, on, by, err)
				}
				for _, said := range []string{"ada@", "Ada", "words"} {
					if bytes.Contains(m.Detail, []byte(said)) {
						t.Errorf("the event tells who and why: %s", m.Detail)
					}
				}
			}
		}
	}
}

func TestTheSchemaRefusesWhatWasNotAgreed(t *testing.T) {
	sample, err := events.Sample("task_moved.v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(map[string]any){
		func(m map[string]any) { delete(m, "task") },
		func(m map[string]any) { m["reason"] = "words" },
		func(m map[string]any) { m["to"] = "done" },
		func(m map[string]any) { m["version"] = 0 },
		func(m map[string]any) { m["project"] = "" },
	} {
		var m map[string]any
		if err := json.Unmarshal(sample, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if bustest.Shape(t)(event.TypeTaskMoved, b) == nil {
			t.Errorf("it takes %s", b)
		}
	}
}
