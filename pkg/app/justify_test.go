package app_test

import (
	"context"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestAReasonForAProtectedFileIsRecordedAndNeverApproves(t *testing.T) {
	req.Covers(t, "PF-008", "FN-007")
	r := newRig(t)
	base := r.Settings
	r.Settings = func(ctx context.Context, tenant, project string) (app.Settings, error) {
		s, err := base(ctx, tenant, project)
		s.Protected = []string{"infra/**"}
		return s, err
	}
	tid := r.working("task", "")
	r.refused(r.agent(tid), refusal.InvalidArguments, "lazy_justify_protected", args{"file": "README", "reason": "x"})
	r.refused(r.agent(tid), refusal.InvalidArguments, "lazy_justify_protected", args{"file": "infra/a.tf", "reason": " "})
	r.refused(r.builder(), refusal.AgentOnly, "lazy_justify_protected", args{"file": "infra/a.tf", "reason": "x"})
	for _, why := range []string{"first", "the region\nmoved"} {
		out := do[app.Justified](r, r.agent(tid), "lazy_justify_protected", args{"file": "infra/a.tf", "reason": why})
		if !out.Recorded || !out.Pending {
			t.Errorf("answered %+v", out)
		}
	}
	got := r.load(tid)
	if len(got.Violations) != 1 || got.Violations[0].Reason != "the region moved" || got.Violations[0].Approved || got.Pending() != 1 {
		t.Errorf("recorded %+v", got.Violations)
	}
}
