package bustest

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/events"
	"github.com/lazyplane/lazyplane/pkg/event"
)

// Shape returns what checks the detail of an event against its schema in events/.
func Shape(t *testing.T) func(kind string, detail []byte) error {
	t.Helper()
	all := map[string]*jsonschema.Resolved{}
	for kind, name := range map[string]string{event.TypeTaskMoved: "task_moved.v1"} {
		raw, err := events.Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		if all[kind], err = s.Resolve(nil); err != nil {
			t.Fatal(err)
		}
	}
	return func(kind string, detail []byte) error {
		t.Helper()
		if all[kind] == nil {
			t.Fatalf("no schema is for events of type %q", kind)
		}
		var v any
		if err := json.Unmarshal(detail, &v); err != nil {
			return err
		}
		return all[kind].Validate(v)
	}
}
