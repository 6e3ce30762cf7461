package app_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// commit records a commit of a task's agent, with the evidence its broker brings.
func (r *rig) commit(tid id.Task, sha string) app.Committed {
	r.t.Helper()
	who := r.agent(tid)
	who.Commit = &identity.Commit{Parent: r.load(tid).Tip, Commit: sha, Tree: "tree-" + sha}
	return do[app.Committed](r, who, "lazy_commit", args{"message": "work"})
}

func TestFinalRecordsTheHeadAndLeavesEverythingElseAlone(t *testing.T) {
	req.Covers(t, "TE-003", "TE-004", "FN-004")
	r := newRig(t)
	tid := r.working("task", "")
	before := r.load(tid)
	r.quiet(tid, func() {
		out := do[app.Declared](r, r.agent(tid), "lazy_final", args{"note": "all\ngreen"})
		if out.SHA != before.Tip || out.SHA == "" {
			t.Errorf("declared: %+v", out)
		}
	})
	got := r.load(tid)
	if d := got.Final; d == nil || d.SHA != before.Tip || d.Turn != before.Turn || d.Note != "all green" || d.At.IsZero() || d.Moved {
		t.Fatalf("recorded: %+v", d)
	}
	if got.Status != task.Working || !got.Claimed || got.Branch != before.Branch || got.Tip != before.Tip || got.Turn != before.Turn {
		t.Errorf("the task is %+v", got)
	}
	// The agent may keep working: a later commit moves the head, not the claim.
	r.commit(tid, "c1c1c1c1c1c1")
	shown := do[app.Shown](r, r.owner(), "showTask", args{"task_id": "task"})
	if !strings.HasPrefix(shown.FinalText, "declared final at "+before.Tip[:8]+"; head has since moved (") {
		t.Errorf("shown as %q", shown.FinalText)
	}
	raw, _ := json.Marshal(shown)
	for _, key := range []string{`"final":{"sha":"`, `"note":"all green"`, `"turn_id":`, `"declared_at":`, `"head_moved":true`, `"moved_by":`} {
		if !strings.Contains(string(raw), key) {
			t.Errorf("the JSON form has no %s", key)
		}
	}
}

func TestFinalIsRefusedForAnOpenBlockingItemOnly(t *testing.T) {
	req.Covers(t, "TE-009", "FN-003")
	r := newRig(t)
	tid := r.working("task", "")
	r.repo.dirty[string(tid)] = []string{"left.txt"}
	r.raised(tid, "by the way", false)
	do[app.Declared](r, r.agent(tid), "lazy_final", args{})
	rid := r.raised(tid, "Which one?", true)
	err := r.refused(r.agent(tid), refusal.FinalBlocked, "lazy_final", args{})
	if err == nil || !strings.Contains(err.Error(), rid) || !strings.Contains(err.Error(), "Which one?") || !strings.Contains(err.Error(), "already chose the other ending") {
		t.Errorf("the refusal is %v", err)
	}
	for _, bypass := range []string{"force", "yes", "override"} {
		r.refused(r.agent(tid), refusal.InvalidArguments, "lazy_final", args{bypass: true})
	}
	do[app.Resolutions](r, r.owner(), "resolveRaised", resolutions(resolve(rid, "dismiss")))
	do[app.Declared](r, r.agent(tid), "lazy_final", args{})
}

func TestOwnTurnToolsServeTheRunningAgentAlone(t *testing.T) {
	req.Covers(t, "TE-015", "FN-001")
	r := newRig(t)
	tid := r.working("task", "")
	kid := r.create("kid", tid)
	late := r.agent(tid)
	r.again(tid)
	for tool, in := range map[string]args{
		"lazy_final": {}, "lazy_report": {"summary": "s"}, "lazy_update_progress": {"message": "m"},
		"lazy_raise": {"title": "t", "content": "c", "blocking": true}, "lazy_commit": {"message": "m"},
	} {
		if err := r.refused(r.builder(), refusal.AgentOnly, tool, in); err == nil || len(fault.Of(err).Next) == 0 {
			t.Errorf("%s tells the builder no reason: %v", tool, err)
		}
		r.refused(late, refusal.Fenced, tool, in)
		in["task_id"] = string(kid.TaskID)
		r.refused(r.agent(tid), refusal.InvalidArguments, tool, in)
	}
	r.park(tid)
	gone := r.agent(tid)
	r.refused(gone, refusal.Fenced, "lazy_final", args{})
}

