package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// What an ended task leaves may be more than a patch can hold. It is kept where it
// is, said once, and not tried again for ever.
func TestEditsBeyondEveryPatchAreKeptWhereTheyAre(t *testing.T) {
	req.Covers(t, "HA-034", "P9", "P12")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", func(s *sup) {
			s.begin()
			s.write("small.txt", "never committed\n")
			s.write("huge.bin", "")
			if err := os.Truncate(filepath.Join(s.cmd.Tree, "huge.bin"), 600<<20); err != nil {
				s.die(1, err.Error())
			}
			s.ok("done")
		})
		r.do("closeTask", in{"task_id": "one", "reason": "no more"})
		r.until("it was decided", func() bool { w := r.task(tid).Workspace; return w == nil || w.Kept != "" })
		was := r.task(tid)
		if was.Status != task.Abandoned || was.Workspace == nil {
			t.Fatalf("it is %s with the workspace %+v", was.Status, was.Workspace)
		}
		r.until("nothing is to be done any more", func() bool { return len(rows[app.Job](r, tid, "OUT#")) == 0 })
		time.Sleep(time.Hour) // sweeps come and go
		if now := r.task(tid); now.Version != was.Version {
			t.Errorf("it was tried again: version %d, then %d", was.Version, now.Version)
		}
		entries := rows[raise.Entry](r, tid, "JRN#")
		if len(entries) != 1 || entries[0].Actor.Role != identity.System || !strings.Contains(entries[0].Text, was.Workspace.Tree) ||
			!strings.Contains(entries[0].Text, "huge.bin") {
			t.Errorf("the journal says %+v", entries)
		}
		if b, err := os.ReadFile(filepath.Join(was.Workspace.Tree, "small.txt")); err != nil || string(b) != "never committed\n" {
			t.Errorf("what was kept: %q, %v", b, err)
		}

		_, err := r.try(r.owner, "reopenTask", in{"task_id": "one"})
		if fault.KindOf(err) != fault.Conflict || !strings.Contains(fault.Of(err).Public, was.Workspace.Tree) {
			t.Errorf("reopening says %v", err)
		}
		if err := os.Remove(filepath.Join(was.Workspace.Tree, "huge.bin")); err != nil {
			t.Fatal(err)
		}
		r.do("reopenTask", in{"task_id": "one"})
		if now := r.task(tid); now.Status != task.Backlog || now.Workspace != nil {
			t.Errorf("reopened as %s with %+v", now.Status, now.Workspace)
		}
		patches, err := filepath.Glob(filepath.Join(r.paths.Dir, "recovery", tid.Short(), "*.patch"))
		if err != nil || len(patches) != 1 {
			t.Errorf("what was left was saved as %v (%v)", patches, err)
		}
	})
}
