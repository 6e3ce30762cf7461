package app_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// Every operation of the catalogue, by every caller, with arguments that cannot
// be right: whatever is refused has written nothing, and no refusal is a plain
// failure.
func TestNoRefusalOfAnyOperationWrites(t *testing.T) {
	req.Covers(t, "OT-044", "RP-013")
	r := newRig(t)
	self := r.working("self", "")
	peer := r.create("peer", "").TaskID
	r.park(r.working("parked", ""))
	callers := []identity.Caller{r.owner(), r.member(), r.operator(), r.builder(), r.agent(self), r.stranger()}
	refused := 0
	for _, o := range r.ops.All() {
		name := o.Name
		if name == "" {
			name = o.Tool
		}
		for _, who := range callers {
			for _, in := range []args{
				{},
				{"nonsense": true},
				{"task_id": "no-such-task"},
				{"task_id": string(peer)},
				{"task_id": 7},
				{"task_id": "no-such-task", "message": "m", "feedback": "f", "reason": "r", "question": "q", "content": "c"},
				{"task_id": "no-such-task", "message": "m"},
				{"task_id": "no-such-task", "content": "c"},
				{"task_id": "no-such-task", "feedback": "f"},
				{"task_id": "no-such-task", "reason": "r"},
				{"goal": "", "prompt": ""},
				{"raised_id": "x-r1", "blocking": true},
				{"operation_id": "unknown"},
				{"query": "in:nowhere"},
			} {
				before := r.snapshot()
				if _, err := r.try(r.call(who), name, in); err != nil {
					refused++
					r.unchanged(before)
					if k := fault.KindOf(err); k == fault.Internal || k == fault.Unavailable {
						t.Errorf("%s %v by %s failed: %v", name, in, who.Kind, err)
					}
				}
			}
		}
	}
	if refused < 1000 {
		t.Errorf("only %d refusals were tried", refused)
	}
}

// A tool that a role is not shown answers with its own refusal when it is called
// all the same.
func TestHiddenToolsRefuseByThemselves(t *testing.T) {
	req.Covers(t, "CM-026", "AA-012")
	r := newRig(t)
	self := r.working("self", "")
	for _, o := range r.ops.All() {
		if o.Tool == "" {
			continue
		}
		for who, may := range map[*identity.Caller]bool{new(r.builder()): o.Builder, new(r.agent(self)): o.Agent} {
			if may {
				continue
			}
			err := r.refused(*who, o.Refuse, o.Tool, args{})
			if refusal.Is(err, "") || err == nil {
				t.Errorf("%s by %s: %v", o.Tool, who.Kind, err)
			}
		}
	}
}
