package agents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// The control plane is gone while the agent works and calls a tool, and comes
// back; the agent never notices more than a slow answer.
func TestTheCLIWorksThroughARestartOfTheControlPlane(t *testing.T) {
	req.Covers(t, "AG-020", "MC-010", "MC-018", "SY-040")
	each(t, func(t *testing.T, c cli) {
		w := begin(t, c, `
reply
  call shell {"command": "echo x > x.txt; touch here; while [ ! -e go ]; do sleep 0.05; done; rm here go"}
reply
  call lazy_commit {"message": "add x"}
reply
  call lazy_final {"note": "done"}
reply
  say Done across a restart.
`, "")
		w.start("up", "please work")
		tree := w.tree("up")
		w.until("the agent is in the middle of its work", func() bool {
			_, err := os.Stat(filepath.Join(tree, "here"))
			return err == nil
		})
		w.down()
		write(t, tree, "go", "")
		w.until("the agent goes on", func() bool {
			_, err := os.Stat(filepath.Join(tree, "here"))
			return err != nil
		})
		w.up()
		if got := w.rest("up")["status"]; got != "blocked" {
			t.Errorf("it rests as %v", got)
		}
		if s := text(w.show("up")); !strings.Contains(s, "Done across a restart.") || strings.Contains(s, `"side":"crash"`) {
			t.Errorf("the record: %s", s)
		}
		if got := git(t, w.root, "log", "-1", "--format=%s", "lazy/up"); got != "add x" {
			t.Errorf("the branch ends with %q", got)
		}
		w.scripted()
	})
}
