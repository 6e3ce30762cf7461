package e2e

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestFinishedTasksAreTakenUpAgainWithTheirWork(t *testing.T) {
	req.Covers(t, "HA-022", "HA-023", "SM-019")
	w := begin(t, commits, "")
	status := func(code string) any { return w.call("showTask", map[string]any{"task_id": code})["status"] }

	w.call("createTask", map[string]any{"goal": "Never started", "prompt": "x", "code": "idle"})
	w.call("closeTask", map[string]any{"task_id": "idle", "reason": "not now"})
	if got := status("idle"); got != "abandoned" {
		t.Fatalf("a closed task is %v", got)
	}
	w.call("reopenTask", map[string]any{"task_id": "idle"})
	if got := status("idle"); got != "backlog" {
		t.Errorf("a closed task that had not started came back as %v", got)
	}

	w.call("createTask", map[string]any{"goal": "Has work", "prompt": "x", "code": "kept"})
	w.call("startTask", map[string]any{"task_id": "kept"})
	w.rest("kept")
	tip := git(t, w.root, "rev-parse", "lazy/kept")
	w.call("rejectTask", map[string]any{"task_id": "kept", "reason": "no"})
	w.emptied(t.Context())
	for git(t, w.root, "branch", "--list", "lazy/kept") != "" {
		w.call("listTasks", map[string]any{}) // the branch goes with the outbox, soon
	}
	w.call("reopenTask", map[string]any{"task_id": "kept"})
	if got := status("kept"); got != "blocked" {
		t.Errorf("a rejected task with work came back as %v", got)
	}
	w.call("unblockTask", map[string]any{"task_id": "kept", "feedback": "once more"})
	w.rest("kept")
	if got := git(t, w.root, "rev-parse", "lazy/kept~1"); got != tip {
		t.Errorf("the work of the rejected attempt is not under the new commit: %s, want %s", got, tip)
	}

	w.call("createTask", map[string]any{"goal": "Merged", "prompt": "x", "code": "done"})
	w.call("startTask", map[string]any{"task_id": "done"})
	w.rest("done")
	w.call("acceptTask", map[string]any{"task_id": "done"})
	if _, err := w.try("reopenTask", map[string]any{"task_id": "done"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a merged task was reopened without a reason: %v", err)
	}
	w.call("reopenTask", map[string]any{"task_id": "done", "reason": "a follow-up"})
	if got := status("done"); got != "blocked" {
		t.Errorf("a merged task came back as %v", got)
	}
	w.call("unblockTask", map[string]any{"task_id": "done", "feedback": "more"})
	w.rest("done")
	w.call("acceptTask", map[string]any{"task_id": "done"})
	if got := git(t, w.root, "show", "main:work.txt"); got != "work of done\nwork of done" {
		t.Errorf("after the second accept main holds %q", got)
	}
}
