package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestHowToPassTheUsagePauseIsToldToAPersonAtATerminalAlone(t *testing.T) {
	req.Covers(t, "US-014")
	paused := func(w http.ResponseWriter, _ *http.Request) {
		r := envelope.Refuse(refusal.Of(refusal.UsagePaused, "claude", "2026-01-02T03:04:05Z"), envelope.To("rpc", identity.Owner), "q")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(r.Status)
		_, _ = w.Write(r.Body)
	}
	task := `{"task_id":"1d78f215-0069-471c-ab34-1a311829fad9","code":"one","status":"interrupted","substate":"waiting on usage pause until 03:04"}`
	limits, err := json.Marshal(map[string]any{"readings": []any{}, "usage_pause": map[string]any{
		"threshold": 95, "paused": []any{map[string]any{"credential": "claude"}}, "waiting": []any{}, "passes": []any{}, "armed": []any{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"unblock", "one", "-m", "go on"}, {"ask", "one", "-m", "how far?"}, {"resume", "one"}, {"plane", "config", "get"}, {"show", "one"}, {"doctor", "one"},
	} {
		for _, terminal := range []bool{true, false} {
			e, p, out, errs := project(t)
			e.TTY = func(s any) bool { return terminal && (s == e.Out || s == e.Err) }
			serve(t, p, map[string]http.HandlerFunc{
				"unblockTask": paused, "askTask": paused, "resumeTask": paused, "usageLimits": answer(string(limits)), "showTask": answer(task),
				"explainTask": answer(`{"task_id":"x","code":"one","status":"interrupted","facts":[],"next":"It goes on by itself: it waits for usage pause until 03:04.","do":[]}`),
			})
			Main(t.Context(), e, argv)
			said := out.String() + errs.String()
			hinted := strings.Contains(said, "--past-usage-pause") || strings.Contains(said, "usage_pause_threshold off --task")
			if hinted != terminal {
				t.Errorf("%q at a terminal %t: %s", argv, terminal, said)
			}
		}
	}
}
