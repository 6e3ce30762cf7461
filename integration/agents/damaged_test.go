package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lazyplane/lazyplane/integration/modelfake"
	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// damage is what can become of the file that holds a conversation.
type damage struct {
	name string
	do   func(path string) error
	// words of the reason in the record, by CLI
	why map[string]string
}

func damages() []damage {
	const claude, codex, opencode = "claude-code", "codex", "opencode"
	none := "No conversation found"
	resume := "thread/resume failed"
	replace := func(make func(string) error) func(string) error {
		return func(path string) error { return errors.Join(os.Remove(path), make(path)) }
	}
	return []damage{
		{"cut off in its first record", func(path string) error { return os.Truncate(path, 40) }, map[string]string{claude: none, codex: resume, opencode: "database disk image is malformed"}},
		{"garbled", func(path string) error {
			b, err := os.ReadFile(path)
			for i := range b {
				b[i] = b[i]*7 + 13
			}
			return errors.Join(err, os.WriteFile(path, b, 0o600))
		}, map[string]string{claude: none, codex: resume, opencode: "file is not a database"}},
		{"emptied", func(path string) error { return os.Truncate(path, 0) }, map[string]string{claude: none, codex: resume, opencode: "Session not found"}},
		{"a directory", replace(func(path string) error { return os.Mkdir(path, 0o700) }), map[string]string{claude: "was a directory", codex: "was a directory", opencode: "was a directory"}},
		{"a named pipe", replace(func(path string) error { return syscall.Mkfifo(path, 0o600) }), map[string]string{claude: "was a named pipe", codex: "was a named pipe", opencode: "was a named pipe"}},
	}
}

// A conversation whose file is damaged is begun afresh like one that is lost, in
// the same turn and once, whatever the CLI makes of the file: it is no crash, and
// no CLI is left waiting at a pipe.
func TestADamagedConversationIsBegunAfreshFromTheRecord(t *testing.T) {
	req.Covers(t, "CS-18", "CR-013", "CR-014")
	each(t, func(t *testing.T, c cli) {
		w := begin(t, c, "expect remember the word quince\nreply\n  say The first turn is done.\n", "")
		w.start("damaged", "please remember the word quince")
		w.rest("damaged")
		w.scripted()
		all := damages()
		if c.id == "opencode" {
			all = []damage{all[1], all[4]} // it is slow to start; its driver's tests read its words for the others
		}
		for i, d := range all {
			w.damage(d)
			w.model.Add(modelfake.Must(fmt.Sprintf(`
expect please remember the word quince
expect The first turn is done.
expect is lost, so this is a fresh one
expect what was the word, please, %[1]d
reply
  say It was quince, %[1]d.
`, i)))
			w.call("unblockTask", map[string]any{"task_id": "damaged", "feedback": fmt.Sprintf("what was the word, please, %d", i)})
			if got := w.rest("damaged")["status"]; got != "blocked" {
				t.Errorf("%s: it rests as %v", d.name, got)
			}
			w.scripted()
			s := text(w.show("damaged"))
			if n := strings.Count(s, `"lost_session"`); n != i+1 || strings.Contains(s, `"side":"crash"`) || strings.Contains(s, `"failure"`) {
				t.Errorf("%s: %d conversations were lost: %s", d.name, n, s)
			}
			if why := d.why[c.id]; !strings.Contains(s, why) {
				t.Errorf("%s: the record does not say %q: %s", d.name, why, s)
			}
		}
	})
}

// damage damages what the CLI keeps its conversations in.
func (w *world) damage(d damage) {
	w.t.Helper()
	drv, _ := drivers.Find(w.cli.id, nil)
	own, _ := drv.(agent.Installed).Holds("*")
	done := 0
	for _, p := range own {
		found, err := filepath.Glob(filepath.Join(w.paths.Dir, "runs", "*", "box", "agent", p))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range found {
			if err := d.do(f); err != nil {
				w.t.Fatal(err)
			}
			done++
		}
	}
	if done == 0 {
		w.t.Fatal("there is no conversation to damage")
	}
}
