package agents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/modelfake"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// A conversation that its CLI has lost is no crash loop: the turn begins a fresh
// one, told from the record what was asked and answered before, and says so.
func TestALostConversationIsBegunAfreshFromTheRecord(t *testing.T) {
	req.Covers(t, "CS-18", "CR-013", "CR-014")
	each(t, func(t *testing.T, c cli) {
		w := begin(t, c, `
expect please remember the word quince
expect and the word medlar
reply
  say The first turn is done.
`, "")
		w.call("createTask", map[string]any{"goal": "Do the work", "prompt": "please remember the word quince", "code": "lost", "model": c.model})
		w.call("addComment", map[string]any{"task_id": "lost", "message": "and the word medlar"})
		w.call("startTask", map[string]any{"task_id": "lost"})
		w.rest("lost")
		w.scripted()

		w.forget(map[string]string{"claude-code": "claude/projects", "codex": "codex/sessions", "opencode": "opencode/data"}[c.id])
		w.model.Add(modelfake.Must(`
expect please remember the word quince
expect and the word medlar
expect The first turn is done.
expect is lost, so this is a fresh one
expect what were the words
reply
  say Quince and medlar.
`))
		w.call("unblockTask", map[string]any{"task_id": "lost", "feedback": "what were the words"})
		if got := w.rest("lost")["status"]; got != "blocked" {
			t.Errorf("it rests as %v", got)
		}
		w.scripted()
		s := text(w.show("lost"))
		if strings.Count(s, `"lost_session"`) != 1 || strings.Contains(s, `"side":"crash"`) || strings.Contains(s, `"failure"`) {
			t.Errorf("the record: %s", s)
		}
		if c.id == "opencode" {
			return // it is slow to start, and the next turn is like any other
		}
		w.model.Add(modelfake.Must(`
expect Quince and medlar.
reply
  say It goes on.
`))
		w.call("unblockTask", map[string]any{"task_id": "lost", "feedback": "thank you"})
		w.rest("lost")
		w.scripted()
		if s := text(w.show("lost")); strings.Count(s, `"lost_session"`) != 1 {
			t.Errorf("the fresh conversation does not go on: %s", s)
		}
	})
}

// forget removes what a CLI keeps its conversations in.
func (w *world) forget(what string) {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.paths.Dir, "runs", "*", "box", "agent", what))
	if err != nil || len(found) != 1 {
		w.t.Fatalf("conversations: %v, %v", found, err)
	}
	if err := os.RemoveAll(found[0]); err != nil {
		w.t.Fatal(err)
	}
}
