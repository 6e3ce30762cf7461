package supervisor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// upstream commits a file on main.
func (r *rig) upstream(name, content string) string {
	r.t.Helper()
	must(r.t, os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o644))
	r.git("add", name)
	r.git("commit", "-q", "-m", "upstream")
	return r.git("rev-parse", "main")
}

// allows lets the plane answer lazy_sync about the run's own task with what is to
// be merged, as the real one does.
func (r *rig) allows() {
	r.plane.Do(func(p *planetest.Plane) {
		p.Tool = func(c planetest.Call) (any, error) {
			var in struct {
				Task string `json:"task_id"`
			}
			_ = json.Unmarshal(c.Arguments, &in)
			if c.Tool != "lazy_sync" || in.Task != "fix" {
				return map[string]any{"tool": c.Tool, "task_id": in.Task}, nil
			}
			var tip string
			p.Do(func(p *planetest.Plane) { tip = p.Tip })
			return op.Synced{Task: taskID, Code: "fix", Status: "working", Ref: "main", Upstream: r.git("rev-parse", "main"), Head: tip}, nil
		}
	})
}

// said reads the answers that a script left in the workspace, one a line.
func (r *rig) said(name string) []op.Synced {
	r.t.Helper()
	var out []op.Synced
	for line := range strings.Lines(r.file(name)) {
		var s op.Synced
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			r.t.Fatalf("%q: %v", line, err)
		}
		out = append(out, s)
	}
	return out
}

const conflicted = `echo ours > a.txt; lazy-agent call lazy_commit '{"message":"ours"}' >/dev/null
s() { lazy-agent call lazy_sync '{"task_id":"fix"}' | tr -d '\n' >> said.log; echo >> said.log; }
s
lazy-agent call lazy_sync '{"task_id":"fix"}' 2> refused.log
grep -q '<<<<<<<' a.txt || exit 9
echo both > a.txt; git add a.txt
lazy-agent call lazy_sync '{"task_id":"fix"}' 2> resolved.log
lazy-agent call lazy_commit '{"message":"resolved"}' >/dev/null || exit 8
s
echo done`

func TestAnAgentSyncsItsOwnTaskAndResolvesWhatConflicts(t *testing.T) {
	req.Covers(t, "CM-038", "SN-011", "GT-012", "GT-016")
	r := newRig(t, conflicted)
	must(t, os.WriteFile(filepath.Join(r.dir, ".git/info/exclude"), []byte("*.log\n"), 0o644))
	up := r.upstream("a.txt", "theirs\n")
	r.allows()
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "text", resp.Text, "done")
	said := r.said("said.log")
	if len(said) != 2 {
		t.Fatalf("the two syncs said %+v", said)
	}
	equal(t, "conflict", strings.Join(said[0].Conflicts, " "), "a.txt")
	equal(t, "merged at first", said[0].Merged, "")
	if !strings.Contains(said[0].Next, "lazy_commit") || !strings.Contains(said[1].Next, "already") {
		t.Errorf("what to do next: %q, then %q", said[0].Next, said[1].Next)
	}
	if s := r.file("refused.log"); !strings.Contains(s, "unresolved merge: a.txt") {
		t.Errorf("a sync on top of the conflict said %q", s)
	}
	if s := r.file("resolved.log"); !strings.Contains(s, "not committed") {
		t.Errorf("a sync on top of the resolved merge said %q", s)
	}
	equal(t, "head", r.git("rev-parse", "lazy/fix"), resp.Head)
	equal(t, "parents", r.git("rev-parse", "lazy/fix^2"), up)
	equal(t, "content", r.git("show", "lazy/fix:a.txt"), "both")
	equal(t, "main", r.git("rev-parse", "main"), up)
	equal(t, "left", resp.Uncommitted.Total, 0)
	equal(t, "settled", resp.Settled, true)
}

const clean = `lazy-agent call lazy_sync '{"task_id":"fix"}' | tr -d '\n' > said.log; cat up.txt
echo edit > up.txt; echo mine > b.txt
lazy-agent call lazy_sync '{"task_id":"other"}' > other.log
lazy-agent call lazy_update_progress '{"message":"synced"}' >/dev/null; until test -e on.log; do sleep 0.01; done
lazy-agent call lazy_sync '{"task_id":"fix"}' 2> way.log
lazy-agent call lazy_commit '{"message":"mine"}' >/dev/null && lazy-agent call lazy_sync '{"task_id":"fix"}' > last.log`

func TestASyncInsideMergesCleanlyOrRefusesAndChangesNothing(t *testing.T) {
	req.Covers(t, "CM-037", "SN-004", "SN-005")
	r := newRig(t, clean)
	must(t, os.WriteFile(filepath.Join(r.dir, ".git/info/exclude"), []byte("*.log\n"), 0o644))
	up := r.upstream("up.txt", "one\n")
	r.allows()
	r.launch()
	r.plane.Until("the agent has synced", func(p *planetest.Plane) bool {
		return slices.ContainsFunc(p.Calls, func(c planetest.Call) bool { return c.Tool == "lazy_update_progress" })
	})
	said := r.said("said.log")
	equal(t, "merged", said[0].Merged, "Merged main @ "+up[:7])
	equal(t, "head", said[0].Head, r.git("rev-parse", "lazy/fix"))
	if s := r.file("other.log"); !strings.Contains(s, `"task_id":"other"`) {
		t.Errorf("about another task the control plane answers, not this: %q", s)
	}
	next := r.upstream("up.txt", "one\ntwo\n")
	must(t, os.WriteFile(filepath.Join(r.ws.Tree, "on.log"), nil, 0o644))
	resp := r.plane.Report()
	r.gone()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "text", resp.Text, "one")
	if s := r.file("way.log"); !strings.Contains(s, "up.txt") || !strings.Contains(s, "Nothing was merged") {
		t.Errorf("with an edit in the way it said %q", s)
	}
	if s := r.file("last.log"); !strings.Contains(s, `"conflicts"`) {
		t.Errorf("both sides changed up.txt, and it said %q", s)
	}
	// The last conflict was left unresolved: it is taken back, not left at rest.
	equal(t, "merge state", strings.Join(resp.MergeState, " "), "up.txt")
	equal(t, "settled", resp.Settled, true)
	equal(t, "main", r.git("rev-parse", "main"), next)
	r.plane.Do(func(p *planetest.Plane) {
		ops := ""
		for _, g := range p.Git {
			ops += g.Op + " "
		}
		equal(t, "operations", ops, "merge merge_commit merge merge_abort merge reset_head merge_abort ")
	})
}

func TestAReadOnlyTurnSyncsNothing(t *testing.T) {
	req.Covers(t, "AG-011")
	r := newRig(t, `lazy-agent call lazy_sync '{"task_id":"fix"}'; echo done`, func(c *turn.Command) { c.Kind, c.ReadOnly = turn.Ask, true })
	r.upstream("up.txt", "one\n")
	r.allows()
	resp := r.run()
	equal(t, "head", resp.Head, r.base)
	r.plane.Do(func(p *planetest.Plane) { equal(t, "operations of git", len(p.Git), 0) })
}
