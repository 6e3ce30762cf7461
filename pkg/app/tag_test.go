package app_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func TestAnAgentTagsItsDirectSubtasksAndNeverItself(t *testing.T) {
	req.Covers(t, "AN-001", "AN-003")
	r := newRig(t)
	up := r.working("up", "")
	self := r.working("self", up)
	kid := r.create("kid", self).TaskID
	grandkid := r.create("grandkid", kid).TaskID
	peer := r.create("peer", "").TaskID
	tags := func(who identity.Caller, tool string, tid string, words ...string) []string {
		t.Helper()
		return do[app.Tagged](r, who, tool, args{"task_id": tid, "tags": words}).Tags
	}
	// The parent's agent has set this one on what is its child.
	if got := tags(r.agent(up), "lazy_tag", string(self), "mine"); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("its parent's agent left %v", got)
	}
	me := r.agent(self)
	for _, tool := range []string{"lazy_tag", "lazy_untag"} {
		for _, word := range []string{string(self), "self"} {
			r.refused(me, refusal.AnnotateSelfTag, tool, args{"task_id": word, "tags": []string{"mine"}})
		}
		for _, other := range []string{string(up), string(grandkid), string(peer)} {
			r.refused(me, refusal.AnnotateChildrenOnly, tool, args{"task_id": other, "tags": []string{"mine"}})
		}
	}
	tags(me, "lazy_tag", string(kid), "later", "later")
	// What the agent itself has set is not its own once the task is it.
	r.start(kid)
	r.refused(r.agent(kid), refusal.AnnotateSelfTag, "lazy_untag", args{"task_id": string(kid), "tags": []string{"later"}})
	if got := r.load(self).Tags; !slices.Equal(got, []string{"mine"}) {
		t.Errorf("its own tags are %v", got)
	}
	r.quiet(kid, func() {
		if got := tags(r.builder(), "lazy_tag", string(kid), "b", "later"); !slices.Equal(got, []string{"later", "b"}) {
			t.Errorf("the builder left %v", got)
		}
		if got := tags(r.owner(), "untagTask", "kid", "later", "nothing"); !slices.Equal(got, []string{"b"}) {
			t.Errorf("a person left %v", got)
		}
	})
}

func TestTagsAreFewShortAndKeptInEveryStatus(t *testing.T) {
	r := newRig(t)
	tid := r.create("task", "").TaskID
	in := func(words ...string) args { return args{"task_id": "task", "tags": words} }
	var many []string
	for i := range app.TagsMost {
		many = append(many, fmt.Sprint("t", i))
	}
	do[app.Tagged](r, r.owner(), "tagTask", in(many...))
	for _, bad := range []args{in(), in(""), in(" "), in("one more"), in("123456789012345678901234567890123456789012345678901")} {
		r.refused(r.owner(), refusal.InvalidArguments, "tagTask", bad)
	}
	version := r.load(tid).Version
	do[app.Tagged](r, r.owner(), "tagTask", in("t0"))
	if got := r.load(tid).Version; got != version {
		t.Errorf("a tag that was there moved the task to version %d from %d", got, version)
	}
	r.finish(tid, task.Abandoned)
	if got := do[app.Tagged](r, r.owner(), "untagTask", in(many[1:]...)).Tags; !slices.Equal(got, []string{"t0"}) {
		t.Errorf("a finished task kept %v", got)
	}
}