func TestTheProgressLineIsOneShortLineOfTheRunningTurn(t *testing.T) {
	req.Covers(t, "OB-034", "OB-035", "OB-037", "FN-011")
	r := newRig(t)
	tid := r.working("task", "")
	version := r.load(tid).Version
	long := strings.Repeat("word  \n ", 100)
	out := do[app.Progressed](r, r.agent(tid), "lazy_update_progress", args{"message": long})
	if !out.Truncated || len([]rune(out.Stored)) != 120 || strings.Contains(out.Stored, "  ") || strings.Contains(out.Stored, "\n") {
		t.Errorf("stored %+v", out)
	}
	out = do[app.Progressed](r, r.agent(tid), "lazy_update_progress", args{"message": "  running\tthe  tests "})
	if out.Truncated || out.Stored != "running the tests" {
		t.Errorf("stored %+v", out)
	}
	status := do[app.Standing](r, r.owner(), "getStatus", args{"task_id": "task"})
	if status.Task.Text != "working(agent: running the tests)" || status.Task.Progress != "running the tests" {
		t.Errorf("shown as %q", status.Task.Text)
	}
	if got := r.load(tid).Version; got != version {
		t.Errorf("the task's own row went from version %d to %d", version, got)
	}
	// A post that cannot be stored costs the caller nothing.
	r.log.failWith(errors.New("disk full"))
	out, err := r.UpdateProgress(t.Context(), app.Call{Who: r.agent(tid), Tool: "lazy_update_progress"}, "lost")
	if err != nil || out.Stored != "lost" {
		t.Errorf("a failing store answered %+v, %v", out, err)
	}
	r.log.failWith(nil)
	r.again(tid)
	status = do[app.Standing](r, r.owner(), "getStatus", args{"task_id": "task"})
	if status.Task.Progress != "" || status.Task.Text != "working(agent)" {
		t.Errorf("the next turn began with %q", status.Task.Text)
	}
}

func TestASecondReportReplacesWhatItNamesAgain(t *testing.T) {
	req.Covers(t, "FN-008")
	r := newRig(t)
	tid := r.working("task", "")
	r.quiet(tid, func() {
		do[app.Reported](r, r.agent(tid), "lazy_report", args{
			"summary": "first", "sections": []args{{"title": "Risk", "body": "high\x00"}, {"title": "Tests", "body": "none"}},
			"presentation": args{"units": []any{args{"name": "core\x01"}}},
		})
		out := do[app.Reported](r, r.agent(tid), "lazy_report", args{"summary": "second", "sections": []args{{"title": "Tests", "body": "twelve"}}})
		if out.Revision != 2 {
			t.Errorf("revision %d", out.Revision)
		}
	})
	got := do[app.Shown](r, r.owner(), "showTask", args{"task_id": "task", "sections": []string{"report"}}).Report
	if got == nil || got.Summary != "second" || len(got.Sections) != 2 || got.Sections[1].Body != "twelve" || !strings.HasPrefix(got.Sections[0].Body, `high\u0000`) {
		t.Fatalf("report: %+v", got)
	}
	if raw, _ := json.Marshal(got.Presentation); string(raw) != `{"units":[{"name":"core\\u0001"}]}` {
		t.Errorf("presentation: %s", raw)
	}
}

