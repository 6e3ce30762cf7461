package emulated_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// everyLineSaysWhoseItIs reads what the functions logged: each line of something
// that was served can be found by its request, and by the tenant, task and turn it
// is about where it is about one.
func everyLineSaysWhoseItIs(t *testing.T, log *book) {
	whose := map[string]func(line map[string]any) []string{
		"request": func(line map[string]any) []string {
			want := []string{"request"}
			switch line["caller"] {
			case nil:
			case "runner":
				want = append(want, "tenant", "project", "task", "turn")
			case "task":
				want = append(want, "tenant", "project", "task")
			default:
				want = append(want, "tenant", "project")
			}
			return want
		},
		"step": func(line map[string]any) []string {
			if line["code"] == "not_found" || line["tenant"] == "" && line["code"] != nil {
				return []string{"request"} // it is about nothing that there is
			}
			return []string{"request", "tenant", "project", "task", "turn"}
		},
		"record": func(line map[string]any) []string {
			if line["source"] == "aws:dynamodb" {
				return []string{"request", "record", "tenant"} // some rows are a project's
			}
			return []string{"request", "record"}
		},
		"published": func(map[string]any) []string {
			return []string{"request", "record", "event", "tenant", "project", "task"}
		},
	}
	seen := map[string]int{}
	for line := range strings.Lines(log.String()) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) != nil || m["function"] == nil {
			continue // a shim's
		}
		kind, _ := m["msg"].(string)
		if metric, ok := m[names.AttrMetric].(string); ok && (!slices.Contains(names.Metrics(), metric) || m["tenant"] == nil || m["task"] == nil) {
			t.Errorf("a metric that nobody knows, or of nobody: %s", line)
		}
		want := whose[kind]
		if want == nil {
			continue
		}
		seen[kind]++
		for _, k := range want(m) {
			if s, _ := m[k].(string); s == "" {
				t.Errorf("a line lacks %s: %s", k, line)
			}
		}
		if s, _ := m["task"].(string); len(s) > 8 {
			t.Errorf("a task is not named by its short id: %s", line)
		}
	}
	for kind := range whose {
		if seen[kind] == 0 {
			t.Errorf("there is no line %q", kind)
		}
	}
}
