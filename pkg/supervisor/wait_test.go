package supervisor_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// A supervisor that stayed would not report for an hour.
func TestALongWaitIsLeftToTheControlPlaneWithWhereTheRetriesStand(t *testing.T) {
	req.Covers(t, "FC-003", "FC-004", "FC-011")
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"come back later"}}`)
	}))
	t.Cleanup(busy.Close)
	const fails = `curl -s -o /dev/null -H "X-Api-Key: $KEY" -d '{}' "$GATEWAY/v1/messages"; echo half > half.txt; exit 1`
	r, _ := modelRig(t, fails)
	r.plane.Do(func(p *planetest.Plane) { p.Model.Upstream = busy.URL })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "error")
	equal(t, "wait", resp.Wait, time.Hour)
	if resp.Failure == nil || resp.Failure.Class != turn.Overload || resp.Failure.Attempts != 1 || resp.Pace == nil || resp.Pace.Transient != 1 {
		t.Errorf("failure %+v, pace %+v", resp.Failure, resp.Pace)
	}
	equal(t, "what it left in the workspace", resp.Uncommitted.Total, 1)
	r.plane.Do(func(p *planetest.Plane) {
		said := false
		for _, b := range p.Beats {
			said = said || strings.HasPrefix(b.Retry, "attempt 1 (transient_overload): ")
		}
		if !said {
			t.Errorf("no beat has the retry line: %+v", p.Beats)
		}
	})

	// The next run goes on counting: two fast failures were before its first.
	r.next(`cat half.txt > seen.txt; echo broken; exit 1`, func(c *turn.Command) {
		c.Agent, c.Pace = "command", &turn.Pace{Attempts: 4, Fast: 2}
	})
	resp = r.run()
	equal(t, "what it found in the workspace", r.file("seen.txt"), "half\n")
	if resp.Outcome != "error" || resp.Wait != 0 || resp.Failure == nil || resp.Failure.Class != turn.Unknown || resp.Failure.Attempts != 5 {
		t.Errorf("the next run ended %s, %+v", resp.Outcome, resp.Failure)
	}
}