func TestACommitIsDurableOnTheRecordedTipOnly(t *testing.T) {
	r := newRig(t)
	tid := r.working("task", "")
	base := r.load(tid).Tip
	ev := identity.Commit{Parent: base, Commit: "aaaa1111", Tree: "tttt", Drifted: "dddd"}
	who := r.agent(tid)
	who.Commit = &ev
	out := do[app.Committed](r, who, "lazy_commit", args{"message": "Fix it\n\nLong story.", "files": []string{"a.go"}})
	if out.Commit != "aaaa1111" || !out.Durable || out.Drifted != "dddd" {
		t.Errorf("answered %+v", out)
	}
	got := r.load(tid)
	if got.Tip != "aaaa1111" || got.Commits != 1 || got.Base != base {
		t.Errorf("the task is at %s after %d", got.Tip, got.Commits)
	}
	c := rows[app.CommitRow](r, tid, "COM#")
	if len(c) != 1 || c[0].Parent != base || c[0].Commit != "aaaa1111" || c[0].Tree != "tttt" || c[0].Message != "Fix it" || c[0].Turn != got.Turn || c[0].Actor.Role != identity.Agent {
		t.Errorf("recorded: %+v", c)
	}
	// Told again, after a crash between row and ref: the same answer, one row.
	do[app.Committed](r, who, "lazy_commit", args{"message": "Fix it"})
	if n := len(rows[app.CommitRow](r, tid, "COM#")); n != 1 || r.load(tid).Commits != 1 {
		t.Errorf("%d rows", n)
	}
	before := r.snapshot()
	stale := who
	stale.Commit = &identity.Commit{Parent: base, Commit: "bbbb", Tree: "t"}
	if _, err := r.try(r.call(stale), "lazy_commit", args{"message": "m"}); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "aaaa1111") {
		t.Errorf("a commit beside the tip answered %v", err)
	}
	r.unchanged(before)
}

func TestOnlyTheBrokerOfTheRunCommits(t *testing.T) {
	req.Covers(t, "OT-021", "RP-014")
	r := newRig(t)
	tid := r.working("task", "")
	before := r.snapshot()
	if _, err := r.try(r.call(r.agent(tid)), "lazy_commit", args{"message": "m"}); fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "git broker of the task's own run") {
		t.Errorf("without evidence: %v", err)
	}
	loose := r.agent(tid)
	loose.Epoch, loose.Commit = 0, &identity.Commit{Parent: r.load(tid).Tip, Commit: "c", Tree: "t"}
	if _, err := r.try(r.call(loose), "lazy_commit", args{"message": "m"}); fault.KindOf(err) != fault.Denied {
		t.Errorf("without a stamp: %v", err)
	}
	r.unchanged(before)
	who := r.agent(tid)
	who.Commit = &identity.Commit{Parent: r.load(tid).Tip, Commit: "c", Tree: "t"}
	for _, in := range []args{{}, {"message": ""}, {"message": " \n"}, {"message": 3}, {"message": "m", "files": "a"}, {"message": "m", "amend": true}} {
		r.refused(who, refusal.InvalidArguments, "lazy_commit", in)
	}
}

func TestAReadOnlyTurnIsServedReadsOnly(t *testing.T) {
	req.Covers(t, "OT-016", "OT-017")
	r := newRig(t)
	tid := r.working("task", "")
	kid := r.create("kid", tid)
	r.park(tid)
	do[app.Begun](r, r.owner(), "askTask", args{"task_id": "task", "question": "why?"})
	me := r.agent(tid)
	for tool, in := range map[string]args{
		"lazy_final": {}, "lazy_create": {"goal": "g", "prompt": "p"}, "lazy_journal": {"content": "c"},
		"lazy_comment": {"task_id": string(kid.TaskID), "message": "m"}, "lazy_report": {"summary": "s"},
	} {
		r.refused(me, refusal.ReadOnlyTurn, tool, in)
	}
	claims := me
	claims.Turn = "" // whatever a relayed call says of its turn, the row decides
	r.refused(claims, refusal.ReadOnlyTurn, "lazy_final", args{})
	do[app.Shown](r, me, "lazy_show", args{"task_id": "task"})
	do[app.Listing](r, me, "lazy_list", args{})
}
