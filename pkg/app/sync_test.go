package app_test

import (
	"slices"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// A working task is synced by its own agent in its own turn, and by nobody else.
func TestAWorkingTaskIsSyncedByItsOwnAgentOnly(t *testing.T) {
	req.Covers(t, "CM-037", "CM-039", "SN-011")
	r := newRig(t)
	parent := r.working("parent", "")
	self := r.working("self", parent)
	child := r.working("child", self)
	peer := r.working("peer", "")
	on := args{"task_id": string(self)}

	for _, who := range []identity.Caller{r.owner(), r.member()} {
		r.refused(who, refusal.WorkingSync, "syncTask", on)
	}
	for _, who := range []identity.Caller{r.builder(), r.agent(parent)} {
		r.refused(who, refusal.WorkingSync, "lazy_sync", on)
	}
	for _, who := range []identity.Caller{r.agent(child), r.agent(peer)} {
		r.refused(who, refusal.NotYourSubtree, "lazy_sync", on)
	}
	// The token alone is not the run: without the stamps of the supervisor, or with
	// those of a run that was succeeded, nothing is to be merged.
	bare, late := r.agent(self), r.agent(self)
	bare.Turn, bare.Epoch = "", 0
	r.refused(bare, refusal.WorkingSync, "lazy_sync", on)

	// The own agent is told what to merge: its target, as it is now.
	before := r.snapshot()
	got := do[app.Synced](r, r.agent(self), "lazy_sync", on)
	want := app.Synced{Task: self, Code: "self", Status: "working", Turn: string(r.load(self).Turn), Ref: r.load(self).Target, Head: r.load(self).Tip}
	if up, err := r.repo.Tip(t.Context(), want.Ref); err != nil || got.Upstream != up {
		t.Errorf("told to merge %q, the target is at %q (%v)", got.Upstream, up, err)
	}
	want.Upstream = got.Upstream
	if got.Task != want.Task || got.Ref != want.Ref || got.Head != want.Head || got.Turn != want.Turn || got.Operation != "" {
		t.Errorf("told %+v, want %+v", got, want)
	}
	r.unchanged(before)

	r.again(self)
	r.refused(late, refusal.Fenced, "lazy_sync", on)

	o := r.op("lazy_sync")
	for _, k := range []identity.Kind{identity.Task, identity.Builder} {
		names := []string{}
		for name := range o.Schema(k).Properties {
			names = append(names, name)
		}
		if !slices.Equal(names, []string{"task_id"}) {
			t.Errorf("a %s can send %v", k, names)
		}
	}
}
